/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Host memory that device memory goes to. It is made ready in steps, each by whoever takes it first:
 * threads of ours ahead of the copies, since one alone finds pages several times slower than a device
 * copies, and who copies.
 *
 *	stage_take ── addresses, and no memory
 *	stage_begin ──► threads: find pages, have the driver know them ──► stage_end
 *	copies:         stage_await a step ── copy ── the next
 *	stage_give ── nothing is left of it
 *
 * What is ready stays so until stage_give: the next way out copies at once.
 */
#ifndef ALLOT_GUEST_SWAP_STAGE_H
#define ALLOT_GUEST_SWAP_STAGE_H

#include <stdbool.h>
#include <stdint.h>

#define STAGE_STEP_BYTES (UINT64_C(16) << 20)

/* What a driver does with a step whose pages are there. Called by several threads. */
typedef void stage_meet(void *arg, char *at, uint64_t bytes);

struct stage {
	char *at; /* NULL: none */
	uint64_t bytes;
	_Atomic uint32_t *step; /* enum stage_state of each; a futex */
	stage_meet *meet; /* NULL: nobody has to know the memory */
	void *arg;
	_Atomic uint64_t next, end; /* steps that the threads still take */
	_Atomic uint32_t working;   /* threads; a futex */
};

/*
 * Addresses for so much, without pages yet, which no child inherits. What there is already is kept if
 * it is large enough. False: there are none.
 */
bool stage_take(struct stage *stage, uint64_t bytes);

/* As many threads as are of use, and as can be had, make [from, to) ready. */
void stage_begin(struct stage *stage, uint64_t from, uint64_t to, stage_meet *meet, void *arg);

/* Waits until [from, to) is ready, or makes it so. False: there is no memory. */
bool stage_await(struct stage *stage, uint64_t from, uint64_t to);

/* The threads are gone when it returns. Also where none was begun. */
void stage_end(struct stage *stage);

/* For each step that is ready: the driver is to forget it. It is not ready any more. */
void stage_part(struct stage *stage, stage_meet *part, void *arg);

/* What is ready, in bytes. */
uint64_t stage_ready(const struct stage *stage);

/* The pages go, the addresses stay. No driver may know them any more. */
void stage_empty(struct stage *stage);

void stage_give(struct stage *stage);

#endif
