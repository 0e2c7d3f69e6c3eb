/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/movable/slab.h"

#include <stddef.h>
#include <sys/mman.h>

#include "base/number.h"
#include "base/pages.h"

struct slab {
	struct slabs *slabs;
	struct slab *next;
	uint64_t base, bytes;
	uint64_t mapped_bytes; /* of this, with the blocks */
	uint32_t unit, units;
	uint32_t used; /* blocks that are not idle */
	bool large;
	struct block block[]; /* at the index of their first unit */
};

uint64_t slab_base(const struct slab *slab)
{
	return slab->base;
}

uint64_t slab_bytes(const struct slab *slab)
{
	return slab->bytes;
}

struct slabs *slab_of(const struct slab *slab)
{
	return slab->slabs;
}

uint64_t block_address(const struct block *block)
{
	const struct slab *slab = block->slab;

	return slab->base + (uint64_t)(block - slab->block) * slab->unit;
}

/* The pages of blocks that never were cost nothing. */
struct slab *slab_make(struct slabs *slabs, uint64_t bytes, bool large)
{
	uint32_t unit = large ? SLAB_UNIT_LARGE : SLAB_UNIT;
	uint64_t mapped = sizeof(struct slab) + bytes / unit * sizeof(struct block);
	struct slab *slab;

	if (bytes / unit > UINT32_MAX)
		return NULL;
	slab = pages_reserve(mapped);
	if (!slab)
		return NULL;
	slab->slabs = slabs;
	slab->bytes = bytes;
	slab->mapped_bytes = mapped;
	slab->unit = unit;
	slab->units = (uint32_t)(bytes / unit);
	slab->large = large;
	return slab;
}

void slab_end(struct slab *slab)
{
	munmap(slab, slab->mapped_bytes);
}

/* --- Bins ----------------------------------------------------------------------------------- */

/* Blocks of 1, 2 and 3 units have their own; then four for each power of two. */
static unsigned int slab_bin(uint32_t units)
{
	unsigned int log = 31 - (unsigned int)__builtin_clz(units);

	return log < 2 ? units - 1 : 3 + (log - 2) * 4 + (units >> (log - 2) & 3);
}

static void slab_push(struct block *block)
{
	struct slabs *slabs = block->slab->slabs;
	unsigned int bin = slab_bin(block->units);
	struct block **first = &slabs->bin[block->slab->large][bin];

	block->state = BLOCK_IDLE;
	block->idle.next = *first;
	block->idle.before = NULL;
	if (*first)
		(*first)->idle.before = block;
	*first = block;
	slabs->filled[block->slab->large][bin / 64] |= UINT64_C(1) << bin % 64;
}

static void slab_pull(struct block *block)
{
	struct slabs *slabs = block->slab->slabs;
	unsigned int bin = slab_bin(block->units);
	struct block **first = &slabs->bin[block->slab->large][bin];

	if (block->idle.next)
		block->idle.next->idle.before = block->idle.before;
	if (block->idle.before)
		block->idle.before->idle.next = block->idle.next;
	else
		*first = block->idle.next;
	if (!*first)
		slabs->filled[block->slab->large][bin / 64] &= ~(UINT64_C(1) << bin % 64);
}

/* The first bin that is not empty, from one on; SLAB_BINS: there is none. */
static unsigned int slab_next_bin(const uint64_t *filled, unsigned int from)
{
	for (unsigned int word = from / 64; word < SLAB_BINS / 64; word++) {
		uint64_t left = filled[word];

		if (word == from / 64)
			left &= UINT64_MAX << from % 64;
		if (left)
			return word * 64 + (unsigned int)__builtin_ctzll(left);
	}
	return SLAB_BINS;
}

/* --- Blocks --------------------------------------------------------------------------------- */

static bool block_is_ready(const struct block *block)
{
	return block->order == SLAB_READY ||
	       block->number <= block->slab->slabs->passed[block->order];
}

static struct block *block_behind(struct block *block)
{
	struct slab *slab = block->slab;
	ptrdiff_t at = block - slab->block + (ptrdiff_t)block->units;

	return at < (ptrdiff_t)slab->units ? &slab->block[at] : NULL;
}

/* Gives the block so many units, and those behind them to a block of their own. Both are in no bin. */
static void block_cut(struct block *block, uint32_t units)
{
	struct block *rest = block + units, *behind = block_behind(block);

	*rest = *block;
	rest->units = block->units - units;
	rest->before = block->units = units;
	if (behind)
		behind->before = rest->units;
}

static bool block_joins(const struct block *a, const struct block *b)
{
	return a->state == BLOCK_IDLE && b->state == BLOCK_IDLE &&
	       (a->order == b->order || (block_is_ready(a) && block_is_ready(b)));
}

/* The one behind becomes a part of it. Both are in no bin. */
static void block_join(struct block *block, struct block *rest)
{
	struct block *behind = block_behind(rest);

	if (block->order != rest->order)
		block->order = SLAB_READY;
	block->number = max_u64(block->number, rest->number);
	block->units += rest->units;
	rest->units = 0;
	if (behind)
		behind->before = block->units;
}

void slabs_add(struct slab *slab, uint64_t base)
{
	struct slabs *slabs = slab->slabs;

	slab->base = base;
	slab->next = slabs->first;
	slabs->first = slab;
	slabs->idle++;
	slabs->reserved += slab->bytes;
	slabs->reserved_high = max_u64(slabs->reserved_high, slabs->reserved);
	slab->block[0] = (struct block){.slab = slab, .units = slab->units};
	slab_push(&slab->block[0]);
}

static struct block *slabs_look(struct slabs *slabs, bool large, uint32_t units, uint16_t order)
{
	for (unsigned int bin = slab_bin(units);
	     (bin = slab_next_bin(slabs->filled[large], bin)) < SLAB_BINS; bin++)
		for (struct block *b = slabs->bin[large][bin]; b; b = b->idle.next)
			if (b->units >= units && (b->order == order || block_is_ready(b)))
				return b;
	return NULL;
}

struct block *slabs_take(struct slabs *slabs, uint64_t bytes, uint16_t order)
{
	bool large = bytes > SMALL_BYTES;
	uint64_t unit = large ? SLAB_UNIT_LARGE : SLAB_UNIT, units = round_up(bytes, unit) / unit;
	struct block *block = units && units <= INT32_MAX
				      ? slabs_look(slabs, large, (uint32_t)units, order)
				      : NULL;

	if (!block)
		return NULL;
	slab_pull(block);
	if (block->units > units) {
		block_cut(block, (uint32_t)units);
		slab_push(block_behind(block));
	}
	block->state = BLOCK_USED;
	block->used.bytes = bytes;
	if (!block->slab->used++)
		slabs->idle--;
	slabs->used += round_up(bytes, SLAB_UNIT);
	slabs->used_high = max_u64(slabs->used_high, slabs->used);
	return block;
}

void slabs_give(struct block *block, uint16_t order, uint64_t number)
{
	struct slab *slab = block->slab;
	struct block *behind, *before;

	slab->slabs->used -= round_up(block->used.bytes, SLAB_UNIT);
	if (!--slab->used)
		slab->slabs->idle++;
	block->state = BLOCK_IDLE;
	block->order = order;
	block->number = number;
	behind = block_behind(block);
	if (behind && block_joins(block, behind)) {
		slab_pull(behind);
		block_join(block, behind);
	}
	before = block->before ? block - block->before : NULL;
	if (before && block_joins(before, block)) {
		slab_pull(before);
		block_join(before, block);
		block = before;
	}
	slab_push(block);
}

static bool slab_join(struct slab *slab)
{
	bool any = false;

	for (struct block *b = &slab->block[0], *behind; (behind = block_behind(b));) {
		if (!block_joins(b, behind)) {
			b = behind;
			continue;
		}
		slab_pull(b);
		slab_pull(behind);
		block_join(b, behind);
		slab_push(b);
		any = true;
	}
	return any;
}

bool slabs_join(struct slabs *slabs)
{
	bool any = false;

	for (struct slab *s = slabs->first; s; s = s->next)
		any |= slab_join(s);
	return any;
}

/* --- Slabs ---------------------------------------------------------------------------------- */

static bool slab_is_ready(struct slab *slab)
{
	if (slab->used)
		return false;
	for (struct block *b = &slab->block[0]; b; b = block_behind(b))
		if (!block_is_ready(b))
			return false;
	return true;
}

struct slab *slabs_remove(struct slabs *slabs, uint64_t keep)
{
	for (struct slab **at = &slabs->first, *slab; (slab = *at); at = &slab->next) {
		if (slabs->reserved < keep || slabs->reserved - keep < slab->bytes ||
		    !slab_is_ready(slab))
			continue;
		for (struct block *b = &slab->block[0]; b; b = block_behind(b))
			slab_pull(b);
		*at = slab->next;
		slabs->idle--;
		slabs->reserved -= slab->bytes;
		return slab;
	}
	return NULL;
}

bool slabs_have(const struct slabs *slabs, const struct slab *slab)
{
	for (const struct slab *s = slabs->first; s; s = s->next)
		if (s == slab)
			return true;
	return false;
}

struct block *slab_find(struct slab *slab, uint64_t at)
{
	uint64_t unit = (at - slab->base) / slab->unit;
	struct block *b = unit < slab->units ? &slab->block[unit] : NULL;

	/* Most ask for the first byte. */
	if (b && !b->units)
		for (b = &slab->block[0]; b && b->units &&
					  (uint64_t)(b - slab->block) + b->units <= unit;)
			b = block_behind(b);
	return b && b->units && b->state != BLOCK_IDLE && at - block_address(b) < b->used.bytes ? b
												: NULL;
}
