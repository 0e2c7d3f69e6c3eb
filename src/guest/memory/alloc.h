/* SPDX-License-Identifier: Apache-2.0 */
/* Linear memory by the driver's own allocations: allocator.h has what each of these does. */
#ifndef ALLOT_GUEST_MEMORY_ALLOC_H
#define ALLOT_GUEST_MEMORY_ALLOC_H

#include "guest/account/granule.h"
#include "guest/memory/allocator.h"

/* The pitch is the driver's to choose; no device aligns rows to more than this. */
#define PITCH_BYTES 512

CUresult alloc_linear(struct guest *guest, struct guest_device *device, uint64_t bytes,
		      CUdeviceptr *ret);
CUresult alloc_pitched(struct guest *guest, struct guest_device *device, CUdeviceptr *ret,
		       size_t *ret_pitch, size_t width, size_t height, unsigned int element);
CUresult alloc_free(struct guest *guest, CUdeviceptr at);
CUresult alloc_free_in_stream(struct guest *guest, CUdeviceptr at, CUstream stream, CUstream order,
			      free_async_fn *real);

/* The same of memory that was taken (memory_take). */
CUresult alloc_free_taken(struct guest *guest, const struct object *object);
CUresult alloc_free_taken_in_stream(struct guest *guest, const struct object *object,
				    CUstream stream, CUstream order, free_async_fn *real);

/* What such a pitched allocation takes; UINT64_MAX: more than there is. */
static inline uint64_t alloc_pitched_bytes(size_t width, size_t height)
{
	uint64_t bytes;

	return __builtin_mul_overflow(round_up(width, PITCH_BYTES), height, &bytes) ? UINT64_MAX
										    : bytes;
}

#endif
