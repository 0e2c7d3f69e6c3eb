/* SPDX-License-Identifier: Apache-2.0 */
/*
 * truth: what each process had of each simulated device in ALLOT_SIM_DIR, as JSON on one line, for
 * tests that are no C programs. Processes that ended are there, too.
 *
 *   {"now_ns": N, "bin_ns": N, "uuids": ["GPU-...", ...], "processes": [{"pid": N, "devices": [
 *    {"device": N, "busy_ns": N, "closed_ns": N, ..., "first_bin": N, "bins": [N, ...]}]}]}
 *
 * Bin k is from k * bin_ns on, by CLOCK_MONOTONIC; devices that a process did not use are left out.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/now.h"
#include "sim/device_time.h"
#include "sim/truth.h"

#define PIDS 1024

static void uuids(struct sim_truth *truth)
{
	printf("\"uuids\": [");
	for (int i = 0; i < sim_truth_devices(truth); i++) {
		uint8_t uuid[16];

		sim_truth_uuid(truth, i, uuid);
		printf("%s\"GPU-", i ? ", " : "");
		for (int k = 0; k < 16; k++)
			printf("%s%02x", k == 4 || k == 6 || k == 8 || k == 10 ? "-" : "", uuid[k]);
		printf("\"");
	}
	printf("]");
}

static void bins(struct sim_truth *truth, pid_t pid, int device, uint64_t now_ns)
{
	uint64_t last = now_ns / SIM_TIME_BIN_NS;
	uint64_t first = last < SIM_TIME_BINS ? 0 : last - SIM_TIME_BINS + 1;

	while (first < last && !sim_truth_bin_ns(truth, pid, device, first))
		first++;
	printf("\"first_bin\": %" PRIu64 ", \"bins\": [", first);
	for (uint64_t k = first; k <= last; k++)
		printf("%s%" PRIu64, k > first ? "," : "", sim_truth_bin_ns(truth, pid, device, k));
	printf("]");
}

static void process(struct sim_truth *truth, pid_t pid, uint64_t now_ns)
{
	const struct sim_truth_time none = {0};
	struct sim_truth_time t;
	const char *comma = "";

	printf("{\"pid\": %d, \"devices\": [", pid);
	for (int i = 0; i < sim_truth_devices(truth); i++) {
		sim_truth_time(truth, pid, i, &t);
		if (!memcmp(&t, &none, sizeof(t)))
			continue;
		printf("%s{\"device\": %d, ", comma, i);
		comma = ", ";
#define FIGURE(name) printf("\"" #name "\": %" PRIu64 ", ", t.name)
		FIGURE(busy_ns);
		FIGURE(closed_ns);
		FIGURE(closed_least_ns);
		FIGURE(closed_most_ns);
		FIGURE(kernel_ns);
		FIGURE(device_copy_ns);
		FIGURE(host_copy_ns);
		FIGURE(set_ns);
		FIGURE(switch_ns);
		FIGURE(own_switch_ns);
#undef FIGURE
		bins(truth, pid, i, now_ns);
		printf("}");
	}
	printf("]}");
}

int main(void)
{
	uint64_t now_ns = now_monotonic_ns();
	struct sim_truth *truth;
	pid_t pids[PIDS];
	int n, r = sim_truth_open(NULL, &truth);

	if (r) {
		fprintf(stderr, "truth: no simulated devices: %s\n", strerror(-r));
		return 1;
	}
	n = sim_truth_seen(truth, pids, PIDS);
	printf("{\"now_ns\": %" PRIu64 ", \"bin_ns\": %" PRIu64 ", ", now_ns,
	       (uint64_t)SIM_TIME_BIN_NS);
	uuids(truth);
	printf(", \"processes\": [");
	for (int i = 0; i < n; i++) {
		printf("%s", i ? ", " : "");
		process(truth, pids[i], now_ns);
	}
	printf("]}\n");
	sim_truth_close(truth);
	return 0;
}
