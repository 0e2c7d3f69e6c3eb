/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which addresses objects may have: pure, numbers in and numbers out. The CPU and all devices of a
 * process share one space, so that a pointer means the same to each of them.
 */
#ifndef ALLOT_PEER_SPACE_H
#define ALLOT_PEER_SPACE_H

#include <stdint.h>

#include "peer/tree.h"

#define SPACE_PAGE_BYTES UINT64_C(4096)
#define SPACE_HUGE_BYTES (UINT64_C(2) << 20) /* what a device translates in one step */

/* Left without memory on both sides of an object: who runs over an end does not meet another. */
#define SPACE_GUARD_BYTES SPACE_PAGE_BYTES

/* Both addresses are in it. */
struct space_aperture {
	uint64_t first, last;
};

/*
 * The hole between the halves of the CPU's addresses: whatever is there can be a name, and no
 * pointer that anything follows.
 */
#define SPACE_CANONICAL_LAST UINT64_C(0x00007fffffffffff)
extern const struct space_aperture space_names;

/* What all of them have. -ERANGE: nothing, or none is given. */
int space_common(const struct space_aperture *of, uint32_t n, struct space_aperture *ret);

/*
 * What an object of that size begins at a multiple of: the largest power of two that is no larger,
 * from `page` to SPACE_HUGE_BYTES, so that large ones take few steps to translate and small ones
 * waste no addresses. A page is a power of two.
 */
uint64_t space_alignment(uint64_t bytes, uint64_t page);

/*
 * Whether an object may be there. -EINVAL: no bytes, not whole pages, or not at a multiple of
 * `alignment`, which must be a power of two of pages; -ERANGE: not all of it is in the aperture.
 */
int space_check(const struct space_aperture *aperture, uint64_t address, uint64_t bytes,
		uint64_t page, uint64_t alignment);

/*
 * The lowest address, from `from` on, for an object of checked size that leaves SPACE_GUARD_BYTES
 * to both of its neighbours in the tree. -ENOMEM: there is none.
 */
int space_pick(const struct range_tree *tree, const struct space_aperture *aperture, uint64_t from,
	       uint64_t bytes, uint64_t alignment, uint64_t *ret_address);

#endif
