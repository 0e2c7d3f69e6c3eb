/* SPDX-License-Identifier: Apache-2.0 */
/*
 * collective_guest SECONDS [training [LATE_MS]]: two ranks, a process and a device each, that do
 * about 2 ms of kernels a step and meet in four collectives. As `training` does it these have a
 * stream of their own, beside the kernels that follow, and the host is hardly ahead. Rank 0 begins
 * so much later. Prints how many steps were done.
 */
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "sim/cuda/api.h"
#include "tests/e2e/must.h"

#define RANKS	    2
#define COLLECTIVES 4
#define STEPS_AHEAD 2
#define LAUNCH_US   25 /* of the host's own work before each, in training */

struct shared {
	uint64_t met[2]; /* sim_meet's */
	_Atomic uint64_t ready, steps;
};

static double now_s(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

struct rank {
	struct shared *shared;
	bool training;
	CUfunction spin, meet;
	CUstream compute, together; /* the same, but for training */
	CUevent ready, met;
};

static void launch(CUfunction function, CUstream stream, uint64_t first, uint64_t second)
{
	void *params[] = {&first, &second};

	/* As many blocks as it does work, as kernels have. */
	MUST(cuLaunchKernel(function, (unsigned int)first % 1024 + 1, 1, 1, 1, 1, 1, 0, stream,
			    params, NULL));
}

static void work(const struct rank *r, int n, uint64_t us)
{
	for (int i = 0; i < n; i++) {
		double until = now_s() + LAUNCH_US / 1e6;

		while (r->training && now_s() < until)
			;
		launch(r->spin, r->compute, us, 0);
	}
}

static void wait_for(CUstream stream, CUstream other, CUevent event)
{
	if (stream == other)
		return;
	MUST(cuEventRecord(event, other));
	MUST(cuStreamWaitEvent(stream, event, 0));
}

static void step(const struct rank *r)
{
	work(r, COLLECTIVES, 100);
	for (int i = 0; i < COLLECTIVES; i++) {
		work(r, 2, 150);
		work(r, 4, 10);
		wait_for(r->together, r->compute, r->ready);
		launch(r->meet, r->together, (uint64_t)(uintptr_t)r->shared->met, RANKS);
	}
	wait_for(r->compute, r->together, r->met);
	work(r, COLLECTIVES, 30);
}

static void begin(struct rank *r, int device)
{
	CUcontext context;
	CUmodule module;

	MUST(cuInit(0));
	MUST(cuDevicePrimaryCtxRetain(&context, device));
	MUST(cuCtxSetCurrent(context));
	MUST(cuModuleLoadData(&module, "allot-sim-module\n"));
	MUST(cuModuleGetFunction(&r->spin, module, "sim_spin"));
	MUST(cuModuleGetFunction(&r->meet, module, "sim_meet"));
	MUST(cuStreamCreate(&r->compute, CU_STREAM_NON_BLOCKING));
	r->together = r->compute;
	if (r->training)
		MUST(cuStreamCreate(&r->together, CU_STREAM_NON_BLOCKING));
	MUST(cuEventCreate(&r->ready, CU_EVENT_DISABLE_TIMING));
	MUST(cuEventCreate(&r->met, CU_EVENT_DISABLE_TIMING));
	atomic_fetch_add(&r->shared->ready, 1);
	while (atomic_load(&r->shared->ready) < RANKS)
		nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
}

/* Rank 0 says when it is enough, and a rank may be some steps ahead. */
static _Noreturn void run(struct rank *r, int me, double seconds, long late_ms)
{
	CUevent done[STEPS_AHEAD];
	double until;

	begin(r, me);
	for (int i = 0; i < STEPS_AHEAD; i++)
		MUST(cuEventCreate(&done[i], CU_EVENT_BLOCKING_SYNC | CU_EVENT_DISABLE_TIMING));
	until = now_s() + seconds;
	if (!me)
		nanosleep(&(struct timespec){.tv_nsec = late_ms * 1000000}, NULL);
	for (uint64_t n = 0; me || now_s() < until; n++) {
		MUST(cuEventSynchronize(done[n % STEPS_AHEAD]));
		step(r);
		MUST(cuEventRecord(done[n % STEPS_AHEAD], r->compute));
		if (!me)
			atomic_store(&r->shared->steps, n);
	}
	_exit(0);
}

int main(int argc, char **argv)
{
	struct shared *shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE,
				     MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	pid_t pid[RANKS];
	struct rank rank = {.shared = shared};
	long late_ms = argc > 3 ? atol(argv[3]) : 0;
	int status;

	if (argc < 2 || shared == MAP_FAILED)
		return 2;
	rank.training = argc > 2 && !strcmp(argv[2], "training");
	for (int i = 0; i < RANKS; i++) {
		pid[i] = fork();
		if (!pid[i])
			run(&rank, i, atof(argv[1]), late_ms);
	}
	wait(&status);
	/* The other one waits for what this one will never launch. */
	for (int i = 0; i < RANKS; i++)
		kill(pid[i], SIGKILL);
	printf("%llu\n", (unsigned long long)atomic_load(&shared->steps));
	return status != 0;
}
