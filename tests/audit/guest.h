/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the audit's phases are made of: one device's context, launches of known length, ways to
 * wait, and numbers from a seed. One thread uses a guest.
 *
 * A burst is the work between two moments at which the program has nothing on the device. One that
 * ends in a call by which the program learns that the work is done (a synchronisation, a query that
 * says so, a copy to the host) can be measured to its end. One that does not is `open`: whoever
 * meters has to find out by itself. So is one of several streams of which one alone was waited for.
 */
#ifndef ALLOT_TESTS_AUDIT_GUEST_H
#define ALLOT_TESTS_AUDIT_GUEST_H

#include <stdbool.h>
#include <stdint.h>

#include "sim/cuda/api.h"
#include "tests/e2e/must.h"

#define GUEST_FUNCTIONS 40
#define GUEST_STREAMS 40
#define GUEST_COPY_BYTES (8u << 20)

enum guest_wait {
	WAIT_STREAM,
	WAIT_CONTEXT,
	WAIT_EVENT,
	WAIT_EVENT_QUERY,
	WAIT_STREAM_QUERY,
	WAIT_COPY,   /* to the host */
	WAIT_MEMORY, /* that the stream writes: no call says so */
	WAIT_KERNEL, /* memory that a kernel writes: no call that could be about an end */
	WAITS,
};

struct guest {
	int device;
	CUcontext ctx;
	CUfunction function[GUEST_FUNCTIONS]; /* the same code under as many handles */
	CUfunction fill, meet;
	CUstream stream[GUEST_STREAMS];
	CUevent event[GUEST_STREAMS]; /* without timing */
	CUdeviceptr a, b;	      /* GUEST_COPY_BYTES each */
	uint32_t *word, *gate;	      /* pinned: the device writes these, waits for the gate */
	uint64_t *met;		      /* pinned: sim_meet's two */
	uint32_t written;
	uint64_t random;
	uint64_t until_ns;
	uint64_t bursts, open, longest_us;
	uint64_t open_streams; /* of all open bursts, each stream that had work in one */
	char detail[256];
};

void guest_init(struct guest *guest, int device);
/* A phase begins: numbers follow from the seed alone, whatever was drawn before. */
void guest_begin(struct guest *guest, uint64_t seed, uint64_t until_ns);
bool guest_over(const struct guest *guest);
/* What the phase is, for who looks into a failure. */
__attribute__((format(printf, 2, 3))) void guest_say(struct guest *guest, const char *format, ...);

/* From `least` to `most`; guest_log: as many small ones as large ones, by their order. */
uint64_t guest_draw(struct guest *guest, uint64_t least, uint64_t most);
uint64_t guest_log(struct guest *guest, uint64_t least, uint64_t most);
bool guest_coin(struct guest *guest);
enum guest_wait guest_draw_wait(struct guest *guest);
extern const char *const guest_wait_names[WAITS];

CUfunction guest_function(void); /* one more handle, in the current context */
void guest_launch(struct guest *guest, CUfunction function, unsigned int grid, CUstream stream,
		  uint64_t us);
/* Another number of streams meets from now on. None is on its way. */
void guest_meet_anew(struct guest *guest);
/* A kernel that spins until as many are there as streams meet; not for longer than `us`. */
void guest_meet(struct guest *guest, CUstream stream, uint64_t streams, uint64_t us);
/* A graph of n kernels, one behind the other, which take `us` together. */
CUgraphExec guest_graph(struct guest *guest, unsigned int n, uint64_t us);
void guest_launch_graph(struct guest *guest, CUgraphExec graph, CUstream stream, uint64_t us);

/* Until all of the stream is done; `others` more streams have work that nobody waits for. */
void guest_wait(struct guest *guest, enum guest_wait how, CUstream stream, unsigned int others);
/* The host does something else. */
void guest_host(uint64_t us);

uint64_t guest_now_ns(void);

#endif
