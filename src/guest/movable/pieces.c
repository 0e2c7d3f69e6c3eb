/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/movable/pieces.h"

#include <string.h>
#include <sys/mman.h>

#include "base/pages.h"

/* In which size a piece of so many pages is. */
static unsigned int pieces_size_of(uint32_t pages)
{
	return pages > 1 ? 32 - (unsigned int)__builtin_clz(pages - 1) : 0;
}

/*
 * A place for each piece that there may be memory for, and a fourth more, so that none has the
 * addresses at once that another one just had. Two more are for pieces that are being made in vain.
 * The largest come first: what leaves in part leaves in the order of addresses, and few large pieces
 * do that faster than many small ones. Answers how many pages that takes.
 */
static uint32_t pieces_lay_out(struct pieces_size size[static PIECES_SIZES], uint32_t memory)
{
	uint32_t pages = 0;

	for (unsigned int i = pieces_size_of(memory) + 1; i-- > 0;) {
		uint32_t most = memory / (i ? (1u << (i - 1)) + 1 : 1);

		size[i].first = pages;
		size[i].places = most + most / 4 + 2;
		pages += size[i].places << i;
	}
	return pages;
}

struct backing *pieces_map(uint32_t memory)
{
	struct pieces_size size[PIECES_SIZES] = {{0}};
	uint32_t pages = pieces_lay_out(size, memory);
	size_t head = round_up(sizeof(struct backing), 4096);
	size_t first = round_up(pages * sizeof(uint32_t), 4096);
	size_t piece = round_up(pages * sizeof(struct piece), 4096);
	size_t bytes = head + first + piece + memory * sizeof(struct cut);
	char *at = pages_reserve(bytes);
	struct backing *backing = (struct backing *)at;

	if (!at)
		return NULL;
	memcpy(backing->size, size, sizeof(size));
	backing->pages = pages;
	backing->memory = memory;
	backing->ncuts = memory;
	backing->mapped_bytes = bytes;
	backing->first = (uint32_t *)(at + head);
	backing->piece = (struct piece *)(at + head + first);
	backing->cut = (struct cut *)(at + head + first + piece);
	return backing;
}

void pieces_unmap(struct backing *backing)
{
	munmap(backing, backing->mapped_bytes);
}

/* The next place of a size that nobody has, in turn; its first page, or UINT32_MAX. */
static uint32_t pieces_take_place(const struct backing *backing, struct pieces_size *size,
				  unsigned int shift)
{
	for (uint32_t n = 0; n < size->places; n++) {
		uint32_t page = size->first + (size->cursor << shift);

		size->cursor = size->cursor + 1 < size->places ? size->cursor + 1 : 0;
		if (!backing->first[page])
			return page;
	}
	return UINT32_MAX;
}

uint32_t pieces_take(struct backing *backing, uint32_t pages)
{
	unsigned int size = pieces_size_of(pages);
	uint32_t page;

	if (!pages || pages > backing->memory)
		return UINT32_MAX;
	page = pieces_take_place(backing, &backing->size[size], size);
	if (page == UINT32_MAX)
		return page;
	backing->size[size].taken++;
	for (uint32_t i = 0; i < pages; i++)
		backing->first[page + i] = page + 1;
	backing->piece[page] =
		(struct piece){.pages = pages, .state = PIECE_MOVING, .types = backing->types};
	return page;
}

void pieces_give(struct backing *backing, uint32_t page)
{
	uint32_t pages = backing->piece[page].pages;

	backing->size[pieces_size_of(pages)].taken--;
	for (uint32_t i = 0; i < pages; i++)
		backing->first[page + i] = 0;
}

static uint32_t pieces_take_cut(struct backing *backing)
{
	uint32_t cut = backing->free_cut;

	if (cut)
		backing->free_cut = backing->cut[cut - 1].most;
	else if (backing->cuts_used < backing->ncuts)
		cut = ++backing->cuts_used;
	if (cut)
		backing->cut[cut - 1].most = CUT_UNITS;
	return cut;
}

/* It is empty: all of its bits are clear. */
static void pieces_give_cut(struct backing *backing, uint32_t cut)
{
	backing->cut[cut - 1].most = backing->free_cut;
	backing->free_cut = cut;
}

bool pieces_cut(struct backing *backing, uint64_t bytes, CUdeviceptr *ret)
{
	for (uint32_t at = backing->small; at; at = backing->piece[at - 1].next) {
		struct cut *cut = &backing->cut[backing->piece[at - 1].cut - 1];
		int unit = cut_take(cut, cut_units(bytes));

		if (unit < 0)
			continue;
		*ret = pieces_address(backing, at - 1) + (uint64_t)unit * CUT_UNIT;
		return true;
	}
	return false;
}

bool pieces_link(struct backing *backing, uint32_t page)
{
	struct piece *piece = &backing->piece[page];

	piece->cut = pieces_take_cut(backing);
	if (!piece->cut)
		return false;
	piece->state = PIECE_HERE;
	piece->next = backing->small;
	backing->small = page + 1;
	return true;
}

static void pieces_unlink(struct backing *backing, uint32_t page)
{
	uint32_t *at = &backing->small;

	while (*at != page + 1)
		at = &backing->piece[*at - 1].next;
	*at = backing->piece[page].next;
}

bool pieces_leave(struct backing *backing, uint32_t page, uint64_t offset)
{
	struct piece *piece = &backing->piece[page];
	struct cut *cut;

	if (piece->cut) {
		cut = &backing->cut[piece->cut - 1];
		if (!cut_give(cut, (uint32_t)(offset / CUT_UNIT)) || cut->allocations)
			return false;
		pieces_unlink(backing, page);
		pieces_give_cut(backing, piece->cut);
	}
	piece->state = PIECE_MOVING;
	return true;
}

uint32_t pieces_take_spare(struct backing *backing, enum pieces_kind kind)
{
	uint32_t page = backing->spare[kind] - 1;

	backing->spare[kind] = 0;
	return page;
}

bool pieces_spare(struct backing *backing, uint32_t page, uint32_t *ret_old)
{
	struct piece *piece = &backing->piece[page];

	if (!piece->mapped || piece->marked)
		return false;
	*ret_old = pieces_take_spare(backing, pieces_kind(piece->pages));
	piece->cut = 0;
	backing->spare[pieces_kind(piece->pages)] = page + 1;
	return true;
}

struct spare_piece pieces_spare_piece(const struct backing *backing, uint32_t page)
{
	struct spare_piece spare = {0};

	if (page != UINT32_MAX) {
		spare.at = pieces_address(backing, page);
		spare.bytes = backing->piece[page].pages * GRANULE_BYTES;
	}
	return spare;
}

uint32_t pieces_take_fit(struct backing *backing, uint32_t pages)
{
	enum pieces_kind kind = pieces_kind(pages);
	uint32_t page = backing->spare[kind] - 1;

	return page != UINT32_MAX && backing->piece[page].pages == pages
		       ? pieces_take_spare(backing, kind)
		       : UINT32_MAX;
}

struct piece *pieces_find(struct backing *backing, CUdeviceptr at)
{
	uint32_t page = backing->first[pieces_page(backing, at)];

	return page ? &backing->piece[page - 1] : NULL;
}

/* The same within the places of a size. */
static uint32_t pieces_find_in(const struct backing *backing, unsigned int shift, uint32_t from)
{
	const struct pieces_size *size = &backing->size[shift];
	uint32_t end = size->first + (size->places << shift);
	uint32_t left = size->taken;

	if (from >= end)
		return UINT32_MAX;
	from = from > size->first ? (from - size->first + (1u << shift) - 1) >> shift : 0;
	for (uint32_t i = from; left && i < size->places; i++) {
		uint32_t page = size->first + (i << shift);

		if (!backing->first[page])
			continue;
		if (backing->piece[page].state != PIECE_MOVING)
			return page;
		left--;
	}
	return UINT32_MAX;
}

uint32_t pieces_find_from(const struct backing *backing, uint32_t page)
{
	for (unsigned int i = PIECES_SIZES; i-- > 0;) {
		uint32_t found = pieces_find_in(backing, i, page);

		if (found != UINT32_MAX)
			return found;
	}
	return UINT32_MAX;
}

/* Whose work reaches the piece. Only we look at a handle's. */
uint64_t pieces_peers(const struct backing *backing, int ordinal, const struct piece *piece)
{
	uint64_t peers = atomic_load(&backing->peers);

	return piece->adopted	 ? UINT64_C(1) << ordinal
	       : piece->imported ? peers | UINT64_C(1) << piece->user
	       : piece->owner	 ? piece->peers
				 : peers;
}
