/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The one seam that every allocation passes: reserve, let the driver do it, then commit or cancel.
 * Hooks know what their call takes from the device; this knows how the tenant is asked for it, what
 * can be given back before a refusal, and that a refusal is CUDA_ERROR_OUT_OF_MEMORY.
 */
#ifndef ALLOT_GUEST_MEMORY_CHARGE_H
#define ALLOT_GUEST_MEMORY_CHARGE_H

#include <stdbool.h>
#include <stdint.h>

#include "guest/core/guest.h"
#include "guest/core/object.h"
#include "ledger/quota.h"

/* What the driver takes device memory by, and gives it out in, on every GPU since 2010. */
#define GRANULE_BYTES (UINT64_C(2) << 20)
/* The largest allocation that shares a granule with others. */
#define SMALL_BYTES (UINT64_C(1) << 20)
/* What a stream-ordered pool and graph memory grow by. */
#define POOL_BYTES (UINT64_C(32) << 20)

/* Rounds up; saturates instead of wrapping, so that an absurd size is refused, not admitted. */
static inline uint64_t round_up(uint64_t bytes, uint64_t unit)
{
	return bytes > UINT64_MAX - unit ? UINT64_MAX / unit * unit
					 : (bytes + unit - 1) / unit * unit;
}

/* Bytes asked for and not yet committed. One may be reserved with 0 bytes. */
struct charge {
	struct guest *guest;
	struct guest_device *device;
	uint64_t reserved;
};

/*
 * CUDA_SUCCESS, or CUDA_ERROR_OUT_OF_MEMORY when the tenant's quota does not allow it, after what
 * this process can give back was given back. Call no driver function with a lock held, and end
 * every success with charge_commit or charge_cancel.
 */
CUresult charge_reserve(struct guest *guest, struct guest_device *device, uint64_t bytes,
			struct charge *ret);

/*
 * The same without giving anything back and without a refusal: false when the bytes cannot be had
 * just so.
 */
bool charge_try(struct guest *guest, struct guest_device *device, uint64_t bytes,
		struct charge *ret);

/*
 * guest_device.calls: the lower half counts the calls of this process between reserve (or release
 * begin) and their end, the upper half those that ever began. Unchanged with none under way, the
 * driver's figure and ours were of the same moment.
 */
#define CHARGE_CALL_BEGUN     (UINT64_C(1) << 32)
#define CHARGE_CALLS(calls)   ((uint32_t)(calls))

/* The driver did it and took `actual` bytes. */
void charge_commit(struct charge *charge, enum category category, uint64_t actual);
/* The driver refused. */
void charge_cancel(struct charge *charge);

/*
 * A call that gives memory back: begin before the driver frees, end with what it freed. In
 * between the driver's figure and ours may differ.
 */
void charge_release_begin(struct guest_device *device);
void charge_release_end(struct guest *guest, struct guest_device *device, enum category category,
			uint64_t bytes);

/* The same for calls of which only the driver knows what they free, and where. */
void charge_release_begin_all(struct guest *guest);
void charge_release_end_all(struct guest *guest);

/* Follows a figure that the driver keeps (a pool's reserve): from `old` to `new` bytes. */
void charge_follow(struct guest *guest, struct guest_device *device, enum category category,
		   uint64_t old_bytes, uint64_t new_bytes);

/* The tenant's limit, less what the driver took for its other processes beyond their charges. */
uint64_t charge_limit(struct guest *guest, struct guest_device *device);

/* After something grew unasked: whether the tenant is over its limit now. */
bool charge_over(struct guest *guest, struct guest_device *device);

/* Code was loaded, or may be by what comes next: the driver's figure has to be looked at again. */
void charge_stale(struct guest *guest, struct guest_device *device);

#endif
