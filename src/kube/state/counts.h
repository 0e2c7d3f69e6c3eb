/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Figures of this node's dealings with Kubernetes, for the metrics: plain figures, written
 * and read by the daemon's one thread. Also where Kubernetes is none of this daemon's affairs: then
 * nothing is in it.
 */
#ifndef ALLOT_KUBE_STATE_COUNTS_H
#define ALLOT_KUBE_STATE_COUNTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kube/state/conf.h"
#include "kube/state/node.h"
#include "node/process/pod.h"

/* Calls of the kubelet's, from their coming to their answer. */
enum counts_call { COUNTS_ALLOCATE, COUNTS_PRESTART, COUNTS_PREPARE, COUNTS_CALLS };

#define COUNTS_BOUNDS 9
extern const uint64_t counts_bound_ns[COUNTS_BOUNDS];

struct counts_times {
	uint64_t within[COUNTS_BOUNDS]; /* calls that took no longer than the bound */
	uint64_t n, sum_ns;
};

struct counts_resource {
	char name[KUBE_NAME_BYTES];
	bool registered;
};

/* A container that the kubelet says has something of ours. */
struct counts_held {
	char space[POD_LABEL_BYTES], pod[POD_NAME_BYTES], container[POD_LABEL_BYTES];
	bool device[POLICY_DEVICES]; /* by their places in the list of devices */
};

struct counts {
	struct counts_times times[COUNTS_CALLS];
	size_t nresources;
	struct counts_resource resource[KUBE_RESOURCES + 1]; /* and the driver */
	const struct node_devices *devices; /* as Kubernetes is told of them; NULL: it is not */
	size_t nheld;
	struct counts_held *held;
	uint64_t whole_ns; /* when a list was heard that had all Pods; 0: none was */
};

const struct counts *counts_now(void);

/* A call that came then, by now_monotonic_ns, was answered. */
void counts_answered(enum counts_call call, uint64_t since_ns);
void counts_registered(const char *name, bool registered);
/* They stay where they are. NULL: Kubernetes hears of none any more. */
void counts_show_devices(const struct node_devices *devices);
/* In place of those before; malloc'ed, and freed here. `whole`: these are all. */
void counts_hold(struct counts_held *held, size_t n, bool whole);

#endif
