/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a device has memory for has addresses, whatever was allocated and freed before: in a million
 * steps at random, of which each may want up to 60 % of the device.
 */
#include "guest/movable/pieces.h"

#include <stdlib.h>

#include "tests/check.h"

#define MEMORY 3500 /* pages */
#define STEPS  1000000
#define HELD   MEMORY

static struct backing *backing;
static uint32_t held[HELD], nheld, used;
static uint64_t seed = 88172645463325252u;

static uint32_t draw(uint32_t n)
{
	seed ^= seed << 13;
	seed ^= seed >> 7;
	seed ^= seed << 17;
	return (uint32_t)(seed % n);
}

/* Small ones most of the time, and of each length in bits as often. */
static uint32_t draw_pages(uint32_t most)
{
	uint32_t pages = 1 + draw(1u << (1 + draw(12)));

	return pages <= most ? pages : 1 + draw(most);
}

static void take(uint32_t pages)
{
	uint32_t page = pieces_take(backing, pages);

	CHECK(page != UINT32_MAX);
	CHECK(page + pages <= backing->pages);
	backing->piece[page].state = PIECE_HERE;
	held[nheld++] = page;
	used += pages;
}

static void give(uint32_t i)
{
	used -= backing->piece[held[i]].pages;
	pieces_give(backing, held[i]);
	held[i] = held[--nheld];
}

/* Each piece is found, from any of its addresses and in order, and no other. */
static void check_found(void)
{
	uint32_t n = 0, pages = 0, at = 0;

	while ((at = pieces_find_from(backing, at)) != UINT32_MAX) {
		uint32_t size = backing->piece[at].pages;

		for (uint32_t i = 0; i < size; i++)
			CHECK(pieces_find(backing, pieces_address(backing, at + i)) ==
			      &backing->piece[at]);
		n++;
		pages += size;
		at += size;
	}
	CHECK_EQ(n, nheld);
	CHECK_EQ(pages, used);
}

static void check_random(void)
{
	for (uint32_t step = 0; step < STEPS; step++) {
		/* Mostly full: then what is freed lies anywhere. */
		uint32_t pages = draw_pages(MEMORY * 6 / 10);

		while (used + pages > MEMORY)
			give(draw(nheld));
		take(pages);
		if (step % (STEPS / 16) == 0)
			check_found();
	}
	while (nheld)
		give(nheld - 1);
	check_found();
}

/* The worst for who hands out addresses in one row: the small ones that stay are far apart. */
static void check_comb(void)
{
	for (uint32_t pages = 1; pages <= MEMORY / 4; pages *= 2) {
		uint32_t n = nheld;

		while (used + pages <= MEMORY)
			take(pages);
		for (uint32_t i = nheld; i-- > n;)
			if (i % 2)
				give(i);
	}
	while (MEMORY - used < MEMORY / 2)
		give(draw(nheld));
	take(MEMORY - used);
	while (nheld)
		give(nheld - 1);
}

/* All of the device as pieces of any one size, and as one. */
static void check_full(void)
{
	for (uint32_t pages = 1; pages <= MEMORY; pages++) {
		while (used + pages <= MEMORY)
			take(pages);
		while (nheld)
			give(nheld - 1);
	}
	CHECK_EQ(pieces_take(backing, MEMORY + 1), UINT32_MAX);
	CHECK_EQ(pieces_take(backing, 0), UINT32_MAX);
}

/* What was freed is not the next one's. */
static void check_in_turn(void)
{
	uint32_t before;

	take(7);
	before = held[0];
	give(0);
	take(7);
	CHECK(held[0] != before);
	give(0);
}

int main(void)
{
	backing = pieces_map(MEMORY);
	CHECK(backing);
	check_in_turn();
	check_full();
	check_comb();
	check_random();
	pieces_unmap(backing);
	return 0;
}
