/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A pool's memory: slabs, each one piece of a device's memory, cut into blocks that cover it without
 * gaps. Pure: whose streams the orders are, and who may look at it when, is the caller's affair.
 *
 * A block that was freed in the order of a stream can be used at once by who goes on in that order.
 * For others it is ready when what came before the free is done: when `passed` of that order has
 * reached the number of the free.
 *
 *	order 5   frees block (number 17) ── takes it again
 *	order 6                 cannot ────────────── passed[5] is 17 ── takes it
 *
 * Small blocks and large ones have slabs of their own, so that what describes a slab stays small.
 */
#ifndef ALLOT_GUEST_MOVABLE_SLAB_H
#define ALLOT_GUEST_MOVABLE_SLAB_H

#include <stdbool.h>
#include <stdint.h>

#include "guest/account/granule.h"

/* Of those up to SMALL_BYTES, as the driver aligns them; and of larger ones. */
#define SLAB_UNIT	512u
#define SLAB_UNIT_LARGE 65536u

/* What is free in this order is ready for all, whatever its number. */
#define SLAB_READY 0

struct slab;

struct block {
	struct slab *slab;
	union {
		struct {
			struct block *next, *before; /* in its bin */
		} idle;
		struct {
			uint64_t bytes; /* as the program asked for it */
			uint64_t id;	/* the caller's */
		} used;
	};
	uint64_t number; /* of the free */
	uint32_t units;	 /* 0: no block begins here */
	uint32_t before; /* units of the block before it; 0: it is the first */
	uint16_t order;	 /* in which it was freed */
	uint8_t state;	 /* enum block_state */
};

enum block_state {
	BLOCK_IDLE,
	BLOCK_USED,
	BLOCK_ENDING, /* a thread is about to free it */
};

#define SLAB_BINS 128 /* by size, four for each power of two */

struct slabs {
	const uint64_t *passed; /* of each order, the last number that is done */
	struct slab *first;
	uint32_t idle; /* slabs of which nothing is in use */
	uint64_t reserved, reserved_high, used, used_high; /* bytes, as a pool's attributes */
	struct block *bin[2][SLAB_BINS];
	uint64_t filled[2][SLAB_BINS / 64]; /* a bit for each bin that is not empty */
};

/* A multiple of GRANULE_BYTES, for small blocks or large ones. Not in `slabs` yet. NULL: no memory. */
struct slab *slab_make(struct slabs *slabs, uint64_t bytes, bool large);
void slab_end(struct slab *slab);

/* Its memory begins at `base`, and all of it is ready. */
void slabs_add(struct slab *slab, uint64_t base);

/* NULL: there is none that is large enough and that the order may use. */
struct block *slabs_take(struct slabs *slabs, uint64_t bytes, uint16_t order);
void slabs_give(struct block *block, uint16_t order, uint64_t number);

/* Joins what has become ready since. Whether anything was joined. */
bool slabs_join(struct slabs *slabs);

/*
 * Takes a slab out of which all is ready, unless less than `keep` bytes would be left. NULL: there is
 * none. The caller ends it.
 */
struct slab *slabs_remove(struct slabs *slabs, uint64_t keep);

bool slabs_have(const struct slabs *slabs, const struct slab *slab);

/* The block in use that has an address; NULL: none has. */
struct block *slab_find(struct slab *slab, uint64_t at);

uint64_t slab_base(const struct slab *slab);
uint64_t slab_bytes(const struct slab *slab);
struct slabs *slab_of(const struct slab *slab);
uint64_t block_address(const struct block *block);

#endif
