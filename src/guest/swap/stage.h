/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Host memory that device memory goes to. It is made ready in steps, each by the thread that
 * takes it first: threads of ours ahead of the copies, since one alone allocates pages several
 *times slower than a device copies, or the copying thread itself.
 *
 *	stage_take ── addresses, and no memory
 *	stage_begin ──► threads: find pages, have the driver know them ──► stage_end
 *	copies:         stage_await a step ── copy ── the next ── stage_sync
 *	             or stage_bring a part ── copy ── the next ── stage_keep
 *	stage_give ── nothing is left of it
 *
 * What is ready stays so until stage_give: the next way out copies at once.
 *
 * Its end may be a file's, as a mapping of that: a copying thread sees addresses alone. Steps of
 * a file are never ready, and no driver knows them, since the kernel is to have their pages back.
 * The copying thread has the kernel bring each of them in, so that a disk that fails is an error
 * here, and no signal.
 */
#ifndef ALLOT_GUEST_SWAP_STAGE_H
#define ALLOT_GUEST_SWAP_STAGE_H

#include <stdbool.h>
#include <stdint.h>

#include "nvidia/look_code.h"
#include "ledger/records.h"

#define STAGE_STEP_BYTES (UINT64_C(16) << 20)

enum stage_state {
	STAGE_EMPTY,
	STAGE_TAKEN,  /* by a thread that makes it ready */
	STAGE_FAILED,
	STAGE_READY,  /* its pages are there */
	STAGE_KNOWN,  /* to the driver, too */
};

/* The driver learns of a step whose pages are there. If it does. Called by several threads. */
typedef bool stage_meet(void *arg, char *at, uint64_t bytes);

typedef void stage_part_step(void *arg, char *at, uint64_t bytes);

/* Over steps: each that is found in a state is made ready, or known. */
struct stage_pass {
	enum stage_state found;
	stage_meet *meet; /* NULL: no driver learns of it */
	uint64_t least;	  /* as of stage_begin_ahead; 0: whatever is free */
	uint64_t most;	  /* threads; 0: all */
};

#define STAGE_PASSES 3

/* The content of a granule (look_code.h), as far as it is known; and whether its pages are there. */
struct stage_mark {
	uint64_t hash[2]; /* zero: nothing is known of it */
	uint32_t word;
	bool empty; /* the content is that word, repeated, and was not written to the host memory */
	_Atomic bool brought; /* pages of it are there; without, they read as zero */
};

struct stage {
	char *at; /* NULL: none */
	uint64_t bytes;
	uint64_t host_bytes; /* whole steps; behind them it is a file's. All of it: there is none */
	_Atomic int error; /* -errno of the last that could not be had of a file; 0: of host memory */
	_Atomic uint32_t *step; /* enum stage_state of each; a futex */
	struct stage_mark *mark; /* of each granule */
	struct stage_pass pass[STAGE_PASSES]; /* of the threads */
	int passes;
	void *arg;	      /* for `meet` */
	const uint32_t *busy; /* while that is not 0 nothing is found ahead; NULL: always is */
	_Atomic bool called_off; /* by that */
	_Atomic uint64_t next[STAGE_PASSES], end; /* steps that they still take */
	_Atomic uint64_t came[STAGE_PASSES];	  /* threads, to each pass */
	_Atomic uint32_t working;   /* threads; a futex */
};

/*
 * Reserves addresses for `bytes`, without pages yet, which no child inherits. An earlier
 * reservation is kept if it is large enough. False: there are none.
 */
bool stage_take(struct stage *stage, uint64_t bytes);

/*
 * From `from` on, whole steps, it becomes a file's in a directory, for which the disk has room
 * then. Nothing of that is ready or in use. 0, or -errno as of unnamed_file_open, and there is no
 * file; -ENOSYS: the kernel cannot bring in pages without a signal (before 5.14).
 */
int stage_take_file(struct stage *stage, uint64_t from, const char *dir);

/* True if stage_take and stage_take_file leave ready steps as they are, and keep nothing beside. */
bool stage_suits(const struct stage *stage, uint64_t bytes, uint64_t from);

/* Returns how many of `bytes` from `at` on are in the file. */
uint64_t stage_filed(const struct stage *stage, uint64_t at, uint64_t bytes);

/* Returns the file to the disk, and loses its content. Does nothing without a file. */
void stage_give_file(struct stage *stage);

/* That the calling thread may run on. */
uint64_t stage_processors(void);

/*
 * As many threads as are of use, and as can be had, make [from, to) ready. Steps that are
 * ready stay as they are: they may be in use.
 */
void stage_begin(struct stage *stage, uint64_t from, uint64_t to, stage_meet *meet, void *arg);

/*
 * The same for [0, to) and by fewer threads, while programs run: the driver learns of what is ready,
 * by few, since others wait for its locks, and of pages that are found meanwhile for all else. No
 * more than leaves `least` free of host memory, since others look for some as well. Nobody waits
 * for any of it: stage_end comes before anything else. They end early where it is busy.
 */
void stage_begin_ahead(struct stage *stage, uint64_t to, uint64_t least, stage_meet *meet,
		       void *arg);

/* True while those threads work; true once they have ended by themselves. */
bool stage_is_at_work(const struct stage *stage);
bool stage_has_finished(const struct stage *stage);

/*
 * Waits until [from, to) is there to be written, or to be read, or makes it so. False: there is no
 * memory, or what `error` says.
 */
bool stage_await(struct stage *stage, uint64_t from, uint64_t to, bool write);

/*
 * Brings in pages of a part of a step, to be written or to be read, for one of several threads that
 * copy. False: as of stage_await.
 */
bool stage_bring(struct stage *stage, uint64_t at, uint64_t bytes, bool write);

/* Steps of [from, to) that were brought in are ready, whether they were written or read: empty ones were not. */
void stage_keep(struct stage *stage, uint64_t from, uint64_t to);

/* Of the step there. No thread is at work. */
enum stage_state stage_state(const struct stage *stage, uint64_t at);

/* Why there is none of it. */
enum swap_why stage_why(const struct stage *stage);

/*
 * Writes the file to the disk. False: the disk has failed, also at an earlier write. `synced` is
 * called for each part of a file, since a slow disk takes long for all of it.
 */
typedef void stage_synced(void *arg, uint64_t bytes);
bool stage_sync(struct stage *stage, stage_synced *synced, void *arg);

/* The threads are gone when it returns. Also where none was begun. */
void stage_end(struct stage *stage);

/*
 * Content of a granule: it is there, as long as its host memory is (a file's is not marked); it will be
 * written over; true if that very content is there.
 */
void stage_mark(struct stage *stage, uint64_t at, const uint64_t hash[2]);
void stage_unmark(struct stage *stage, uint64_t at);
bool stage_has(const struct stage *stage, uint64_t at, const uint64_t hash[2]);

/*
 * A granule whose content is one repeated word is empty: it takes no host memory, nor pages of a file.
 * It stays so until stage_unmark, or until its host memory goes. Returns true if it is.
 */
void stage_set_empty(struct stage *stage, uint64_t at, uint32_t word);
bool stage_is_empty(const struct stage *stage, uint64_t at, uint32_t *ret_word);

/*
 * Writes the content of empty granules below `to`, for a reader from outside; `synced` is told of each.
 * False: as of stage_await, or they would take more than `room` bytes of the host.
 */
bool stage_write_empty(struct stage *stage, uint64_t to, uint64_t room, stage_synced *synced,
		       void *arg);

/* Returns true if the hash of any granule is known. */
bool stage_knows(const struct stage *stage);

/* For each step that the driver knows: it is to forget it. */
void stage_part(struct stage *stage, stage_part_step *part, void *arg);

/* Bytes of the steps that are ready, but for empty granules without pages. */
uint64_t stage_ready(const struct stage *stage);

/* Bytes of [from, to) that are empty and have no pages; those that stage_ready and ahead threads leave out. */
uint64_t stage_spared(const struct stage *stage, uint64_t from, uint64_t to);
uint64_t stage_spared_steps(const struct stage *stage);

/* The pages and the file go, the addresses stay. No driver may know them any more. */
void stage_empty(struct stage *stage);

/* The same for steps that lie in [from, to), of which the driver forgets those that it knows. */
void stage_empty_part(struct stage *stage, uint64_t from, uint64_t to, stage_part_step *part,
		      void *arg);

void stage_give(struct stage *stage);

#endif
