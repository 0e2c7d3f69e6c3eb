/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies what a device holds into host memory (stage.h), and back, by steps of that. A device
 *copies at full speed where its driver knows the host memory, and to make that known takes several
 *times as long as the copy, the first time. So what is not known goes through a few buffers that
 *are, and as many threads as there are processors copy between those and host memory. Where there
 *is no room for buffers the driver copies as fast as it can without.
 *
 *	copy_begin ── copy_put, for each piece ── copy_end
 *
 *	a step that is known:	device ◄──────────────────────► host memory
 *	another:		device ◄──► buffer ◄─ threads ─► host memory
 *
 * Only the thread that calls copy_put calls the driver.
 */
#ifndef ALLOT_GUEST_SWAP_COPY_H
#define ALLOT_GUEST_SWAP_COPY_H

#include <stdbool.h>
#include <stdint.h>

#include "guest/core/guest.h"
#include "guest/swap/stage.h"
#include "ledger/records.h"

#define COPY_BATCHES 32
#define COPY_SPANS   8
#define COPY_JOBS    64

/* As long as the content, at most. */
#define COPY_BUFFERS_BYTES (8 * STAGE_STEP_BYTES)

/* Bytes of a device, and their place in the stage. */
struct copy_span {
	CUdeviceptr at;
	uint64_t host, bytes;
};

/* Bytes that are copied together, of one step at most. */
struct copy_batch {
	struct copy_span span[COPY_SPANS];
	int n;
	bool direct;	       /* by no buffer */
	bool passes;	       /* its content is there already, */
	bool fills;	       /* or is one word, repeated, of which the device makes it */
	uint32_t word;
	char *host;	       /* what the driver copies to or from, for the first span */
	CUevent event;	       /* it has */
	_Atomic uint32_t left; /* jobs of threads; a futex */
};

/* A thread's: [host, host + bytes) of the stage, between its place and the buffer. */
struct copy_job {
	_Atomic uint32_t state;	  /* enum copy_state; a futex */
	struct copy_batch *batch; /* NULL: no more will come */
	uint64_t host, bytes;
};

/* One way, of one device. */
struct copy {
	struct guest *guest;
	struct stage *stage;
	struct stage *buffers;
	CUcontext context;
	CUstream stream;
	uint64_t bytes;
	bool out, buffered;
	bool poor; /* the kernel would end it for the buffers */
	uint64_t from, to; /* of the stage, what was copied; `to` 0: nothing */
	const struct copy_pace *pace;
	/* Batches by number: the one that is filled, and those whose second and third step come
	 * next. */
	uint64_t first, second, third;
	struct copy_batch batch[COPY_BATCHES];
	uint32_t threads, most;
	uint64_t put; /* jobs */
	struct copy_job job[COPY_JOBS];
	_Atomic uint64_t next;	  /* job that a thread waits for */
	_Atomic uint32_t working; /* threads; a futex */
	_Atomic uint32_t why;	  /* enum swap_why: the first that failed */
};

/*
 * Begins a copy of at most `bytes`. The context is of the device, and current until copy_end.
 * `buffers` are all zero, or another copy's before. SWAP_DRIVER: there is no stream, and nothing to
 * be ended.
 */
enum swap_why copy_begin(struct copy *copy, struct guest *guest, struct stage *stage,
			 struct stage *buffers, CUcontext context, uint64_t bytes, bool out);

/*
 * From or to there, and the place in the stage, in order of that. SWAP_FINE, or what of any of them
 * has failed.
 */
enum swap_why copy_put(struct copy *copy, CUdeviceptr at, uint64_t host, uint64_t bytes);

/* The same where that content is in its place already. */
enum swap_why copy_pass(struct copy *copy, uint64_t host, uint64_t bytes);

/* The same on the way back for content that is one word, repeated: the device writes it. */
enum swap_why copy_fill(struct copy *copy, CUdeviceptr at, uint64_t host, uint64_t bytes,
			uint32_t word);

/* All is copied when it returns, or it says what failed. The threads are gone. */
enum swap_why copy_end(struct copy *copy);

/* For stage_begin and stage_part: has the driver know a step, in a context, and forget it. */
bool copy_meet(void *context, char *at, uint64_t bytes);
void copy_part(void *arg, char *at, uint64_t bytes);

#endif
