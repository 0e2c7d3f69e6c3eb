/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory that graphs own. The driver backs a graph's allocation nodes when the executable graph is
 * uploaded or first launched, keeps that memory for the next launch, and releases it when it is
 * trimmed; it tells how much there is per device.
 */
#ifndef ALLOT_GUEST_MEMORY_GRAPH_H
#define ALLOT_GUEST_MEMORY_GRAPH_H

#include "guest/account/charge.h"
#include "guest/account/holder.h"

/* Charges what graphs hold on a device now. */
void graph_settle(struct guest *guest, struct guest_device *device);
/* Did they hold any when that was last looked at? */
bool graph_has_memory(const struct guest_device *device);

/*
 * Runs the driver's upload or launch of an executable graph. What backs a graph that owns memory is
 * reserved before and settled after.
 */
typedef CUresult graph_run_fn(CUgraphExec exec, CUstream stream);
CUresult graph_run(struct guest *guest, CUgraphExec hexec, CUstream stream, graph_run_fn *real);

/* Whether a launch of it may wait for the program in its middle, as for a host function. */
bool graph_waits(struct guest *guest, CUgraphExec exec);

extern const struct holder graph_holder;

#endif
