/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tells when a graph waits in its middle, so that nobody is billed for a device that waits. While the
 * graph is instantiated its host nodes get a function of ours around their own, and each node that
 * waits for an event, a semaphore or a word gets a host node of ours before it and one behind it.
 * Around that stand two events: work before it ends with the first one, and the device may have
 * turned to another tenant meanwhile, so that what follows begins with the second one.
 *
 *	watch ── the driver copies the graph ── watched: the nodes are as they were
 *	launch ── kernel ── event ── [ our function: the program's own ] ── event ── kernel
 *	launch ── kernel ── event ── [ our function ── wait ── our function ] ── event ── kernel
 *
 * Only if nothing else of the graph can run meanwhile: its nodes are one chain. The data of our
 * functions belongs to the executable graph as a user object, so it lives for as long as a launch
 * may run. A node of an executable that gets another function is no longer seen. A graph that owns
 * memory gets no node of ours: the driver would not take it out again. Nor does any while launches go
 * as they are: nobody asks when it waits.
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

/*
 * The same for an executable that is brought up to date with another graph, whose nodes have to be
 * its own: `of` is what host_nodes_watch answered for the executable, or NULL. Its host nodes are
 * not seen after that.
 */
struct host_nodes *host_nodes_update(struct guest *guest, struct host_nodes *of, CUgraph graph);
void host_nodes_updated(struct guest *guest, struct host_nodes *nodes, CUgraph graph);

/*
 * Around the driver's call that destroys the executable: then its events end, which launches that
 * still run do not mind. Keeps `nodes`, which may be NULL; false: host_nodes_kept is not to be called.
 */
bool host_nodes_keep(struct guest *guest, struct host_nodes *nodes);
void host_nodes_kept(struct guest *guest, struct host_nodes *nodes, bool ended);

struct host_time {
	uint64_t from_ns, to_ns; /* CLOCK_MONOTONIC */
	CUevent event[2]; /* around it, or a later one of the same node; or NULL */
};

#define HOST_TIMES 64

/* Its context is gone, and its events with it. */
void host_nodes_forget(uint64_t exec);

/*
 * When an executable graph (KEY) waited, of a time, in order. Returns how many times there are:
 * HOST_TIMES at most. Of those long ago nothing is known. Their events live until host_nodes_read,
 * which is to be called in any case.
 */
int host_nodes_between(uint64_t exec, uint64_t from_ns, uint64_t to_ns,
		       struct host_time ret[HOST_TIMES]);
void host_nodes_read(void);

/* Does a host function of it run now? */
bool host_nodes_run(uint64_t exec);

#endif
