/* SPDX-License-Identifier: Apache-2.0 */
/* A pool's memory: who may have what, against a plain list of who freed which unit when. */
#include "guest/movable/slab.h"

#include <string.h>

#include "base/number.h"
#include "tests/check.h"

#define MIB	UINT64_C(1048576)
#define ORDERS	6
#define SLABS	3
#define UNITS	(SLABS * 2 * (GRANULE_BYTES * 4 / SLAB_UNIT)) /* of small ones, and of large ones */
#define HELD	300
#define ADDRESS UINT64_C(0x7000000000)

static uint64_t passed[ORDERS];
static uint64_t number;
static uint64_t seed = 88172645463325252u;

static uint32_t pick(uint32_t below)
{
	seed ^= seed << 13;
	seed ^= seed >> 7;
	seed ^= seed << 17;
	return (uint32_t)(seed % below);
}

static struct slab *grow(struct slabs *slabs, uint64_t bytes, bool large, uint64_t at)
{
	struct slab *slab = slab_make(slabs, bytes, large);

	CHECK(slab != NULL);
	slabs_add(slab, at);
	return slab;
}

static void check_orders(void)
{
	static struct slabs slabs = {.passed = passed};
	struct slab *slab = grow(&slabs, 4 * GRANULE_BYTES, true, ADDRESS);
	struct block *a, *b;

	CHECK(slabs_take(&slabs, 0, 2) == NULL);
	CHECK(slabs_take(&slabs, 8 * MIB + 1, 2) == NULL);
	CHECK(slabs_take(&slabs, 1000, 2) == NULL); /* small ones have slabs of their own */
	a = slabs_take(&slabs, 5 * MIB + 1, 2);
	CHECK_EQ(block_address(a), ADDRESS);
	b = slabs_take(&slabs, 2 * MIB, 2);
	CHECK_EQ(block_address(b), ADDRESS + 5 * MIB + SLAB_UNIT_LARGE);
	CHECK_EQ(slabs.used, 7 * MIB + SLAB_UNIT);
	CHECK(slab_find(slab, ADDRESS + 5 * MIB) == a);
	CHECK(slab_find(slab, ADDRESS + 5 * MIB + 1) == NULL);
	CHECK(slab_find(slab, ADDRESS - 1) == NULL && slab_find(slab, ADDRESS + 8 * MIB) == NULL);

	/* Freed in an order: that one's at once, others' when it has passed. */
	slabs_give(a, 2, 7);
	CHECK(slab_find(slab, ADDRESS) == NULL);
	CHECK(slabs_take(&slabs, 3 * MIB, 3) == NULL);
	a = slabs_take(&slabs, 3 * MIB, 2);
	CHECK_EQ(block_address(a), ADDRESS);
	slabs_give(a, 2, 8);
	passed[2] = 7;
	CHECK(slabs_take(&slabs, 4 * MIB, 3) == NULL);
	passed[2] = 8;
	a = slabs_take(&slabs, 4 * MIB, 3);
	CHECK_EQ(block_address(a), ADDRESS);

	/* Side by side in two orders: one block when both have passed. */
	slabs_give(a, 3, 9);
	slabs_give(b, 4, 10);
	CHECK(slabs_remove(&slabs, 0) == NULL);
	passed[3] = passed[4] = 10;
	CHECK(slabs_take(&slabs, 8 * MIB, 5) == NULL);
	CHECK(slabs_join(&slabs));
	CHECK(!slabs_join(&slabs));
	a = slabs_take(&slabs, 8 * MIB, 5);
	CHECK_EQ(block_address(a), ADDRESS);
	slabs_give(a, SLAB_READY, 0);
	CHECK(slabs_remove(&slabs, 1) == NULL);
	CHECK(slabs_have(&slabs, slab));
	CHECK(slabs_remove(&slabs, 0) == slab);
	CHECK(!slabs_have(&slabs, slab));
	CHECK_EQ(slabs.reserved + slabs.used + slabs.idle, 0);
	CHECK_EQ(slabs.reserved_high, 8 * MIB);
	CHECK_EQ(slabs.used_high, 8 * MIB);
	slab_end(slab);
}

/* Of each unit of all slabs. */
static struct {
	bool taken;
	uint16_t order;
	uint64_t number;
} unit[UNITS];

static uint64_t unit_of(uint64_t at)
{
	return (at - ADDRESS) / SLAB_UNIT;
}

static uint64_t end_of(const struct block *block)
{
	uint64_t size = block->used.bytes > SMALL_BYTES ? SLAB_UNIT_LARGE : SLAB_UNIT;

	return unit_of(block_address(block) + round_up(block->used.bytes, size));
}

static void note_taken(const struct block *block, uint16_t order)
{
	for (uint64_t u = unit_of(block_address(block)); u < end_of(block); u++) {
		CHECK(!unit[u].taken);
		CHECK(unit[u].order == order || unit[u].number <= passed[unit[u].order]);
		unit[u].taken = true;
	}
}

static void note_given(const struct block *block, uint16_t order)
{
	for (uint64_t u = unit_of(block_address(block)); u < end_of(block); u++) {
		unit[u].taken = false;
		unit[u].order = order;
		unit[u].number = number;
	}
}

static void check_held(struct slab *const slab[], struct block *const held[])
{
	for (int i = 0; i < HELD; i++) {
		uint64_t at = held[i] ? block_address(held[i]) : 0;

		for (int s = 0; held[i] && s < SLABS * 2; s++)
			if (at - slab_base(slab[s]) < slab_bytes(slab[s])) {
				CHECK(slab_find(slab[s], at) == held[i]);
				CHECK(slab_find(slab[s], at + held[i]->used.bytes - 1) == held[i]);
			}
	}
}

static void check_against_a_list(void)
{
	static struct slabs slabs = {.passed = passed};
	static struct block *held[HELD];
	struct slab *slab[SLABS * 2];
	int removed = 0;

	for (uint64_t i = 0; i < SLABS * 2; i++)
		slab[i] = grow(&slabs, 4 * GRANULE_BYTES, i % 2, ADDRESS + i * 4 * GRANULE_BYTES);
	for (int i = 0; i < 200000; i++) {
		struct block **h = &held[pick(HELD)];
		uint16_t order = (uint16_t)(1 + pick(ORDERS - 1));

		if (*h) {
			number++;
			note_given(*h, order);
			slabs_give(*h, order, number);
			*h = NULL;
		} else {
			*h = slabs_take(&slabs, 1 + pick(pick(8) ? 40000 : 3 * MIB), order);
			if (*h)
				note_taken(*h, order);
		}
		if (!pick(16) && number > 3)
			passed[order] = max_u64(passed[order], number - pick(3));
		if (!pick(500))
			slabs_join(&slabs);
		if (!pick(1000))
			check_held(slab, held);
	}
	for (int i = 0; i < HELD; i++)
		if (held[i])
			slabs_give(held[i], 1, ++number);
	CHECK_EQ(slabs.used, 0);
	CHECK_EQ(slabs.idle, SLABS * 2);
	for (int i = 0; i < ORDERS; i++)
		passed[i] = number;
	slabs_join(&slabs);
	for (bool large = false;; large = true) {
		for (int i = 0; i < SLABS; i++)
			CHECK(slabs_take(&slabs, large ? 4 * GRANULE_BYTES : SMALL_BYTES, 2) != NULL);
		if (large)
			break;
	}
	for (struct slab *s; (s = slabs_remove(&slabs, 0)); removed++)
		slab_end(s);
	CHECK_EQ(removed, SLABS - 1); /* what is in use stays: small ones in one of them */
}

int main(void)
{
	check_orders();
	memset(passed, 0, sizeof(passed));
	check_against_a_list();
	return 0;
}
