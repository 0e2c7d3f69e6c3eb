/* SPDX-License-Identifier: Apache-2.0 */
/* The words of the process that hooks about memory keep. */
#ifndef ALLOT_GUEST_MEMORY_STATE_H
#define ALLOT_GUEST_MEMORY_STATE_H

#include "guest/core/guest.h"
#include "guest/memory/known_code.h"

/* guest->device[i].memory */
struct memory_device {
	_Atomic uint64_t small_arrays;	/* bytes of arrays that share granules */
	_Atomic uint64_t graph_charged; /* graph memory as last seen, see hook_graph.c */
	_Atomic uint64_t graph_takes;	/* calls that back a graph, or trim: see hook_graph.c */
	_Atomic uint32_t graph_relying; /* launches that rely on the last one's memory */

	/* The current pool and its charge, as of a version of the pools: see pool.c. */
	_Atomic uint64_t pool_tag;
	_Atomic(CUmemoryPool) pool;
	_Atomic uint64_t pool_charged;
};

/* guest->memory */
struct memory_state {
	struct memory_device device[GUEST_DEVICES];
	struct known_code code;
	_Atomic uint64_t pools;	      /* changes of pools, see pool.h */
	_Atomic uint64_t imports;     /* see external.h, ever */
	_Atomic uint64_t untiled;     /* numbers of OBJECT_UNTILED, ever */
	_Atomic bool pool_exported;   /* ever: memory of a pool may be others', too */
};

#endif
