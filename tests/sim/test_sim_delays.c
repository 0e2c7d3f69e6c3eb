/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the simulated driver takes for what it does, when it is told to: code of functions, launches
 * and records of events. Times are compared with the device's own, and only from below.
 */
#include <time.h>

#include "tests/sim/sim_test.h"

#define LOAD_US 20000
#define LAUNCH_US 3000
#define EVENT_US 2000
#define EVENT_DEVICE_US 5000

static double now_us(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec * 1e6 + (double)ts.tv_nsec / 1e3;
}

static CUfunction function(CUmodule *module, const char *name)
{
	CUfunction f;

	if (!*module)
		OK(cuModuleLoadData(module, "allot-sim-module\n"));
	OK(cuModuleGetFunction(&f, *module, name));
	return f;
}

/* How long the call took. */
static double spin(CUfunction f, CUstream stream, uint64_t us)
{
	double from = now_us();

	OK(cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, stream, (void *[]){&us}, NULL));
	return now_us() - from;
}

/* The launch itself is what is slow, once for each function, module and context. */
static void test_loading(void)
{
	CUmodule module = NULL, other = NULL;
	CUfunction f = function(&module, "sim_spin"), g = function(&other, "sim_spin");
	CUfunction loaded = function(&module, "anything");
	struct sim_truth_time t;
	int slow = 0;

	CHECK(spin(f, NULL, 100) >= LOAD_US);
	CHECK(spin(g, NULL, 100) >= LOAD_US);
	OK(cuFuncLoad(loaded));
	for (int i = 0; i < 20; i++)
		slow += spin(i % 2 ? f : g, NULL, 100) >= LOAD_US;
	slow += spin(loaded, NULL, 100) >= LOAD_US;
	CHECK(slow < 10); /* a machine that is busy is slow now and then */
	OK(cuCtxSynchronize());
	sim_truth_time(truth, getpid(), 0, &t);
	CHECK_EQ(t.busy_ns, 22 * 100000 + 5000);
}

/* An idle device hears of a launch later; behind other work that does not show. */
static void test_launching(void)
{
	CUmodule module = NULL;
	CUfunction f = function(&module, "sim_spin");
	CUdeviceptr word;
	CUevent begin, end;
	float ms;

	OK(cuMemAlloc_v2(&word, 4));
	OK(cuMemsetD32_v2(word, 0, 1));
	OK(cuEventCreate(&begin, 0));
	OK(cuEventCreate(&end, 0));
	spin(f, NULL, 10);
	OK(cuCtxSynchronize());
	for (int i = 0; i < 2; i++) {
		double from;

		from = now_us();
		spin(f, NULL, 10);
		OK(cuCtxSynchronize());
		CHECK(now_us() - from >= LAUNCH_US + 10);
	}
	/* All of it is known by the time the first may go. */
	OK(cuStreamWaitValue32_v2(NULL, word, 1, 1));
	OK(cuEventRecord(begin, NULL));
	for (int i = 0; i < 50; i++)
		spin(f, NULL, 10);
	OK(cuEventRecord(end, NULL));
	usleep(4 * LAUNCH_US);
	*(volatile uint32_t *)(uintptr_t)word = 1;
	OK(cuEventSynchronize(end));
	OK(cuEventElapsedTime_v2(&ms, begin, end));
	CHECK(ms > 0.499 && ms < 0.501 + EVENT_DEVICE_US / 1e3);
	OK(cuEventDestroy_v2(begin));
	OK(cuEventDestroy_v2(end));
}

static void test_events(void)
{
	struct sim_truth_time before, after;
	CUmodule module = NULL;
	CUfunction f = function(&module, "sim_spin");
	CUevent event[3];
	double from;
	float ms;

	spin(f, NULL, 10);
	OK(cuCtxSynchronize());
	sim_truth_time(truth, getpid(), 0, &before);
	for (int i = 0; i < 3; i++)
		OK(cuEventCreate(&event[i], 0));
	from = now_us();
	for (int i = 0; i < 3; i++)
		OK(cuEventRecord(event[i], NULL));
	CHECK(now_us() - from >= 3 * EVENT_US);
	OK(cuCtxSynchronize());
	OK(cuEventElapsedTime_v2(&ms, event[1], event[2]));
	CHECK(ms >= EVENT_DEVICE_US / 1e3 - 0.001);
	sim_truth_time(truth, getpid(), 0, &after);
	CHECK_EQ(after.busy_ns, before.busy_ns); /* it is no work of the program's */
}

static void set_us(const char *name, unsigned int value)
{
	char text[16];

	snprintf(text, sizeof(text), "%u", value);
	setenv(name, text, 1);
}

int main(int argc, char **argv)
{
	sim_begin("1", "1GiB");
	/* Each in a process of its own, since settings are read once. */
	if (argc < 2) {
		const char *const which[] = {"loading", "launching", "events"};

		for (int i = 0; i < 3; i++) {
			pid_t pid = fork();

			CHECK(pid >= 0);
			if (!pid) {
				execl("/proc/self/exe", argv[0], which[i], (char *)NULL);
				_exit(1);
			}
			sim_reap(pid);
		}
		return 0;
	}
	if (!strcmp(argv[1], "loading")) {
		set_us("ALLOT_SIM_LOAD_US", LOAD_US);
		sim_context(0);
		test_loading();
	} else if (!strcmp(argv[1], "launching")) {
		set_us("ALLOT_SIM_LAUNCH_US", LAUNCH_US);
		sim_context(0);
		test_launching();
	} else {
		set_us("ALLOT_SIM_EVENT_NS", EVENT_US * 1000);
		set_us("ALLOT_SIM_EVENT_DEVICE_NS", EVENT_DEVICE_US * 1000);
		sim_context(0);
		test_events();
	}
	return 0;
}
