/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a process holds by one vendor's driver, as the swap thread moves it. The thread calls these
 * one after the other, and nobody else does:
 *
 *	gate is being shut	rest
 *	shut for good		prepare ── bytes ── take ── out ── come ── back
 *	about to be opened	done, whatever was done of the above
 *	open			kept ── forget
 */
#ifndef ALLOT_GUEST_SWAP_MOVER_H
#define ALLOT_GUEST_SWAP_MOVER_H

#include <stdbool.h>

#include "guest/core/guest.h"
#include "ledger/records.h"

/* What of its host memory is a file's. */
struct mover_file {
	uint64_t bytes; /* 0: none */
	uint64_t holds; /* of what is away */
	int error;	/* -errno: why it was not to be had, or not to be used; 0: there is none */
};

/* What a program has its devices do that no call tells of. */
enum mover_work {
	MOVER_BY_CALLS, /* there is no such way */
	MOVER_RESTS,
	MOVER_WORKS,
};

struct mover_kind {
	/* Waits until no work of the program's is on the devices. */
	enum swap_why (*rest)(void *self);
	/* Finds what cannot leave: the first kind, and how much of it. */
	enum swap_why (*prepare)(void *self, uint64_t *ret_amount);
	/* What would leave, with `part` of SWAP_ALL: more than that where it is in large pieces. */
	uint64_t (*bytes)(void *self, uint32_t part);
	/*
	 * Takes its place for all of it ahead of `out`: whole steps of host memory, and behind them
	 * a file in `dir`. Else there is none, or what `file` says is in the way. Nothing is away.
	 */
	bool (*take)(void *self, uint64_t host_bytes, const char *dir);
	struct mover_file (*file)(void *self);
	/*
	 * SWAP_FINE, or all is where it was; but where some was away, what followed may be, too.
	 * `part` of SWAP_ALL is to be away then, or more. Out once more after a way back copies
	 * nothing.
	 */
	enum swap_why (*out)(void *self, uint32_t part);
	/*
	 * Brings back some of what has room, ahead of the rest, and leaves room for others who are
	 * on their way out. Whether it did. NULL: it all comes with `back`. It may be on its way
	 * until come_end, which comes before anything else.
	 */
	bool (*come)(void *self);
	void (*come_end)(void *self);
	enum swap_why (*back)(void *self);
	/* It left, and has not come back; with how much of it. */
	bool (*is_away)(const void *self);
	uint64_t (*away)(void *self);
	/* All is on its device, and is about to be used. */
	void (*done)(void *self);
	/*
	 * While the program runs, threads of ours find host memory for no more than `part` of it, as
	 * far as `least` stays free beside it, and have the driver know it; while it is away, they
	 * have the driver know what its content is in. 0: they are gone when it returns, before
	 * anything else is asked for. Asked once more, it says whether they are done; where they are
	 * not at work any more, they begin again. NULL: it is found when it leaves.
	 */
	bool (*ahead)(void *self, uint32_t part, uint64_t least);
	/*
	 * While the program runs, or its memory is away: whether it uses that, or waits for it.
	 * NULL: MOVER_BY_CALLS.
	 */
	enum mover_work (*look)(void *self);
	/*
	 * Gives up what is spare, if that is asked for (ledger/spare.h); at any time but within one
	 * of the others. NULL: nothing ever is.
	 */
	void (*yield)(void *self);
	/*
	 * Bytes of host memory that the next way out finds there; gives them back, but for what has
	 * content of what is away.
	 */
	uint64_t (*kept)(const void *self);
	void (*forget)(void *self);
};

struct mover {
	const struct mover_kind *kind;
	void *self;
};

/* One for each vendor. */
#define MOVERS 2

struct movers {
	struct mover mover[MOVERS];
};

/* Of all of them together; as in struct mover_kind. */
bool movers_are_away(const struct movers *movers);
enum swap_why movers_prepare(const struct movers *movers, uint64_t *ret_amount);
uint64_t movers_bytes(const struct movers *movers, uint32_t part);
uint64_t movers_away(const struct movers *movers);
uint64_t movers_kept(const struct movers *movers);
struct mover_file movers_file(const struct movers *movers);
enum mover_work movers_work(const struct movers *movers);
bool movers_come(const struct movers *movers);
void movers_come_end(const struct movers *movers);
void movers_done(const struct movers *movers);
void movers_yield(const struct movers *movers);
void movers_forget(const struct movers *movers);
/* Returns true if all host memory for `part` is prepared. */
bool movers_ahead(const struct movers *movers, uint32_t part, uint64_t least);

/*
 * Moves `part` of SWAP_ALL out; 0: all of it back. If a mover fails, those before it return to
 * `before`, the part that was out; a part that follows another one stays out.
 */
enum swap_why movers_move(const struct movers *movers, uint32_t part, uint32_t before);

#endif
