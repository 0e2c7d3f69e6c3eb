/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How two processes that always have work share a simulated device: kernels done, as a part of
 * what one process alone gets. An H200 gives each 45.7 %. Also how long a launch takes the caller,
 * and how much processor the simulator takes. Usage: sim_share [seconds] [kernel us] [processes].
 */
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "sim/cuda/api.h"

static double now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

static void must(CUresult error, const char *what)
{
	if (!error)
		return;
	fprintf(stderr, "%s: error %d\n", what, error);
	exit(1);
}

/* Keep a few kernels in flight until `end`; the part of the time that they add up to. */
static double saturate(double start, double end, uint64_t us, double *ret_launch_ns)
{
	CUcontext ctx;
	CUmodule module;
	CUfunction spin;
	CUevent done[4];
	uint64_t kernels = 0, launches = 0;
	double launching = 0;
	void *params[] = {&us};

	must(cuInit(0), "cuInit");
	must(cuDevicePrimaryCtxRetain(&ctx, 0), "retain");
	must(cuCtxSetCurrent(ctx), "current");
	must(cuModuleLoadData(&module, "allot-sim-module\n"), "module");
	must(cuModuleGetFunction(&spin, module, "sim_spin"), "function");
	for (int i = 0; i < 4; i++)
		must(cuEventCreate(&done[i], CU_EVENT_DISABLE_TIMING), "event");
	while (now() < start)
		usleep(1000);
	for (uint64_t n = 0; now() < end; n++) {
		double from;

		if (n >= 4) {
			must(cuEventSynchronize(done[n % 4]), "synchronize");
			kernels++;
		}
		from = now();
		must(cuLaunchKernel(spin, 1, 1, 1, 1, 1, 1, 0, NULL, params, NULL), "launch");
		launching += now() - from;
		launches++;
		must(cuEventRecord(done[n % 4], NULL), "record");
	}
	*ret_launch_ns = launching / (double)launches * 1e9;
	return (double)(kernels * us) / 1e6 / (end - start);
}

int main(int argc, char **argv)
{
	double seconds = argc > 1 ? atof(argv[1]) : 3, total = 0;
	uint64_t us = argc > 2 ? strtoull(argv[2], NULL, 10) : 500;
	int processes = argc > 3 ? atoi(argv[3]) : 2;
	char dir[] = "/dev/shm/allot-bench-XXXXXX";
	struct rusage usage;
	double *share = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	double start = now() + 0.3;

	if (share == MAP_FAILED || !mkdtemp(dir))
		return 1;
	setenv("ALLOT_SIM_DIR", dir, 1);
	for (int i = 0; i < processes; i++) {
		if (fork())
			continue;
		share[2 * i] = saturate(start, start + seconds, us, &share[2 * i + 1]);
		_exit(0);
	}
	while (wait(NULL) > 0)
		;
	for (int i = 0; i < processes; i++) {
		printf("process %d: %.1f %% of the device, %.0f ns a launch\n", i,
		       share[2 * i] * 100, share[2 * i + 1]);
		total += share[2 * i];
	}
	getrusage(RUSAGE_CHILDREN, &usage);
	printf("together %.1f %%; processor %.1f %% of one\n", total * 100,
	       ((double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
		(double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6) /
		       (seconds + 0.3) * 100);
	if (chdir(dir) == 0 && unlink("region") == 0 && chdir("/") == 0)
		rmdir(dir);
	return 0;
}
