/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Linear device memory: what an allocation takes from the device, and what comes back with it.
 * The driver gives memory out in granules of 2 MiB. An allocation of more than 1 MiB has granules
 * of its own; smaller ones share granules, so they are charged by the granules that their addresses
 * lie in.
 */
#ifndef ALLOT_GUEST_MEMORY_MEMORY_H
#define ALLOT_GUEST_MEMORY_MEMORY_H

#include "guest/account/charge.h"
#include "guest/account/holder.h"

/* The most that an allocation of `bytes` can take. */
static inline uint64_t memory_need(uint64_t bytes)
{
	return bytes > SMALL_BYTES ? round_up(bytes, GRANULE_BYTES) : bytes ? GRANULE_BYTES : 0;
}

/*
 * Joins or leaves the granules of [address, address + size). Both return the bytes by which whole
 * granules change.
 */
uint64_t memory_join_granules(struct guest *guest, int16_t device, uint64_t address, uint64_t size);
uint64_t memory_leave_granules(struct guest *guest, int16_t device, uint64_t address,
			       uint64_t size);

/*
 * The object of an allocation that was just made, for memory_record; joins its granules. Returns
 * the bytes to be charged. `flags`: enum object_flags.
 */
uint64_t memory_describe(const struct charge *charge, CUdeviceptr address, uint64_t size,
			 unsigned int flags, struct object *ret);

/*
 * Ends an allocation that the driver answered with `result`: commits and records, or cancels.
 * `address` and `size` are the driver's (with pitch). `flags`: enum object_flags.
 */
CUresult memory_commit(struct charge *charge, CUresult result, CUdeviceptr address, uint64_t size,
		       unsigned int flags);

/*
 * Charges `actual` bytes for what the driver gave and records it, for memory_take to find. -ENOMEM:
 * it is charged and has no record. Then it is not given out: the driver frees it, and memory_freed
 * takes the charge back.
 */
int memory_record(struct charge *charge, const struct object *object, uint64_t actual);

/*
 * Before the driver frees an address (OBJECT_MEMORY) or another thing of a device and a context:
 * takes its object out, false when it is not ours to know. Then either memory_freed or, when the
 * driver refused, memory_keep.
 */
bool memory_take(struct guest *guest, enum object_kind kind, uint64_t key, struct object *ret);
void memory_keep(struct guest *guest, const struct object *object);
void memory_freed(struct guest *guest, const struct object *object);

/* The one or the other, by the driver's answer, which it returns. */
static inline CUresult memory_free_end(struct guest *guest, const struct object *object, CUresult e)
{
	if (e)
		memory_keep(guest, object);
	else
		memory_freed(guest, object);
	return e;
}

/* All work of a context is done. Not while a stream captures. */
CUresult memory_await_work(CUcontext context);

/*
 * Freed in the order of `stream`: charged until the stream gets there. `before`: what memory_mark
 * answered for it ahead of the driver's free; NULL where we free it ourselves, behind the stream.
 */
CUevent memory_mark(CUstream stream);
void memory_freed_in_stream(struct guest *guest, const struct object *object, CUstream stream,
			    CUevent before);
/* Gives back what streams have freed by now. Its driver calls disturb no capture. */
void memory_reap(struct guest *guest);

/* Everything that went when a context was destroyed. */
void memory_forget_context(struct guest *guest, CUcontext context);

/*
 * Arrays up to SMALL_BYTES share granules too, but have no address: they are charged by their sum.
 * Returns the bytes by which whole granules change.
 */
uint64_t memory_small_array_add(struct guest_device *device, uint64_t bytes);

/* The device that a stream works on; NULL when the driver would not know either. */
struct guest_device *memory_stream_device(struct guest *guest, CUstream stream);

extern const struct holder memory_holder;

#endif
