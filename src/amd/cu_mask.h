/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shares of a GPU as CU masks, for all of its tenants at once. Pure: it turns the tenants' present
 * masks into their new ones, so nothing but the masks has to be stored. The new masks are right
 * whatever the present ones are.
 *
 * - A mask has as many units as fit into the share and none more: 25 % of 110 are 27. Less than one
 *   unit is lost. On parts with pairs of units (from GFX10 on) pairs are whole.
 * - It is symmetric: in each XCC, shader engine and array a tenant has its share of that part, give
 *   or take less than one unit. The hardware hands work to engines in turn, however many units they
 *   have left, and waits for the engine with the fewest.
 * - No two tenants have a unit in common as long as all shares fit, in each XCC, too. Where they do
 *   not fit, as few units as possible are shared.
 * - It is stable: of all such masks, those by which the fewest units change hands.
 *
 * A queue without a unit in one of the XCCs hangs, so a mask has at least one in each. A share
 * below that has no mask of its own: it gets the least mask and a part of the time
 * (`duty_permille`). Masks do not apply to SDMA queues, whose share is their part of the time.
 */
#ifndef ALLOT_AMD_CU_MASK_H
#define ALLOT_AMD_CU_MASK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "amd/cu_map.h"

/* As SET_CU_MASK takes it: bit i is bit i % 32 of word i / 32. */
struct cu_mask {
	uint32_t word[CU_MASK_WORDS];
};

/* How the allocator's search came to a part of a tenant, or to all of it. */
struct cu_way {
	int64_t cost;
	uint32_t from;
};
#define CU_WAYS (1 + CU_XCCS + CU_XCCS * CU_ENGINES)

struct cu_share {
	uint32_t permille;   /* in: of the GPU, 1 to 1000; the sum may be more than 1000 */
	struct cu_mask mask; /* in: the present mask, zero for none; out: the new one */

	/* Out. */
	uint32_t cus;		/* that the mask has */
	uint32_t duty_permille; /* of the time; 1000 where the mask is all that is needed */
	bool alone;		/* no other tenant has any of these units */

	/* The allocator's own. */
	uint32_t wanted, given;
	uint16_t had[CU_LEAVES], part_units[CU_PARTS], least[CU_PARTS], most[CU_PARTS];
	struct cu_way ways[CU_WAYS];
};

/*
 * Gives each of `n` tenants its mask. A unit that two of them have stays with the earlier one. 0;
 * -EINVAL: a bad share. The time grows with units times tenants: some 30 ms for 12 tenants of 304
 * units in 32 engines, below 1 ms for those of 110 in 8.
 */
int cu_mask_allot(const struct cu_map *map, struct cu_share *shares, uint32_t n);

/*
 * True if a mask that somebody else wrote fits the share: whole units that work, at least one in
 * each XCC and no more than cu_mask_allot gives.
 */
bool cu_mask_within(const struct cu_map *map, const struct cu_mask *mask, uint32_t permille);

/* The mask of a queue without one: the kernel takes no mask back. */
struct cu_mask cu_mask_all(const struct cu_map *map);

/* The value of num_cu_mask for SET_CU_MASK. */
uint32_t cu_mask_bits(const struct cu_map *map);

/*
 * Combines the tenant's mask with one that the program sets for a queue: units of both. If that
 * leaves an XCC without units, so that the queue would hang, the result is the tenant's mask alone.
 * -EINVAL for a mask that the kernel refuses: no bits, not whole words, halves of pairs.
 */
int cu_mask_narrow(const struct cu_map *map, const struct cu_mask *tenants, const uint32_t *words,
		   uint32_t bits, struct cu_mask *ret);

#endif
