/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Threads that allocate and free while another resets the context that they do it in. What they
 * hold is gone then, so any answer is in order; what is charged must be what there is.
 */
#include <pthread.h>
#include <time.h>

#include "storm.h"

#define HELD 8

static _Atomic bool over;

struct churn {
	unsigned int seed;
	int device;
};

static void *churn(void *arg)
{
	struct churn *c = arg;
	CUdeviceptr ptr[HELD] = {0};
	uint64_t most = (uint64_t)storm->options.most_mib * MIB;
	CUcontext context, other;

	while (!atomic_load(&over)) {
		unsigned int at = pick(&c->seed, HELD);

		c->device = (int)pick(&c->seed, (unsigned int)storm->options.devices);
		if (cu.cuDevicePrimaryCtxRetain(&context, c->device))
			continue;
		cu.cuCtxSetCurrent(context);
		if (ptr[at]) {
			cu.cuMemFree_v2(ptr[at]);
			ptr[at] = 0;
		} else if (cu.cuMemAlloc_v2(&ptr[at], 1 + pick(&c->seed, (unsigned int)most))) {
			ptr[at] = 0;
		}
		if (pick(&c->seed, 8) == 0 && !cu.cuCtxCreate_v2(&other, 0, c->device))
			cu.cuCtxDestroy_v2(other);
		cu.cuDevicePrimaryCtxRelease_v2(c->device);
	}
	return NULL;
}

int storm_reset_process(int index)
{
	struct churn c[64];
	pthread_t thread[64];
	int n = storm->options.threads < 64 ? storm->options.threads : 64;
	unsigned int seed = storm->options.seed;
	CUcontext contexts[DEVICES];

	storm_begin_contexts(contexts, 0);
	for (int i = 0; i < n; i++) {
		c[i] = (struct churn){.seed = seed * 31u + (unsigned int)i};
		if (pthread_create(&thread[i], NULL, churn, &c[i]))
			return 1;
	}
	for (int i = 0; i < storm->options.steps / 4; i++) {
		int device = (int)pick(&seed, (unsigned int)storm->options.devices);

		nanosleep(&(struct timespec){.tv_nsec = 1000 * pick(&seed, 3000)}, NULL);
		cu.cuDevicePrimaryCtxReset_v2(device);
	}
	atomic_store(&over, true);
	for (int i = 0; i < n; i++)
		pthread_join(thread[i], NULL);
	for (int d = 0; d < storm->options.devices; d++)
		OK(cu.cuDevicePrimaryCtxReset_v2(d));
	storm_await(&storm->calm);
	storm_arrive(&storm->taken_down);
	storm_arrive(&storm->settled);
	storm_await(&storm->go);
	return 0;
}
