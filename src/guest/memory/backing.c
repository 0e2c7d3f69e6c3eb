/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/memory/backing.h"

#include <sched.h>
#include <sys/mman.h>

#include "base/lock.h"
#include "guest/core/entry.h"
#include "guest/core/object.h"
#include "guest/memory/cut.h"

/*
 * Addresses are handed out in turn, and none again before all others were: a program that uses what
 * it freed is found out. So there are several times as many as a device has memory.
 */
#define ADDRESSES 8

enum piece_state {
	PIECE_MOVING, /* being made or ended: its pages are taken, and that is all */
	PIECE_HERE,
	PIECE_AWAY,
};

/* At the index of the first of its pages. */
struct piece {
	CUmemGenericAllocationHandle handle; /* the driver's */
	uint32_t pages;
	uint32_t cut;  /* 1 + index; 0: one allocation has all of it */
	uint32_t next; /* of the cut ones: 1 + the next one's page */
	uint8_t state; /* enum piece_state */
	bool adopted;  /* it is the program's */
	bool imported; /* it is another process's */
	bool mapped;
	bool exposing; /* a thread is about to map it */
	uint8_t user;  /* of an imported one: a device that reaches it besides */
	void *owner;   /* of a pool's; NULL: it is none's */
	uint64_t peers; /* of a pool's: whose work may reach it */
	/* Of what it is made by. */
	CUmemAllocationHandleType types;
	unsigned char compression, rdma;
};

struct backing {
	CUdeviceptr base;
	uint32_t pages;
	uint64_t mapped_bytes; /* of the tables, in one mapping with this */
	_Atomic uint64_t peers; /* bit by ordinal: whose work may reach it */
	CUmemAllocationHandleType types; /* so that it can be shared, see exporter.h */

	struct lock lock; /* of all below */
	uint32_t cursor;
	uint32_t small;	     /* the first cut piece: 1 + page */
	uint32_t ncuts, cuts_used;
	uint32_t free_cut; /* of those that were used: 1 + index, linked by `most` */
	uint32_t *first;   /* of each page: 1 + the first page of its piece; 0: free */
	struct piece *piece;
	struct cut *cut;
};

static CUdeviceptr backing_address(const struct backing *backing, uint32_t page)
{
	return backing->base + page * GRANULE_BYTES;
}

/* --- The tables ----------------------------------------------------------------------------- */

static struct backing *backing_map(uint32_t pages, uint32_t ncuts)
{
	size_t head = round_up(sizeof(struct backing), 4096);
	size_t first = round_up(pages * sizeof(uint32_t), 4096);
	size_t piece = round_up(pages * sizeof(struct piece), 4096);
	size_t bytes = head + first + piece + ncuts * sizeof(struct cut);
	char *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	struct backing *backing = (struct backing *)at;

	if (at == MAP_FAILED)
		return NULL;
	backing->pages = pages;
	backing->ncuts = ncuts;
	backing->mapped_bytes = bytes;
	backing->first = (uint32_t *)(at + head);
	backing->piece = (struct piece *)(at + head + first);
	backing->cut = (struct cut *)(at + head + first + piece);
	return backing;
}

static void backing_unmap(struct backing *backing)
{
	munmap(backing, backing->mapped_bytes);
}

static struct backing *backing_get(struct guest *guest, const struct guest_device *device)
{
	return atomic_load_explicit(&guest->backing[device->ordinal], memory_order_acquire);
}

static CUmemAllocationHandleType backing_types(const struct guest_device *device)
{
	int can = 0;

	DRIVER(cuDeviceGetAttribute,
	       (&can, CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED,
		device->ordinal));
	return can ? CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR : CU_MEM_HANDLE_TYPE_NONE;
}

static struct backing *backing_make(struct guest *guest, struct guest_device *device)
{
	uint32_t granules = (uint32_t)(round_up(device->total_bytes, GRANULE_BYTES) / GRANULE_BYTES);
	struct backing *made = backing_get(guest, device), *expected = NULL;

	if (made)
		return made;
	made = backing_map(granules * ADDRESSES, granules);
	if (!made)
		return NULL;
	made->peers = UINT64_C(1) << device->ordinal;
	made->types = backing_types(device);
	if (DRIVER(cuMemAddressReserve, (&made->base, made->pages * GRANULE_BYTES, 0, 0, 0))) {
		backing_unmap(made);
		return NULL;
	}
	if (atomic_compare_exchange_strong(&guest->backing[device->ordinal], &expected, made))
		return made;
	DRIVER(cuMemAddressFree, (made->base, made->pages * GRANULE_BYTES));
	backing_unmap(made);
	return expected;
}

/* So many free pages together, from `from` on and before `end`; UINT32_MAX: there are none. */
static uint32_t backing_find_run(const struct backing *backing, uint32_t from, uint32_t end,
				 uint32_t pages)
{
	uint32_t run = 0;

	for (uint32_t page = from; page < end; page++) {
		if (backing->first[page]) {
			page += backing->piece[page].pages - 1;
			run = 0;
		} else if (++run == pages) {
			return page + 1 - pages;
		}
	}
	return UINT32_MAX;
}

/* With the lock. The search begins and ends between pieces. */
static uint32_t backing_take_pages(struct backing *backing, uint32_t pages)
{
	uint32_t page;

	if (!pages || pages > backing->pages)
		return UINT32_MAX;
	page = backing_find_run(backing, backing->cursor, backing->pages, pages);
	if (page == UINT32_MAX)
		page = backing_find_run(backing, 0, backing->pages, pages);
	if (page == UINT32_MAX)
		return page;
	for (uint32_t i = 0; i < pages; i++)
		backing->first[page + i] = page + 1;
	backing->piece[page] =
		(struct piece){.pages = pages, .state = PIECE_MOVING, .types = backing->types};
	backing->cursor = page + pages < backing->pages ? page + pages : 0;
	return page;
}

static void backing_give_pages(struct backing *backing, uint32_t page)
{
	uint32_t pages = backing->piece[page].pages;

	for (uint32_t i = 0; i < pages; i++)
		backing->first[page + i] = 0;
}

static uint32_t backing_take_cut(struct backing *backing)
{
	uint32_t cut = backing->free_cut;

	if (cut)
		backing->free_cut = backing->cut[cut - 1].most;
	else if (backing->cuts_used < backing->ncuts)
		cut = ++backing->cuts_used;
	if (cut)
		backing->cut[cut - 1].most = CUT_UNITS;
	return cut;
}

/* It is empty: all of its bits are clear. */
static void backing_give_cut(struct backing *backing, uint32_t cut)
{
	backing->cut[cut - 1].most = backing->free_cut;
	backing->free_cut = cut;
}

/* --- Physical memory ------------------------------------------------------------------------ */

/* Who may reach it: as many descriptions as there are. */
static size_t backing_access(uint64_t peers, bool may, CUmemAccessDesc *desc)
{
	size_t n = 0;

	for (int i = 0; i < GUEST_DEVICES; i++)
		if (peers >> i & 1)
			desc[n++] = (CUmemAccessDesc){
				.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = i},
				.flags = may ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE
					     : CU_MEM_ACCESS_FLAGS_PROT_NONE,
			};
	return n;
}

static CUresult backing_create(const struct guest_device *device, const struct piece *piece,
			       CUmemGenericAllocationHandle *ret)
{
	const CUmemAllocationProp prop = {
		.type = CU_MEM_ALLOCATION_TYPE_PINNED,
		.requestedHandleTypes = piece->types,
		.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device->ordinal},
		.allocFlags = {.compressionType = piece->compression,
			       .gpuDirectRDMACapable = piece->rdma},
	};

	return DRIVER(cuMemCreate, (ret, piece->pages * GRANULE_BYTES, &prop, 0));
}

static CUresult backing_reach(uint64_t peers, CUdeviceptr at, uint32_t pages)
{
	CUmemAccessDesc desc[GUEST_DEVICES];

	return DRIVER(cuMemSetAccess,
		      (at, pages * GRANULE_BYTES, desc, backing_access(peers, true, desc)));
}

static CUresult backing_map_at(uint64_t peers, CUdeviceptr at, uint32_t pages,
			       CUmemGenericAllocationHandle handle)
{
	CUresult e = DRIVER(cuMemMap, (at, pages * GRANULE_BYTES, 0, handle, 0));

	if (e)
		return e;
	e = backing_reach(peers, at, pages);
	if (e)
		DRIVER(cuMemUnmap, (at, pages * GRANULE_BYTES));
	return e;
}

/* Makes the physical memory of a piece, and maps it. */
static CUresult backing_place(const struct guest_device *device, uint64_t peers, CUdeviceptr at,
			      const struct piece *piece, CUmemGenericAllocationHandle *ret)
{
	CUmemGenericAllocationHandle handle;
	CUresult e = backing_create(device, piece, &handle);

	if (e)
		return e;
	e = backing_map_at(peers, at, piece->pages, handle);
	if (e)
		DRIVER(cuMemRelease, (handle));
	else
		*ret = handle;
	return e;
}

/* 0, or the driver's error: then it is as it was. */
static CUresult backing_displace(CUdeviceptr at, struct piece *piece)
{
	CUresult e = CUDA_SUCCESS;

	if (piece->mapped)
		e = DRIVER(cuMemUnmap, (at, piece->pages * GRANULE_BYTES));
	if (e)
		return e;
	piece->mapped = false;
	DRIVER(cuMemRelease, (piece->handle));
	return CUDA_SUCCESS;
}

/* --- Allocations ---------------------------------------------------------------------------- */

/* Whose work reaches the piece. Only we look at a handle's. */
static uint64_t backing_peers(const struct guest_device *device, const struct backing *backing,
			      const struct piece *piece)
{
	uint64_t peers = atomic_load(&backing->peers);

	return piece->adopted    ? UINT64_C(1) << device->ordinal
	       : piece->imported ? peers | UINT64_C(1) << piece->user
	       : piece->owner    ? piece->peers
				 : peers;
}

/* What a piece is to be a pool's by; all zero: it is none's. */
struct pooled {
	void *owner;
	uint64_t peers;
};

/* Makes a piece, which is nobody's yet. Its first page. */
static CUresult backing_make_piece(const struct guest_device *device, struct backing *backing,
				   uint32_t pages, struct pooled pooled, uint32_t *ret)
{
	CUmemGenericAllocationHandle handle = 0;
	uint64_t peers;
	uint32_t page;
	CUresult e;

	lock_take(&backing->lock);
	page = backing_take_pages(backing, pages);
	if (page != UINT32_MAX) {
		backing->piece[page].owner = pooled.owner;
		backing->piece[page].peers = pooled.peers;
	}
	lock_drop(&backing->lock);
	if (page == UINT32_MAX)
		return CUDA_ERROR_OUT_OF_MEMORY;
	do {
		peers = backing_peers(device, backing, &backing->piece[page]);
		e = handle ? backing_reach(peers, backing_address(backing, page), pages)
			   : backing_place(device, peers, backing_address(backing, page),
					   &backing->piece[page], &handle);
	} while (!e && backing_peers(device, backing, &backing->piece[page]) != peers);
	lock_take(&backing->lock);
	if (e) {
		backing_give_pages(backing, page);
	} else {
		backing->piece[page].handle = handle;
		backing->piece[page].mapped = true;
	}
	lock_drop(&backing->lock);
	*ret = page;
	return e;
}

/*
 * Its physical memory goes, and then its addresses. Should the driver refuse, nobody gets them. Those
 * that have it from us keep it, and are charged for it from here on.
 */
static void backing_end_piece(struct guest *guest, struct backing *backing, uint32_t page)
{
	struct object export;

	if (object_take(guest->objects, OBJECT_EXPORT, backing_address(backing, page), &export))
		entry_leave(guest, &export);
	if (backing_displace(backing_address(backing, page), &backing->piece[page]))
		return;
	lock_take(&backing->lock);
	backing_give_pages(backing, page);
	lock_drop(&backing->lock);
}

static CUresult backing_alloc_large(const struct guest_device *device, struct backing *backing,
				    uint64_t bytes, struct pooled pooled, CUdeviceptr *ret)
{
	uint64_t pages = round_up(bytes, GRANULE_BYTES) / GRANULE_BYTES;
	uint32_t page;
	CUresult e;

	if (pages > backing->pages)
		return CUDA_ERROR_OUT_OF_MEMORY;
	e = backing_make_piece(device, backing, (uint32_t)pages, pooled, &page);
	if (e)
		return e;
	lock_take(&backing->lock);
	backing->piece[page].state = PIECE_HERE;
	lock_drop(&backing->lock);
	*ret = backing_address(backing, page);
	return CUDA_SUCCESS;
}

/* With the lock: from one of the cut pieces. */
static bool backing_cut(struct backing *backing, uint64_t bytes, CUdeviceptr *ret)
{
	for (uint32_t at = backing->small; at; at = backing->piece[at - 1].next) {
		struct cut *cut = &backing->cut[backing->piece[at - 1].cut - 1];
		int unit = cut_take(cut, cut_units(bytes));

		if (unit < 0)
			continue;
		*ret = backing_address(backing, at - 1) + (uint64_t)unit * CUT_UNIT;
		return true;
	}
	return false;
}

static bool backing_alloc_cut(struct backing *backing, uint64_t bytes, CUdeviceptr *ret)
{
	bool found;

	lock_take(&backing->lock);
	found = backing_cut(backing, bytes, ret);
	lock_drop(&backing->lock);
	return found;
}

/* With the lock. False: there is no room in the table. */
static bool backing_link(struct backing *backing, uint32_t page)
{
	struct piece *piece = &backing->piece[page];

	piece->cut = backing_take_cut(backing);
	if (!piece->cut)
		return false;
	piece->state = PIECE_HERE;
	piece->next = backing->small;
	backing->small = page + 1;
	return true;
}

static void backing_unlink(struct backing *backing, uint32_t page)
{
	uint32_t *at = &backing->small;

	while (*at != page + 1)
		at = &backing->piece[*at - 1].next;
	*at = backing->piece[page].next;
}

static CUresult backing_alloc_small(struct guest *guest, const struct guest_device *device,
				    struct backing *backing, uint64_t bytes, CUdeviceptr *ret)
{
	uint32_t page;
	CUresult e;
	bool done;

	if (backing_alloc_cut(backing, bytes, ret))
		return CUDA_SUCCESS;
	e = backing_make_piece(device, backing, 1, (struct pooled){0}, &page);
	if (e)
		return e;
	lock_take(&backing->lock);
	done = backing_link(backing, page) && backing_cut(backing, bytes, ret);
	lock_drop(&backing->lock);
	if (done)
		return CUDA_SUCCESS;
	backing_end_piece(guest, backing, page);
	return CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult backing_alloc(struct guest *guest, struct guest_device *device, uint64_t bytes,
		       CUdeviceptr *ret)
{
	struct backing *backing;

	if (!bytes)
		return CUDA_ERROR_INVALID_VALUE;
	backing = backing_make(guest, device);
	if (!backing)
		return CUDA_ERROR_OUT_OF_MEMORY;
	return bytes > SMALL_BYTES
		       ? backing_alloc_large(device, backing, bytes, (struct pooled){0}, ret)
		       : backing_alloc_small(guest, device, backing, bytes, ret);
}

CUresult backing_alloc_for(struct guest *guest, struct guest_device *device, uint64_t bytes,
			   uint64_t peers, void *owner, CUdeviceptr *ret)
{
	struct backing *backing = backing_make(guest, device);

	return backing ? backing_alloc_large(device, backing, bytes, (struct pooled){owner, peers},
					     ret)
		       : CUDA_ERROR_OUT_OF_MEMORY;
}

/* With the lock: frees the allocation. Whether its piece is to end. */
static bool backing_leave(struct backing *backing, uint32_t page, uint64_t offset)
{
	struct piece *piece = &backing->piece[page];
	struct cut *cut;

	if (piece->cut) {
		cut = &backing->cut[piece->cut - 1];
		if (!cut_give(cut, (uint32_t)(offset / CUT_UNIT)) || cut->allocations)
			return false;
		backing_unlink(backing, page);
		backing_give_cut(backing, piece->cut);
	}
	piece->state = PIECE_MOVING;
	return true;
}

void backing_free(struct guest *guest, struct guest_device *device, CUdeviceptr at)
{
	struct backing *backing = backing_get(guest, device);
	uint32_t page = (uint32_t)((at - backing->base) / GRANULE_BYTES);
	bool last;

	lock_take(&backing->lock);
	last = backing_leave(backing, page, at - backing_address(backing, page));
	lock_drop(&backing->lock);
	if (last)
		backing_end_piece(guest, backing, page);
}

/* --- Physical memory that we did not make --------------------------------------------------- */

CUresult backing_adopt(struct guest *guest, struct guest_device *device,
		       const CUmemAllocationProp *prop, uint64_t bytes,
		       CUmemGenericAllocationHandle handle, uint64_t *ret)
{
	struct backing *backing = backing_make(guest, device);
	uint64_t pages = round_up(bytes, GRANULE_BYTES) / GRANULE_BYTES;
	uint32_t page;

	if (!backing || pages > backing->pages)
		return CUDA_ERROR_OUT_OF_MEMORY;
	lock_take(&backing->lock);
	page = backing_take_pages(backing, (uint32_t)pages);
	if (page != UINT32_MAX)
		backing->piece[page] = (struct piece){
			.handle = handle,
			.pages = (uint32_t)pages,
			.state = PIECE_HERE,
			.adopted = true,
			.types = prop->requestedHandleTypes,
			.compression = prop->allocFlags.compressionType,
			.rdma = prop->allocFlags.gpuDirectRDMACapable,
		};
	lock_drop(&backing->lock);
	if (page == UINT32_MAX)
		return CUDA_ERROR_OUT_OF_MEMORY;
	*ret = backing_address(backing, page);
	return CUDA_SUCCESS;
}

/* The piece that begins at an address; NULL: none does. */
static struct piece *backing_piece(struct guest *guest, CUdeviceptr at, struct backing **ret)
{
	struct guest_device *device = backing_device(guest, at);
	struct backing *backing;
	uint32_t page;

	if (!device)
		return NULL;
	backing = backing_get(guest, device);
	page = (uint32_t)((at - backing->base) / GRANULE_BYTES);
	*ret = backing;
	return at == backing_address(backing, page) && backing->first[page] == page + 1
		       ? &backing->piece[page] : NULL;
}

/* Takes pages for what becomes a piece when it is mapped; its first page, or UINT32_MAX. */
static uint32_t backing_begin_import(struct backing *backing, uint64_t pages)
{
	uint32_t page = UINT32_MAX;

	if (pages > backing->pages)
		return page;
	lock_take(&backing->lock);
	page = backing_take_pages(backing, (uint32_t)pages);
	lock_drop(&backing->lock);
	return page;
}

CUresult backing_import(struct guest *guest, struct guest_device *device, uint64_t bytes,
			CUdevice user, CUmemGenericAllocationHandle handle, uint64_t *ret)
{
	struct backing *backing = backing_make(guest, device);
	uint64_t bit = UINT64_C(1) << user, peers;
	CUdeviceptr at;
	uint32_t page;
	CUresult e;

	if (!backing || !bytes)
		return CUDA_ERROR_OUT_OF_MEMORY;
	page = backing_begin_import(backing, round_up(bytes, GRANULE_BYTES) / GRANULE_BYTES);
	if (page == UINT32_MAX)
		return CUDA_ERROR_OUT_OF_MEMORY;
	at = backing_address(backing, page);
	peers = atomic_load(&backing->peers);
	e = backing_map_at(peers | bit, at, backing->piece[page].pages, handle);
	lock_take(&backing->lock);
	if (e) {
		backing_give_pages(backing, page);
	} else {
		backing->piece[page].handle = handle;
		backing->piece[page].imported = true;
		backing->piece[page].mapped = true;
		backing->piece[page].user = (uint8_t)user;
		backing->piece[page].state = PIECE_HERE;
	}
	lock_drop(&backing->lock);
	*ret = at;
	/* Now that others find it: a peer that came meanwhile did not. */
	if (!e && atomic_load(&backing->peers) != peers)
		backing_reach(atomic_load(&backing->peers) | bit, at, backing->piece[page].pages);
	return e;
}

void backing_abandon(struct guest *guest, CUmemGenericAllocationHandle handle)
{
	struct backing *backing;
	struct piece *piece = backing_piece(guest, handle, &backing);

	if (!piece)
		return;
	lock_take(&backing->lock);
	piece->state = PIECE_MOVING;
	lock_drop(&backing->lock);
	backing_end_piece(guest, backing, (uint32_t)(piece - backing->piece));
}

CUmemGenericAllocationHandle backing_handle(struct guest *guest,
					    CUmemGenericAllocationHandle handle)
{
	struct backing *backing;
	const struct piece *piece = backing_piece(guest, handle, &backing);

	return piece && (piece->adopted || piece->imported) ? piece->handle : handle;
}

/* With the lock. */
static struct backing_piece backing_say(const struct backing *backing, uint32_t page)
{
	const struct piece *piece = &backing->piece[page];

	return (struct backing_piece){backing_address(backing, page), piece->pages * GRANULE_BYTES,
				      piece->state == PIECE_HERE, piece->imported, piece->owner};
}

/* --- What addresses are --------------------------------------------------------------------- */

struct guest_device *backing_device(struct guest *guest, CUdeviceptr at)
{
	for (int i = 0; i < guest->ndevices; i++) {
		const struct backing *backing = backing_get(guest, &guest->device[i]);

		if (backing && at - backing->base < backing->pages * GRANULE_BYTES)
			return &guest->device[i];
	}
	return NULL;
}

CUdeviceptr backing_start(struct guest *guest, CUdeviceptr at)
{
	struct guest_device *device = backing_device(guest, at);
	struct backing *backing;
	CUdeviceptr start = 0;
	uint32_t page;
	int unit;

	if (!device)
		return 0;
	backing = backing_get(guest, device);
	lock_take(&backing->lock);
	page = backing->first[(at - backing->base) / GRANULE_BYTES];
	if (page && backing->piece[page - 1].state != PIECE_MOVING) {
		const struct piece *piece = &backing->piece[page - 1];

		start = backing_address(backing, page - 1);
		if (piece->cut) {
			unit = cut_first(&backing->cut[piece->cut - 1],
					 (uint32_t)((at - start) / CUT_UNIT));
			start = unit < 0 ? 0 : start + (uint64_t)unit * CUT_UNIT;
		}
	}
	lock_drop(&backing->lock);
	return start;
}

bool backing_find(struct guest *guest, CUdeviceptr at, struct backing_piece *ret)
{
	struct guest_device *device = backing_device(guest, at);
	struct backing *backing;
	uint32_t page;
	bool found;

	if (!device)
		return false;
	backing = backing_get(guest, device);
	lock_take(&backing->lock);
	page = backing->first[(at - backing->base) / GRANULE_BYTES] - 1;
	found = page != UINT32_MAX && backing->piece[page].state != PIECE_MOVING;
	if (found)
		*ret = backing_say(backing, page);
	lock_drop(&backing->lock);
	return found;
}

/* With the lock: the piece that has an address of the reservation; NULL: none has. */
static struct piece *backing_piece_of(struct backing *backing, CUdeviceptr at)
{
	uint32_t page = backing->first[(at - backing->base) / GRANULE_BYTES];

	return page ? &backing->piece[page - 1] : NULL;
}

void *backing_owner(struct guest *guest, CUdeviceptr at)
{
	struct guest_device *device = backing_device(guest, at);
	struct backing *backing = device ? backing_get(guest, device) : NULL;
	const struct piece *piece;
	void *owner;

	if (!backing)
		return NULL;
	lock_take(&backing->lock);
	piece = backing_piece_of(backing, at);
	owner = piece ? piece->owner : NULL;
	lock_drop(&backing->lock);
	return owner;
}

void backing_disown(struct guest *guest, CUdeviceptr at)
{
	struct backing *backing = backing_get(guest, backing_device(guest, at));

	lock_take(&backing->lock);
	backing_piece_of(backing, at)->owner = NULL;
	lock_drop(&backing->lock);
}

/* A piece that ends meanwhile does not mind. */
CUresult backing_set_peers(struct guest *guest, CUdeviceptr at, uint64_t peers)
{
	struct backing *backing = backing_get(guest, backing_device(guest, at));
	CUmemAccessDesc desc[GUEST_DEVICES];
	uint64_t less = 0, bytes = 0;
	struct piece *piece;
	CUresult e;

	lock_take(&backing->lock);
	piece = backing_piece_of(backing, at);
	if (piece && piece->owner) {
		less = piece->peers & ~peers;
		bytes = piece->pages * GRANULE_BYTES;
		piece->peers = peers;
	}
	lock_drop(&backing->lock);
	if (!bytes)
		return CUDA_SUCCESS;
	e = backing_reach(peers, at, (uint32_t)(bytes / GRANULE_BYTES));
	if (!e && less)
		e = DRIVER(cuMemSetAccess, (at, bytes, desc, backing_access(less, false, desc)));
	return e;
}

/* --- Pieces that move ----------------------------------------------------------------------- */

/* With the lock: the first page of the piece that begins there or behind; UINT32_MAX. */
static uint32_t backing_find_from(const struct backing *backing, uint32_t page)
{
	for (; page < backing->pages; page++) {
		uint32_t first = backing->first[page] - 1;

		if (!backing->first[page])
			continue;
		if (first == page && backing->piece[page].state != PIECE_MOVING)
			return page;
		page = first + backing->piece[first].pages - 1;
	}
	return UINT32_MAX;
}

bool backing_next(struct guest *guest, struct guest_device *device, CUdeviceptr from,
		  struct backing_piece *ret)
{
	struct backing *backing = backing_get(guest, device);
	uint64_t above = backing && from > backing->base ? from - backing->base : 0;
	uint32_t page = UINT32_MAX;

	if (!backing || above >= backing->pages * GRANULE_BYTES)
		return false;
	lock_take(&backing->lock);
	page = backing_find_from(backing,
				 (uint32_t)(round_up(above, GRANULE_BYTES) / GRANULE_BYTES));
	if (page != UINT32_MAX)
		*ret = backing_say(backing, page);
	lock_drop(&backing->lock);
	return page != UINT32_MAX;
}

static struct piece *backing_piece_at(struct guest *guest, struct guest_device *device,
				      CUdeviceptr at)
{
	struct backing *backing = backing_get(guest, device);

	return &backing->piece[(at - backing->base) / GRANULE_BYTES];
}

/* Whether it is the caller's to map it. A thread that maps it takes microseconds. */
static bool backing_begin_expose(struct backing *backing, struct piece *piece)
{
	bool begins = false, waits = true;

	while (waits) {
		lock_take(&backing->lock);
		waits = piece->exposing;
		begins = !waits && !piece->mapped;
		piece->exposing |= begins;
		lock_drop(&backing->lock);
		if (waits)
			sched_yield();
	}
	return begins;
}

CUresult backing_expose(struct guest *guest, struct guest_device *device, CUdeviceptr at)
{
	struct backing *backing = backing_get(guest, device);
	struct piece *piece = backing_piece_at(guest, device, at);
	CUresult e;

	if (!backing_begin_expose(backing, piece))
		return CUDA_SUCCESS;
	e = backing_map_at(backing_peers(device, backing, piece), at, piece->pages, piece->handle);
	lock_take(&backing->lock);
	piece->mapped = !e;
	piece->exposing = false;
	lock_drop(&backing->lock);
	return e;
}

CUresult backing_detach(struct guest *guest, struct guest_device *device, CUdeviceptr at)
{
	struct piece *piece = backing_piece_at(guest, device, at);
	CUresult e = backing_displace(at, piece);

	if (!e)
		piece->state = PIECE_AWAY;
	return e;
}

CUresult backing_attach(struct guest *guest, struct guest_device *device, CUdeviceptr at)
{
	struct backing *backing = backing_get(guest, device);
	struct piece *piece = backing_piece_at(guest, device, at);
	CUresult e = backing_place(device, backing_peers(device, backing, piece), at, piece,
				   &piece->handle);

	if (!e) {
		piece->mapped = true;
		piece->state = PIECE_HERE;
	}
	return e;
}

CUresult backing_attach_import(struct guest *guest, CUdeviceptr at,
			       CUmemGenericAllocationHandle handle)
{
	struct guest_device *device = backing_device(guest, at);
	struct backing *backing = backing_get(guest, device);
	struct piece *piece = backing_piece_at(guest, device, at);
	CUresult e = backing_map_at(backing_peers(device, backing, piece), at, piece->pages,
				    handle);

	if (!e) {
		piece->handle = handle;
		piece->mapped = true;
		piece->state = PIECE_HERE;
	}
	return e;
}

CUresult backing_share(struct guest *guest, struct guest_device *device, CUdevice peer, bool may)
{
	struct backing *backing = backing_make(guest, device);
	CUmemAccessDesc desc[GUEST_DEVICES];
	struct backing_piece piece;
	CUdeviceptr from = 0;
	uint64_t bit = UINT64_C(1) << peer;

	if (!backing)
		return CUDA_ERROR_OUT_OF_MEMORY;
	if (may)
		atomic_fetch_or(&backing->peers, bit);
	else
		atomic_fetch_and(&backing->peers, ~bit);
	/* backing_make_piece looks at the peers again; a piece that ends meanwhile does not mind. */
	while (backing_next(guest, device, from, &piece)) {
		if (!piece.owner)
			DRIVER(cuMemSetAccess,
			       (piece.at, piece.bytes, desc, backing_access(bit, may, desc)));
		from = piece.at + piece.bytes;
	}
	return CUDA_SUCCESS;
}
