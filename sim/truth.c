/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/truth.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "sim/region.h"

struct sim_truth {
	struct sim_region *region;
};

static int truth_open(const char *dir, bool create, struct sim_truth **ret_truth)
{
	struct sim_truth *truth = calloc(1, sizeof(*truth));
	int r;

	if (!truth)
		return -ENOMEM;
	r = sim_region_open(dir, create, &truth->region, NULL);
	if (r) {
		free(truth);
		return r;
	}
	*ret_truth = truth;
	return 0;
}

int sim_truth_open(const char *dir, struct sim_truth **ret_truth)
{
	return truth_open(dir, false, ret_truth);
}

int sim_truth_create(const char *dir, struct sim_truth **ret_truth)
{
	return truth_open(dir, true, ret_truth);
}

void sim_truth_close(struct sim_truth *truth)
{
	if (!truth)
		return;
	sim_region_close(truth->region);
	free(truth);
}

int sim_truth_devices(struct sim_truth *truth)
{
	return (int)truth->region->ndevices;
}

uint64_t sim_truth_total(struct sim_truth *truth, int device)
{
	return truth->region->device[device].total_bytes;
}

void sim_truth_uuid(struct sim_truth *truth, int device, uint8_t ret_uuid[16])
{
	memcpy(ret_uuid, truth->region->device[device].uuid, 16);
}

uint64_t sim_truth_context_bytes(struct sim_truth *truth, int device)
{
	return truth->region->device[device].context_bytes;
}

/* Readers see the living only, so the dead go first. */
static void truth_lock_living(struct sim_truth *truth)
{
	sim_region_lock(truth->region);
	sim_region_reap(truth->region);
}

uint64_t sim_truth_used(struct sim_truth *truth, int device)
{
	uint64_t used;

	truth_lock_living(truth);
	used = sim_region_used(truth->region, device);
	sim_region_unlock(truth->region);
	return used;
}

typedef uint64_t truth_sum_fn(const struct sim_region *region, int row, int device);

static uint64_t truth_of_process(struct sim_truth *truth, pid_t pid, int device, truth_sum_fn *sum)
{
	uint64_t used = 0;

	truth_lock_living(truth);
	for (uint32_t i = 0; i < truth->region->nrows; i++)
		if (truth->region->row[i].state == SIM_ROW_LIVE && truth->region->row[i].pid == pid)
			used += sum(truth->region, (int)i, device);
	sim_region_unlock(truth->region);
	return used;
}

uint64_t sim_truth_process(struct sim_truth *truth, pid_t pid, int device)
{
	return truth_of_process(truth, pid, device, sim_row_used);
}

uint64_t sim_truth_figure(struct sim_truth *truth, pid_t pid, int device)
{
	return truth_of_process(truth, pid, device, sim_row_figure);
}

int sim_truth_pids(struct sim_truth *truth, pid_t *pids, int max)
{
	int n = 0;

	truth_lock_living(truth);
	for (uint32_t i = 0; i < truth->region->nrows && n < max; i++)
		if (truth->region->row[i].state == SIM_ROW_LIVE)
			pids[n++] = truth->region->row[i].pid;
	sim_region_unlock(truth->region);
	return n;
}

static const struct sim_device_time *truth_time_of(const struct sim_truth *truth, int device,
						   uint32_t account)
{
	return sim_engine_time(&truth->region->device[device].engine, account);
}

void sim_truth_time(struct sim_truth *truth, pid_t pid, int device,
		    struct sim_truth_time *ret_time)
{
	struct sim_truth_time sum = {0};

	for (uint32_t i = 0; i < truth->region->naccounts; i++) {
		const struct sim_device_time *t = truth_time_of(truth, device, i);

		if (truth->region->account[i].pid != pid)
			continue;
		sum.busy_ns += atomic_load(&t->busy_ns);
		sum.closed_ns += atomic_load(&t->closed_ns);
		sum.closed_least_ns += atomic_load(&t->closed_least_ns);
		sum.closed_most_ns += atomic_load(&t->closed_most_ns);
		sum.kernel_ns += atomic_load(&t->kind_ns[SIM_TIME_KERNEL]);
		sum.device_copy_ns += atomic_load(&t->kind_ns[SIM_TIME_DEVICE_COPY]);
		sum.host_copy_ns += atomic_load(&t->kind_ns[SIM_TIME_HOST_COPY]);
		sum.set_ns += atomic_load(&t->kind_ns[SIM_TIME_SET]);
		sum.switch_ns += atomic_load(&t->switch_ns);
		sum.own_switch_ns += atomic_load(&t->own_switch_ns);
	}
	*ret_time = sum;
}

uint64_t sim_truth_bin_ns(struct sim_truth *truth, pid_t pid, int device, uint64_t bin)
{
	uint64_t sum = 0;

	for (uint32_t i = 0; i < truth->region->naccounts; i++)
		if (truth->region->account[i].pid == pid)
			sum += sim_device_time_bin_ns(truth_time_of(truth, device, i), bin);
	return sum;
}

int sim_truth_seen(struct sim_truth *truth, pid_t *pids, int max)
{
	int n = 0;

	for (uint32_t i = 0; i < truth->region->naccounts && n < max; i++) {
		pid_t pid = truth->region->account[i].pid;
		bool known = !pid;

		for (int k = 0; k < n; k++)
			known |= pids[k] == pid;
		if (!known)
			pids[n++] = pid;
	}
	return n;
}

uint64_t sim_truth_peak(struct sim_truth *truth, int device)
{
	uint64_t peak;

	sim_region_lock(truth->region);
	peak = truth->region->device[device].peak_bytes;
	sim_region_unlock(truth->region);
	return peak;
}

void sim_truth_reset_peak(struct sim_truth *truth, int device)
{
	truth_lock_living(truth);
	truth->region->device[device].peak_bytes = sim_region_used(truth->region, device);
	sim_region_unlock(truth->region);
}
