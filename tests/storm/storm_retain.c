/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Threads that each retain the primary context for one allocation and release it, so that it comes
 * and goes with the first and the last of them. None meets a context that is gone: each has a
 * reference of its own.
 */
#include <pthread.h>

#include "storm_work.h"

static void *retain_run(void *arg)
{
	struct worker *w = arg;

	for (int i = 0; i < storm->options.steps; i++) {
		int device = (int)pick(&w->seed, (unsigned int)storm->options.devices);
		uint64_t most = (uint64_t)storm->options.most_mib * MIB;
		CUcontext context;
		CUdeviceptr ptr;

		if (REFUSED(w, cu.cuDevicePrimaryCtxRetain(&context, device)))
			continue;
		OK(cu.cuCtxSetCurrent(context));
		if (!REFUSED(w, cu.cuMemAlloc_v2(&ptr, 1 + pick(&w->seed, (unsigned int)most))) &&
		    pick(&w->seed, 2))
			OK(cu.cuMemFree_v2(ptr)); /* or it ends with the context, sooner or later */
		OK(cu.cuDevicePrimaryCtxRelease_v2(device));
	}
	return NULL;
}

int storm_retain_process(int index)
{
	static struct worker w[64];
	pthread_t thread[64];
	int n = storm->options.threads < 64 ? storm->options.threads : 64;
	CUcontext contexts[DEVICES];

	storm_begin_contexts(contexts, 0);
	for (int d = 0; d < storm->options.devices; d++)
		OK(cu.cuDevicePrimaryCtxRelease_v2(d));
	for (int i = 0; i < n; i++) {
		w[i].seed = storm->options.seed * 131u + (unsigned int)(index * 64 + i);
		if (pthread_create(&thread[i], NULL, retain_run, &w[i]))
			return 1;
	}
	for (int i = 0; i < n; i++)
		pthread_join(thread[i], NULL);
	storm_await(&storm->calm);
	storm_arrive(&storm->taken_down);
	storm_arrive(&storm->settled);
	storm_await(&storm->go);
	return 0;
}
