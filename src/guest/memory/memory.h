/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Linear device memory: what an allocation takes from the device, and what comes back with it.
 * The driver gives memory out in granules of 2 MiB. An allocation of more than 1 MiB has granules
 * of its own; smaller ones share granules, so they are charged by the granules that their addresses
 * lie in.
 */
#ifndef ALLOT_GUEST_MEMORY_MEMORY_H
#define ALLOT_GUEST_MEMORY_MEMORY_H

#include "guest/memory/charge.h"

/* The most that an allocation of `bytes` can take. */
static inline uint64_t memory_need(uint64_t bytes)
{
	return bytes > SMALL_BYTES ? round_up(bytes, GRANULE_BYTES) : bytes ? GRANULE_BYTES : 0;
}

/*
 * Allocates as cuMemAlloc does, in the current context, of which `device` is: reserve, back,
 * record, commit. What backs it is the driver's allocation, or, where it is to be able to leave,
 * backing.h.
 */
CUresult memory_alloc(struct guest *guest, struct guest_device *device, uint64_t bytes,
		      CUdeviceptr *ret);

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

/* As cuMemFree, of memory that was taken and is backed by us. An error: it is kept. */
CUresult memory_free_backed(struct guest *guest, struct object *object);

/*
 * What is spare of the device goes (backing.h), with its charge: before anything is refused, and
 * when the program asks what is free. Disturbs no capture. The caller has a pass, or moves memory.
 */
void memory_end_spare(struct guest *guest, struct guest_device *device);

/* What is asked of this process, and not answered yet (ledger/spare.h). Zeroed: nothing. */
struct answer {
	bool begun;
	uint16_t number;
	uint32_t drops;
};

/*
 * What was spare until somebody asked goes, and that is answered; by one thread, which is woken for
 * it, and again as long as other threads are about to end some of it.
 */
void memory_answer_spare(struct guest *guest, struct answer *answer);

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
 * Both answer the bytes by which whole granules change.
 */
uint64_t memory_small_array_add(struct guest_device *device, uint64_t bytes);
uint64_t memory_small_array_sub(struct guest_device *device, uint64_t bytes);

/* The device that a stream works on; NULL when the driver would not know either. */
struct guest_device *memory_stream_device(struct guest *guest, CUstream stream);

#endif
