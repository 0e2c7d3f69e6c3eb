/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What linear memory of a swappable tenant is backed by: physical memory that is ours, mapped in
 * addresses that are ours, so that the one can leave while the others stay. Each device has one
 * reservation of addresses, in pages of a granule. An allocation of more than SMALL_BYTES has pages
 * of its own; smaller ones share a page (cut.h). What goes together with one physical handle is a
 * piece: pages that are mapped, leave and come back together.
 *
 * The last allocation of a piece takes its physical memory with it, so that what the device loses
 * is what linear.c charges. But one piece of one page, and one of several, are spare: the last that
 * were freed stay as they are, mapped and charged, for the next allocation of just so many pages. So
 * a program that allocates and frees in turn does not make, map and end it each time, which takes
 * the driver longer than its own pair of calls. All work on it is done, it is nobody's, and nobody
 * finds it; it ends before anything moves. Pools, which keep more, have pieces of their own.
 *
 * A handle that the program makes (cuMemCreate) has a piece, too, whose address is the handle that
 * the program gets: the driver's own changes when the memory leaves. The program maps it where it
 * likes (mapping.h). The pages are mapped only when content is copied.
 *
 * A lock is held for the tables alone, never across a call of the driver. A piece that is being
 * made or ended is nobody's meanwhile.
 */
#ifndef ALLOT_GUEST_MOVABLE_BACKING_H
#define ALLOT_GUEST_MOVABLE_BACKING_H

#include "guest/core/guest.h"
#include "guest/movable/pieces.h"
#include "guest/movable/state.h"

/*
 * What no other allocation of the process has had; the driver's own numbers count up from 1, too.
 */
static inline uint64_t backing_id(struct guest *guest)
{
	return (UINT64_C(1) << 62) + atomic_fetch_add(&guest->movable->backed, 1);
}

/*
 * As cuMemAlloc. The current context's device is `device`. *spare: what was spare and is the
 * caller's, for just so much, or none; then what is taken for it, if anything is. Either is the
 * allocation's from then on, and has ended where this fails.
 */
CUresult backing_alloc(struct guest *guest, struct guest_device *device, uint64_t bytes,
		       CUdeviceptr *ret, struct spare_piece *spare);

/*
 * A piece for a pool, which cuts it by itself: more than SMALL_BYTES. `peers`: whose work may reach
 * it, a bit by ordinal, whatever contexts enable. `owner`: of the pool's, see backing_owner.
 */
CUresult backing_alloc_for(struct guest *guest, struct guest_device *device, uint64_t bytes,
			   uint64_t peers, void *owner, CUdeviceptr *ret);

/* Whose piece has an address; NULL: no pool's. */
void *backing_owner(struct guest *guest, CUdeviceptr at);
/* It is to be nobody's, and freed. */
void backing_disown(struct guest *guest, CUdeviceptr at);
/* Others may reach it from now on than did. */
CUresult backing_set_peers(struct guest *guest, CUdeviceptr at, uint64_t peers);

/*
 * The start of an allocation; no work uses it any more. Whether its piece is spare now, which takes
 * that nothing speaks against it and that `ret_old` is not NULL: there is the one that was.
 */
bool backing_free(struct guest *guest, struct guest_device *device, CUdeviceptr at,
		  struct spare_piece *ret_old);

/* Of any kind. */
bool backing_has_spare(struct guest *guest, const struct guest_device *device);
/* The one of a kind, or one of just so many bytes, more than SMALL_BYTES. */
struct spare_piece backing_take_spare(struct guest *guest, struct guest_device *device,
					enum pieces_kind kind);
struct spare_piece backing_take_fit(struct guest *guest, struct guest_device *device,
				      uint64_t bytes);
/* Its physical memory goes. */
void backing_end_spare(struct guest *guest, struct guest_device *device, struct spare_piece spare);

/* It is to be no other allocation's: the program sets an attribute of it. */
void backing_mark(struct guest *guest, CUdeviceptr at);

/* The device whose reservation has an address, mapped or not; NULL: none has. */
struct guest_device *backing_device(struct guest *guest, CUdeviceptr at);

/* The start of the allocation that has an address; 0: none has. */
CUdeviceptr backing_start(struct guest *guest, CUdeviceptr at);

/* Physical memory of the program's own, made by `prop`: takes it, and answers the handle. */
CUresult backing_adopt(struct guest *guest, struct guest_device *device,
		       const CUmemAllocationProp *prop, uint64_t bytes,
		       CUmemGenericAllocationHandle handle, uint64_t *ret);
void backing_abandon(struct guest *guest, CUmemGenericAllocationHandle handle);

/*
 * The driver's handle for one that the program has; the same if it is none of ours, 0 if it has
 * ended.
 */
CUmemGenericAllocationHandle backing_handle(struct guest *guest,
					    CUmemGenericAllocationHandle handle);

/*
 * Maps physical memory of another process, which work on `user`, too, may reach. An error: the
 * handle is the caller's still. Ends with backing_abandon.
 */
CUresult backing_import(struct guest *guest, struct guest_device *device, uint64_t bytes,
			CUdevice user, CUmemGenericAllocationHandle handle, uint64_t *ret);

struct backing_piece {
	CUdeviceptr at;
	uint64_t bytes;
	bool resident;
	bool imported; /* its content is another process's */
	void *owner;   /* of a pool's; NULL: it is none's */
};

/* The piece that has an address. False: none has. */
bool backing_find(struct guest *guest, CUdeviceptr at, struct backing_piece *ret);

/* Work on the peer may reach the device's memory from now on, or no more. */
CUresult backing_share(struct guest *guest, struct guest_device *device, CUdevice peer, bool may);

/* --- For who moves it, while the gate is shut (pass.h): nobody makes or ends pieces ---------- */

/* The piece with the lowest address at or above `from`. False: there is none. */
bool backing_next(struct guest *guest, struct guest_device *device, CUdeviceptr from,
		  struct backing_piece *ret);

/* Before its content is copied out, or it is exported: the pages are mapped. */
CUresult backing_expose(struct guest *guest, struct guest_device *device, CUdeviceptr at);

/*
 * Takes the physical memory away, which nothing else maps any more; it is still there if the driver
 * refuses.
 */
CUresult backing_detach(struct guest *guest, struct guest_device *device, CUdeviceptr at);

/* Puts physical memory there again, with any content. */
CUresult backing_attach(struct guest *guest, struct guest_device *device, CUdeviceptr at);

/* The same of memory that is imported anew. An error: the handle is the caller's still. */
CUresult backing_attach_import(struct guest *guest, CUdeviceptr at,
			       CUmemGenericAllocationHandle handle);

#endif
