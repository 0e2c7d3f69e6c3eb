/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a program under test does with a GPU: takes memory by every family and gives it back, in a
 * random order that follows from a seed, with content that it checks. It knows nothing of allot.
 */
#ifndef ALLOT_TESTS_CRASH_GUEST_WORK_H
#define ALLOT_TESTS_CRASH_GUEST_WORK_H

#include <stdbool.h>
#include <stdint.h>

#include "sim/cuda/api.h"

#define WORK_BLOCKS 8

enum work_family {
	WORK_NONE,
	WORK_LARGE,   /* cuMemAlloc, granules of its own */
	WORK_SMALL,   /* cuMemAlloc, shares one */
	WORK_PITCH,
	WORK_MANAGED,
	WORK_ASYNC,   /* default pool, freed in stream order */
	WORK_MIXED,   /* cuMemAlloc, freed in stream order */
	WORK_VMM,     /* handle, mapping and export, dropped in either order */
	WORK_ARRAY,
	WORK_GRAPH,   /* allocation node, launched once */
	WORK_CONTEXT, /* one more context */
	WORK_FAMILIES,
};

struct work_block {
	enum work_family family;
	unsigned int word; /* its content */
	uint64_t bytes;
	CUdeviceptr ptr;
	uint64_t handle; /* of whatever the family has */
	void *peer;
};

struct work {
	unsigned int seed;
	CUcontext context;
	CUstream stream;
	struct work_block block[WORK_BLOCKS];
	uint64_t steps, refused, wrong; /* wrong: words whose content was not ours */
	uint64_t longest_ns;		/* that one step took */
};

/* Takes device 0's primary context: false when that was refused. */
bool work_begin(struct work *work);
/* Takes something or gives something back; any answer but success and out-of-memory fails. */
void work_step(struct work *work);
/* Gives everything back and leaves the pools empty, but keeps the context. */
void work_clear(struct work *work);

#endif
