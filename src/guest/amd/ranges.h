/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Addresses of the program's own memory that is charged to GPUs (SVM): ranges that do not overlap,
 * in their order, each with the GPUs that it is charged to. Memory from mmap alone.
 */
#ifndef ALLOT_GUEST_AMD_RANGES_H
#define ALLOT_GUEST_AMD_RANGES_H

#include <stdbool.h>
#include <stdint.h>

#include "base/lock.h"

struct amd_range {
	uint64_t first, end; /* the byte behind it */
	uint64_t devices;    /* one bit for each, by its place in struct amd; never 0 */
	uint64_t said;	     /* the number of the call that put it there (memory/svm.h) */
	/*
	 * Parts of it may be at different places, for a call failed, or two overlapped in time.
	 * Else one call said where all of it is to be, and what is left of it is there.
	 */
	bool mixed;
};

/* All zero is an empty one. */
struct amd_ranges {
	struct lock_amd_ranges lock;
	uint32_t count, room;
	struct amd_range *at;
};

/*
 * Takes out what lies between two addresses, cut at these, and appends it to `ret_out` in its
 * order. -ENOMEM: nothing was done.
 *
 * `ret_out` is the caller's own and nobody else looks at it; NULL to forget what was there.
 */
int amd_ranges_take(struct amd_ranges *ranges, uint64_t first, uint64_t end,
		    struct amd_ranges *ret_out);

/* The same, if all of `range` is there as the call put it that `range` has the number of. */
int amd_ranges_take_same(struct amd_ranges *ranges, const struct amd_range *range,
			 struct amd_ranges *ret_out);

/*
 * Puts `range` there. Where others are these stay, and get its devices and number as well; they are
 * mixed if it is. `ret_twice`, if there is one, gets what has a device by both, with these devices
 * alone. -ENOMEM: nothing was done.
 */
int amd_ranges_put(struct amd_ranges *ranges, const struct amd_range *range,
		   struct amd_ranges *ret_twice);

/* Ranges within `range` that have its number are not mixed any more. */
void amd_ranges_unmix(struct amd_ranges *ranges, const struct amd_range *range);

/* Appends all of them to `ret_out`, which is the caller's own; -ENOMEM. */
int amd_ranges_copy(struct amd_ranges *ranges, struct amd_ranges *ret_out);

/* How many bytes of all these are charged to a device. */
uint64_t amd_ranges_bytes(const struct amd_ranges *ranges, int device);

void amd_ranges_free(struct amd_ranges *ranges);

#endif
