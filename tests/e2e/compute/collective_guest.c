/* SPDX-License-Identifier: Apache-2.0 */
/*
 * collective_guest SECONDS: two ranks, a process and a device each, that do 2 ms of kernels a step
 * and meet in four collectives, launched ahead as training does. Prints how many steps were done.
 */
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "sim/cuda/api.h"

#define RANKS	    2
#define COLLECTIVES 4
#define KERNELS	    5
#define KERNEL_US   100
#define STEPS_AHEAD 2

#define MUST(call)                                                                          \
	do {                                                                                \
		CUresult must_ = (call);                                                    \
                                                                                            \
		if (must_) {                                                                \
			fprintf(stderr, "%s:%d: %s: error %d\n", __FILE__, __LINE__, #call, \
				must_);                                                     \
			_exit(1);                                                           \
		}                                                                           \
	} while (0)

struct shared {
	_Atomic uint64_t met, ready, steps;
	_Atomic bool over;
};

static double now_s(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

static void launch(CUfunction function, uint64_t first, uint64_t second)
{
	void *params[] = {&first, &second};

	MUST(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, NULL, params, NULL));
}

/* All ranks do as many steps: rank 0 says when it is enough, and a rank may be a step ahead. */
static void rank(int me, struct shared *shared, double seconds)
{
	CUevent done[STEPS_AHEAD];
	CUfunction spin, meet;
	CUcontext context;
	CUmodule module;
	double until;

	MUST(cuInit(0));
	MUST(cuDevicePrimaryCtxRetain(&context, me));
	MUST(cuCtxSetCurrent(context));
	MUST(cuModuleLoadData(&module, "allot-sim-module\n"));
	MUST(cuModuleGetFunction(&spin, module, "sim_spin"));
	MUST(cuModuleGetFunction(&meet, module, "sim_meet"));
	for (int i = 0; i < STEPS_AHEAD; i++)
		MUST(cuEventCreate(&done[i], CU_EVENT_BLOCKING_SYNC | CU_EVENT_DISABLE_TIMING));
	atomic_fetch_add(&shared->ready, 1);
	while (atomic_load(&shared->ready) < RANKS)
		nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
	until = now_s() + seconds;
	for (uint64_t step = 0; !atomic_load(&shared->over); step++) {
		MUST(cuEventSynchronize(done[step % STEPS_AHEAD]));
		for (int i = 0; i < COLLECTIVES; i++) {
			for (int k = 0; k < KERNELS; k++)
				launch(spin, KERNEL_US, 0);
			launch(meet, (uint64_t)(uintptr_t)&shared->met, RANKS);
		}
		MUST(cuEventRecord(done[step % STEPS_AHEAD], NULL));
		if (me)
			continue;
		atomic_store(&shared->steps, step + 1);
		if (now_s() > until)
			atomic_store(&shared->over, true);
	}
	_exit(0);
}

int main(int argc, char **argv)
{
	struct shared *shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE,
				     MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	pid_t pid[RANKS];
	int status;

	if (argc != 2 || shared == MAP_FAILED)
		return 2;
	for (int i = 0; i < RANKS; i++) {
		pid[i] = fork();
		if (!pid[i])
			rank(i, shared, atof(argv[1]));
	}
	wait(&status);
	/* The other one waits for what this one will never launch. */
	for (int i = 0; i < RANKS; i++)
		kill(pid[i], SIGKILL);
	printf("%llu\n", (unsigned long long)atomic_load(&shared->steps));
	return status != 0;
}
