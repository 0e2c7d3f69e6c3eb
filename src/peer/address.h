/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which addresses objects may have: pure, numbers in and numbers out. The CPU and all devices of a
 * process share one space, so that a pointer means the same to each of them.
 */
#ifndef ALLOT_PEER_ADDRESS_H
#define ALLOT_PEER_ADDRESS_H

#include <stdint.h>

#include "peer/ranges.h"

#define ADDRESS_PAGE_BYTES UINT64_C(4096)
#define ADDRESS_HUGE_BYTES (UINT64_C(2) << 20) /* translated by a device in one step */

/*
 * On both sides of an object these bytes have no memory: an access beyond its end meets no other
 * object.
 */
#define ADDRESS_GUARD_BYTES ADDRESS_PAGE_BYTES

/* Both addresses are in it. */
struct aperture {
	uint64_t first, last;
};

/*
 * The hole between the halves of the CPU's addresses: whatever is there can be a name, and no
 * pointer that anything follows.
 */
#define ADDRESS_CANONICAL_LAST UINT64_C(0x00007fffffffffff)
extern const struct aperture address_names;

/* The addresses that all apertures contain. -ERANGE: there are none, or n is 0. */
int address_common(const struct aperture *of, uint32_t n, struct aperture *ret);

/*
 * The alignment of an object of that size: the largest power of two that is not larger, but at
 * least `page` (a power of two) and at most ADDRESS_HUGE_BYTES. So large objects take few steps to
 * translate, and small ones waste no addresses.
 */
uint64_t address_alignment(uint64_t bytes, uint64_t page);

/*
 * Checks that an object may be there. -EINVAL: no bytes, not whole pages, or not at a multiple of
 * `alignment`, which must be a power of two of pages; -ERANGE: not all of it is in the aperture.
 */
int address_check(const struct aperture *aperture, uint64_t address, uint64_t bytes, uint64_t page,
		  uint64_t alignment);

/*
 * The lowest address, from `from` on, for an object of checked size, with ADDRESS_GUARD_BYTES free
 * to both of its neighbours in the tree. -ENOMEM: there is none.
 */
int address_pick(const struct ranges *tree, const struct aperture *aperture, uint64_t from,
		 uint64_t bytes, uint64_t alignment, uint64_t *ret_address);

#endif
