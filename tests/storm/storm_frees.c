/* SPDX-License-Identifier: Apache-2.0 */
/* The ways to free linear memory. */
#include <time.h>

#include "storm_work.h"

static void CUDA_CB frees_sleep(void *arg)
{
	nanosleep(&(struct timespec){.tv_nsec = 1000000 * (long)(uintptr_t)arg}, NULL);
}

/* The worker's other stream, with all that is in its own one before it. */
static CUstream frees_other_stream(struct worker *w, int device)
{
	CUevent event;

	OK(cu.cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
	OK(cu.cuEventRecord(event, w->stream[device]));
	OK(cu.cuStreamWaitEvent(w->other[device], event, 0));
	OK(cu.cuEventDestroy_v2(event));
	return w->other[device];
}

void storm_free(struct worker *w, int device, CUdeviceptr ptr, bool in_stream)
{
	CUstream stream = w->stream[device];

	if (storm_draws(DRAW_CROSSED) && pick(&w->seed, 3) == 0)
		in_stream = !in_stream;
	if (!in_stream) {
		OK(cu.cuStreamSynchronize(stream)); /* the memory may be of an earlier call there */
		OK(cu.cuMemFree_v2(ptr));
		return;
	}
	if (storm_draws(DRAW_CROSSED) && pick(&w->seed, 2))
		stream = frees_other_stream(w, device);
	if (storm_draws(DRAW_SLOW) && pick(&w->seed, 3) == 0)
		OK(cu.cuLaunchHostFunc(stream, frees_sleep,
				       (void *)(uintptr_t)(1 + pick(&w->seed, 8))));
	OK(cu.cuMemFreeAsync(ptr, stream));
	if (pick(&w->seed, storm_draws(DRAW_SLOW) ? 4 : 2) == 0)
		OK(cu.cuStreamSynchronize(stream));
}
