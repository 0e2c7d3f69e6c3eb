/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/state/counts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/now.h"
#include "base/number.h"

const uint64_t counts_bound_ns[COUNTS_BOUNDS] = {
	NS_PER_MS,	 5 * NS_PER_MS, 10 * NS_PER_MS, 50 * NS_PER_MS, 100 * NS_PER_MS,
	500 * NS_PER_MS, NS_PER_S,	5 * NS_PER_S,	30 * NS_PER_S,
};

static struct counts counts;

const struct counts *counts_now(void)
{
	return &counts;
}

void counts_answered(enum counts_call call, uint64_t since_ns)
{
	struct counts_times *times = &counts.times[call];
	uint64_t took_ns = sat_sub_u64(now_monotonic_ns(), since_ns);

	for (size_t i = 0; i < COUNTS_BOUNDS; i++)
		times->within[i] += took_ns <= counts_bound_ns[i];
	times->n++;
	times->sum_ns += took_ns;
}

void counts_registered(const char *name, bool registered)
{
	size_t i = 0;

	while (i < counts.nresources && strcmp(counts.resource[i].name, name))
		i++;
	if (i == sizeof(counts.resource) / sizeof(counts.resource[0]))
		return;
	if (i == counts.nresources)
		snprintf(counts.resource[counts.nresources++].name, KUBE_NAME_BYTES, "%s", name);
	counts.resource[i].registered = registered;
}

void counts_show_devices(const struct node_devices *devices)
{
	counts.devices = devices;
}

void counts_hold(struct counts_held *held, size_t n, bool whole)
{
	if (whole || !held)
		counts.whole_ns = held ? now_monotonic_ns() : 0;
	free(counts.held);
	counts.held = held;
	counts.nheld = n;
}
