/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tables of a device's reservation of addresses: which pages are whose, and how small ones are
 * cut. Numbers alone: no driver, and the lock is the caller's.
 *
 * Pieces cannot be moved together, so each size has addresses of its own: up to 1, 2, 4, ... pages,
 * in places of just so many. A device has memory for a limited number of pieces of a size, and that
 * has a place for each of them. So what there is memory for has addresses, whatever was made and
 * freed before. Places are handed out in turn: a program that uses what it freed is found out, unless
 * that is spare.
 */
#ifndef ALLOT_GUEST_MOVABLE_PIECES_H
#define ALLOT_GUEST_MOVABLE_PIECES_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/lock.h"
#include "guest/movable/cut.h"
#include "nvidia/cuda_api.h"

enum piece_state {
	PIECE_MOVING, /* being made or ended: its pages are taken, and that is all */
	PIECE_HERE,
	PIECE_AWAY,
};

/* At the index of the first of its pages. */
struct piece {
	CUmemGenericAllocationHandle handle; /* the driver's */
	uint32_t pages;
	uint32_t cut;  /* 1 + index; 0: one allocation has all of it */
	uint32_t next; /* of the cut ones: 1 + the next one's page */
	uint8_t state; /* enum piece_state */
	bool adopted;  /* it is the program's */
	bool imported; /* it is another process's */
	bool mapped;
	bool exposing;	/* a thread is about to map it */
	bool marked;	/* the program set an attribute of it, which is to end with it */
	uint8_t user;	/* of an imported one: a device that reaches it besides */
	void *owner;	/* of a pool's; NULL: it is none's */
	uint64_t peers; /* of a pool's: whose work may reach it */
	/* Of what it is made by. */
	CUmemAllocationHandleType types;
	unsigned char compression, rdma;
};

/* Of each one may be spare: those of several pages do not push out what small ones are cut from. */
enum pieces_kind {
	PIECES_ONE, /* page */
	PIECES_SEVERAL,
	PIECES_KINDS,
};

static inline enum pieces_kind pieces_kind(uint32_t pages)
{
	return pages > 1 ? PIECES_SEVERAL : PIECES_ONE;
}

/* One that is spare no more, and whose it is depends on who has this. No bytes: there is none. */
struct spare_piece {
	CUdeviceptr at;
	uint64_t bytes;
};

/* Pieces of up to 1 << (its index) pages, and of more than half as many. */
struct pieces_size {
	uint32_t first;	 /* page of its places */
	uint32_t places;
	uint32_t taken;
	uint32_t cursor; /* the place that is looked at next */
};

#define PIECES_SIZES 32

struct backing {
	CUdeviceptr base;
	uint32_t pages;	 /* of addresses */
	uint32_t memory; /* of the device, in pages: no piece has more */
	uint64_t mapped_bytes;		 /* of the tables, in one mapping with this */
	_Atomic uint64_t peers;		 /* bit by ordinal: whose work may reach it */
	_Atomic uint64_t ever;		 /* whose might at any time */
	CUmemAllocationHandleType types; /* so that it can be shared, see exporter.h */

	struct lock_backing lock; /* of all below */
	struct pieces_size size[PIECES_SIZES];
	uint32_t small; /* the first cut piece: 1 + page */
	uint32_t spare[PIECES_KINDS]; /* the piece that is: 1 + page */
	uint32_t ncuts, cuts_used;
	uint32_t free_cut; /* of those that were used: 1 + index, linked by `most` */
	uint32_t *first;   /* of each page: 1 + the first page of its piece; 0: free */
	struct piece *piece;
	struct cut *cut;
};

static inline CUdeviceptr pieces_address(const struct backing *backing, uint32_t page)
{
	return backing->base + page * GRANULE_BYTES;
}

static inline uint32_t pieces_page(const struct backing *backing, CUdeviceptr at)
{
	return (uint32_t)((at - backing->base) / GRANULE_BYTES);
}

/* For a device that has so many pages of memory; NULL: no memory for the tables. */
struct backing *pieces_map(uint32_t memory);
void pieces_unmap(struct backing *backing);

/* So many pages, which are a piece that moves; its first, or UINT32_MAX. */
uint32_t pieces_take(struct backing *backing, uint32_t pages);
void pieces_give(struct backing *backing, uint32_t page);

/* Makes a piece of one page one that is cut. False: there is no room in the table. */
bool pieces_link(struct backing *backing, uint32_t page);
/* An allocation in one of those that are cut. False: none has room. */
bool pieces_cut(struct backing *backing, uint64_t bytes, CUdeviceptr *ret);
/* Frees the allocation at `offset` in a piece. Whether the piece is to end: it moves. */
bool pieces_leave(struct backing *backing, uint32_t page, uint64_t offset);

/*
 * Has a piece that moves, with its physical memory, be the spare one of its kind: it goes on moving,
 * so nobody finds it. False: it is not as any other. *ret_old: the page of the one that was spare,
 * which is the caller's; UINT32_MAX: there was none.
 */
bool pieces_spare(struct backing *backing, uint32_t page, uint32_t *ret_old);
/* As others see it, who have no tables; UINT32_MAX: none. */
struct spare_piece pieces_spare_piece(const struct backing *backing, uint32_t page);
/* It is the caller's: its page, or UINT32_MAX where there is none; or none of just so many pages. */
uint32_t pieces_take_spare(struct backing *backing, enum pieces_kind kind);
uint32_t pieces_take_fit(struct backing *backing, uint32_t pages);

/* The piece that has an address of the reservation; NULL: none has. */
struct piece *pieces_find(struct backing *backing, CUdeviceptr at);
/* The first page of the piece that begins there or behind, and does not move; UINT32_MAX. */
uint32_t pieces_find_from(const struct backing *backing, uint32_t page);

/* The devices whose work reaches the piece, on the device `ordinal`: a bit each. */
uint64_t pieces_peers(const struct backing *backing, int ordinal, const struct piece *piece);

#endif
