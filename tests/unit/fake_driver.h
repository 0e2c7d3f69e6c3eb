/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A driver that does as a test says, in place of the table that the guest calls (cuda_real), and a
 * guest in front of it with a tenant of its own. The clock is a number: CLOCK_MONOTONIC of the
 * modules under test (linked with --wrap, see meson.build) stands still until the test moves it, or
 * until they sleep or wait for an event.
 *
 *	fake_launch(stream, 250 * US)	behind what is in the stream, or from now on
 *	cuEventRecord			done when what is before it in its stream is
 *	fake_pass(MS)			a millisecond later
 *
 * An event is to be asked with its context current, and not at all once that is gone: a module that
 * does otherwise fails its test here.
 */
#ifndef ALLOT_TESTS_FAKE_DRIVER_H
#define ALLOT_TESTS_FAKE_DRIVER_H

#include <stdbool.h>
#include <stdint.h>

#include "guest/core/guest.h"
#include "ledger/turn.h"
#include "tests/check.h"

#define FAKE_STREAMS 2048
#define FAKE_LOG     4096

/* Handles are numbers. The first two streams are the implicit ones. */
#define FAKE_CONTEXT(n) ((CUcontext)(uintptr_t)(0x1000 + (n)))
#define FAKE_STREAM(n)	((CUstream)(uintptr_t)(0x10 + (n)))

/* What was done to streams, in order. */
enum fake_what {
	FAKE_RECORD,
	FAKE_WAIT,
	FAKE_LAUNCH,
};

struct fake_log {
	enum fake_what what;
	CUstream stream;
	CUdeviceptr at; /* FAKE_WAIT: for which word, and what it says then */
	uint32_t value;
};

struct fake {
	uint64_t now_ns;
	CUcontext context; /* the current one */
	CUstreamCaptureMode mode; /* the thread's; a module leaves it as it was */

	/* What the driver answers, until the test says otherwise. */
	CUresult create_error, record_error, query_error, elapsed_error, stream_error;
	CUresult host_error, pointer_error, wait_error;
	uint64_t wait_ns;    /* how long a stream waits for a word */
	uint64_t sync_ns[3]; /* how long waits for an event take, one after the other */
	uint64_t record_ns;  /* for how long a thread that records one is elsewhere first */

	/* What became of it. */
	struct fake_log log[FAKE_LOG];
	unsigned int logged;
	unsigned int events; /* that there are */
	unsigned int syncs, slept;
	unsigned int spoiled; /* calls that capturing threads forbid */
	void *host;	      /* the last word that was asked for */
	unsigned int hosts;   /* words that there are */
};
extern struct fake fake;
/* Called where a thread would sleep on a futex, which then does not; NULL: it sleeps. */
extern void (*fake_futex_wait)(void);

/* Binds the driver. `stream_waits`: it has cuStreamWaitValue32. Once in a process. */
void fake_open(bool stream_waits);

/* So much later. */
void fake_pass(uint64_t ns);

/* Work, or a wait of the device for something that takes so long, behind what is in the stream. */
void fake_launch(CUstream stream, uint64_t ns);

/* When all that is in a stream is done. */
uint64_t fake_done_ns(CUstream stream);

/* The stream captures: nothing may be recorded into it. */
void fake_capture(CUstream stream, bool captures);

/* A context ends, and with it its events; it waits for what is in it. */
void fake_context_end(CUcontext context);

/* How often something was done to a stream, NULL any, since the log was `since` long. */
unsigned int fake_count(enum fake_what what, CUstream stream, unsigned int since);

/*
 * A tenant with two devices of which each has the same share (permille), a slot in its ledger, and
 * the first device for CUDA; its compute is capped and metered. One in a process.
 */
void fake_guest(struct guest *guest, uint32_t share_permille);

/* It holds memory on a device, by its index in the ledger. */
void fake_guest_holds(struct guest *guest, int device, bool holds);

/* What the arbiter says, to be written: nothing until beat_ns is young. */
struct turn *fake_guest_turn(const struct guest *guest);

/*
 * The launch side's state of the first device, as the first launch makes it. Later calls answer the
 * same, with nothing launched and nothing learned.
 */
struct launch_device;
struct launch_device *fake_launch_device(struct guest *guest);

#endif
