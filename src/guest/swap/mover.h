/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory of one vendor's driver in a process, as the swap thread moves it. The thread calls these
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

/* The part of a mover's host memory that is a file. */
struct mover_file {
	uint64_t bytes; /* 0: none */
	uint64_t holds; /* bytes of content in it */
	int error;	/* -errno: it could not be made, or used */
};

/* Work that the program gives its devices without a call. */
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
	/* Bytes that would move out with `part` of SWAP_ALL: more than that if pieces are large. */
	uint64_t (*bytes)(void *self, uint32_t part);
	/*
	 * Before `out`, while all is on the device: reserves whole steps of host memory, and behind
	 * them a file in `dir`. False: no memory, or `file` has the error.
	 */
	bool (*take)(void *self, uint64_t host_bytes, const char *dir);
	struct mover_file (*file)(void *self);
	/*
	 * Moves `part` of SWAP_ALL out, if not more is out already. After a failure all is where it
	 * was; but of what follows another part some may be out. A second way out before `done`
	 * copies nothing.
	 */
	enum swap_why (*out)(void *self, uint32_t part);
	/*
	 * Brings some pieces back for which there is room, ahead of `back`, and leaves room for the
	 * copies of others that are on their way out. Returns true if it did. The copies may go on
	 * until come_end, which is called before anything else. NULL: all comes with `back`.
	 */
	bool (*come)(void *self);
	void (*come_end)(void *self);
	enum swap_why (*back)(void *self);
	/* True if memory is out; how many bytes. */
	bool (*is_away)(const void *self);
	uint64_t (*away)(void *self);
	/* All is on its device, and is about to be used. */
	void (*done)(void *self);
	/*
	 * Has threads of ours prepare host memory for at most `part`, as long as `least` stays free
	 * beside it, and register it; of memory that is out they register what its content is in.
	 * 0: the threads have ended when it returns, which must be before anything else is asked
	 * for. Returns true if all is prepared; false: call again, threads that have ended begin
	 * anew. NULL: host memory is allocated on the way out.
	 */
	bool (*ahead)(void *self, uint32_t part, uint64_t least);
	/*
	 * At any time: MOVER_WORKS if the program uses its memory, or waits for it. NULL:
	 * MOVER_BY_CALLS.
	 */
	enum mover_work (*look)(void *self);
	/*
	 * Gives up what is spare, if that is asked for (ledger/spare.h); at any time but within one
	 * of the others. NULL: nothing ever is.
	 */
	void (*yield)(void *self);
	/*
	 * Bytes of host memory that the next way out finds prepared; `forget` returns them, but for
	 * those with content.
	 */
	uint64_t (*kept)(const void *self);
	/* Bytes that are out, and take no host memory: they are empty. NULL: none are. */
	uint64_t (*empty)(void *self);
	/* True if the next way out may find content that has not changed. NULL: it never does. */
	bool (*knows)(const void *self);
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
uint64_t movers_empty(const struct movers *movers);
bool movers_know(const struct movers *movers);
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
