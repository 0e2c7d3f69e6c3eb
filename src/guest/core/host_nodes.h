/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tells when host functions of graphs run, so that nobody is billed for a device that waits for
 * them. A graph's host nodes get a function of ours around their own while it is instantiated:
 *
 *	watch ── the driver copies the graph ── watched: the nodes are as they were
 *	launch ── kernel ── [ our function: the program's own ] ── kernel
 *
 * Only if nothing else of the graph can run meanwhile: its nodes are one chain. The data of our
 * function belongs to the executable graph as a user object, so it lives for as long as a launch
 * may run. A node of an executable that gets another function is no longer seen.
 */
#ifndef ALLOT_GUEST_CORE_HOST_NODES_H
#define ALLOT_GUEST_CORE_HOST_NODES_H

#include "guest/core/guest.h"

struct host_nodes;

/* NULL: there are none, or they cannot be watched. */
struct host_nodes *host_nodes_watch(struct guest *guest, CUgraph graph);
/* `exec`: what the driver made of the graph; NULL: nothing. `nodes` may be NULL. */
void host_nodes_watched(struct guest *guest, struct host_nodes *nodes, CUgraph graph,
			CUgraphExec exec);

struct host_time {
	uint64_t from_ns, to_ns; /* CLOCK_MONOTONIC */
};

#define HOST_TIMES 64

/*
 * When host functions of an executable graph (KEY) ran, of a time, in order. Returns how many there
 * are: HOST_TIMES at most. Of those long ago nothing is known.
 */
int host_nodes_between(uint64_t exec, uint64_t from_ns, uint64_t to_ns,
		       struct host_time ret[HOST_TIMES]);

/* Does a host function of it run now? */
bool host_nodes_run(uint64_t exec);

#endif
