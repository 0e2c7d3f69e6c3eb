/* SPDX-License-Identifier: Apache-2.0 */
/* Work on its way to a device: what the hook says of it, and what is found out. */
#ifndef ALLOT_GUEST_METER_LAUNCH_H
#define ALLOT_GUEST_METER_LAUNCH_H

#include <stdbool.h>
#include <stdint.h>

#include "nvidia/cuda_api.h"

struct meter;
struct stream;

enum launch_kind {
	LAUNCH_KERNEL,
	LAUNCH_GRAPH,
	LAUNCH_COPY, /* or a memset, on the device */
};

struct launch {
	/* By the hook. */
	CUstream stream;
	bool per_thread; /* no stream means the thread's own */
	enum launch_kind kind;
	uint64_t key; /* the function, the executable graph; not 0 */
	uint64_t blocks;
	bool waits; /* the device may wait for the program in its middle */

	/* Where it goes. */
	struct meter *meter; /* NULL: it is not metered */
	CUcontext context;
	uint64_t stream_key;
	uint64_t now_ns;

	/* By who lets it go. */
	uint64_t expected_ns; /* the meter carries it back, and reads it never */
	bool known;	      /* one like it was measured: its code is loaded */
	bool alone;	      /* it is to be measured by itself */
	bool rival;	      /* others may have the device meanwhile */
	bool yields;	      /* others have the device as soon as its tenant pauses */
	bool held;	      /* it was held: the time before it is nobody's */
	bool latches;	      /* behind a wait for the program its stream waits for us, too */
	bool watched;	      /* its end is to be known as soon as it is there */
	bool credited;	      /* let through by one before it: there is nothing left to do */

	/* The meter's, from meter_begin to meter_end. */
	struct stream *in;
	int end;    /* the timing event behind it; below 0: none */
	bool fresh; /* its code may be loaded first: what that closes begins when it returned */
};

/* A stream's name in its context. A thread's own goes by the thread: the handle is one for all. */
extern _Thread_local char launch_thread __attribute__((tls_model("initial-exec")));

static inline CUstream launch_stream(CUstream stream, bool per_thread)
{
	if (stream)
		return stream;
	return per_thread ? CU_STREAM_PER_THREAD : CU_STREAM_LEGACY;
}

/* True if a program made the stream: the implicit ones have no context of their own. */
static inline bool launch_is_named(CUstream stream)
{
	return stream != CU_STREAM_LEGACY && stream != CU_STREAM_PER_THREAD;
}

static inline uint64_t launch_stream_key(CUstream stream)
{
	return stream == CU_STREAM_PER_THREAD ? (uint64_t)(uintptr_t)&launch_thread
					      : (uint64_t)(uintptr_t)stream;
}

#endif
