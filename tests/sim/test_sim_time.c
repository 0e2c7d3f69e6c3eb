/* SPDX-License-Identifier: Apache-2.0 */
/* What the simulator knows of device time: by process, by kind, living and dead. */
#include <time.h>

#include "base/now.h"
#include "sim/device_time.h"
#include "tests/sim/sim_test.h"

#define US NS_PER_US
#define MS NS_PER_MS

static CUfunction spin_function(void)
{
	CUfunction function;
	CUmodule module;

	OK(cuModuleLoadData(&module, "allot-sim-module\n"));
	OK(cuModuleGetFunction(&function, module, "sim_spin"));
	return function;
}

static void spin(CUfunction function, CUstream stream, uint64_t us)
{
	OK(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, stream, (void *[]){&us}, NULL));
}

/* What this process had of device 0 since the last call. */
static struct sim_truth_time since(void)
{
	static struct sim_truth_time before;
	struct sim_truth_time now, difference;

	sim_truth_time(truth, getpid(), 0, &now);
	difference = (struct sim_truth_time){
		.busy_ns = now.busy_ns - before.busy_ns,
		.closed_ns = now.closed_ns - before.closed_ns,
		.closed_least_ns = now.closed_least_ns - before.closed_least_ns,
		.closed_most_ns = now.closed_most_ns - before.closed_most_ns,
		.kernel_ns = now.kernel_ns - before.kernel_ns,
		.device_copy_ns = now.device_copy_ns - before.device_copy_ns,
		.host_copy_ns = now.host_copy_ns - before.host_copy_ns,
		.set_ns = now.set_ns - before.set_ns,
		.switch_ns = now.switch_ns - before.switch_ns,
		.own_switch_ns = now.own_switch_ns - before.own_switch_ns,
	};
	before = now;
	return difference;
}

static void test_kernels(CUfunction function)
{
	struct sim_truth_time t;

	since();
	for (int i = 0; i < 10; i++)
		spin(function, NULL, 1000);
	OK(cuCtxSynchronize());
	t = since();
	CHECK_EQ(t.busy_ns, 10 * MS);
	CHECK_EQ(t.kernel_ns, 10 * MS);
	CHECK(t.closed_ns >= 10 * MS && t.closed_ns < 11 * MS);
	CHECK_EQ(t.device_copy_ns + t.host_copy_ns + t.set_ns + t.switch_ns, 0);
}

/* Kernels that run side by side take the device once. */
static void test_streams(CUfunction function)
{
	CUstream stream[3];
	CUevent go;

	for (int i = 0; i < 3; i++)
		OK(cuStreamCreate(&stream[i], CU_STREAM_NON_BLOCKING));
	OK(cuEventCreate(&go, CU_EVENT_DISABLE_TIMING));
	since();
	spin(function, stream[0], 5000);
	OK(cuEventRecord(go, stream[0]));
	for (int i = 1; i < 3; i++) {
		OK(cuStreamWaitEvent(stream[i], go, 0));
		spin(function, stream[i], 5000);
	}
	OK(cuCtxSynchronize());
	CHECK_EQ(since().busy_ns, 10 * MS);
	for (int i = 0; i < 3; i++)
		OK(cuStreamDestroy_v2(stream[i]));
}

/* A gap is closed when it is shorter than 100 us; events say how long each one was. */
static void test_gaps(CUfunction function)
{
	double closed = 0;
	CUevent end, next;
	int doubtful = 0;
	struct sim_truth_time t;

	OK(cuEventCreate(&end, 0));
	OK(cuEventCreate(&next, 0));
	usleep(1000);
	since();
	spin(function, NULL, 200);
	OK(cuEventRecord(end, NULL));
	for (int i = 0; i < 40; i++) {
		CUevent swap = end;
		double gap;
		float ms;

		OK(cuEventSynchronize(end));
		usleep(i % 4 == 3 ? 300 : 0);
		spin(function, NULL, 200);
		OK(cuEventRecord(next, NULL));
		OK(cuEventSynchronize(next));
		OK(cuEventElapsedTime_v2(&ms, end, next));
		gap = (double)ms * 1e6 - 200e3;
		doubtful += gap > 99e3 && gap < 101e3;
		closed += gap < 100e3 ? gap : 0;
		end = next;
		next = swap;
	}
	t = since();
	CHECK_EQ(t.busy_ns, 41 * 200 * US);
	CHECK(t.busy_ns <= t.closed_least_ns && t.closed_least_ns <= t.closed_ns);
	CHECK(t.closed_ns <= t.closed_most_ns);
	if (!doubtful)
		CHECK((double)(t.closed_ns - t.busy_ns) > closed - 40e3 &&
		      (double)(t.closed_ns - t.busy_ns) < closed + 40e3);
}

static void test_kinds(CUfunction function)
{
	static char host[1 << 20];
	struct sim_truth_time t;
	CUdeviceptr a, b;

	OK(cuMemAlloc_v2(&a, sizeof(host)));
	OK(cuMemAlloc_v2(&b, sizeof(host)));
	since();
	OK(cuMemsetD8_v2(a, 1, sizeof(host)));
	OK(cuCtxSynchronize());
	t = since();
	CHECK(t.set_ns && t.set_ns == t.busy_ns);
	OK(cuMemcpyDtoD_v2(b, a, sizeof(host)));
	OK(cuCtxSynchronize());
	t = since();
	CHECK(t.device_copy_ns && t.device_copy_ns == t.busy_ns);
	OK(cuMemcpy(b, a, sizeof(host)));
	OK(cuCtxSynchronize());
	t = since();
	CHECK(t.device_copy_ns && t.device_copy_ns == t.busy_ns && !t.host_copy_ns);
	OK(cuMemcpyHtoD_v2(a, host, sizeof(host)));
	OK(cuMemcpyDtoH_v2(host, a, sizeof(host)));
	OK(cuCtxSynchronize());
	t = since();
	CHECK(t.host_copy_ns && !t.busy_ns && !t.closed_ns && !t.device_copy_ns);
	spin(function, NULL, 100);
	OK(cuCtxSynchronize());
	CHECK_EQ(since().kernel_ns, 100 * US);
}

/* Two contexts of one process: the device stands still between them, and is that process's. */
static void test_own_switch(void)
{
	CUcontext ctx, before;
	struct sim_truth_time t;

	OK(cuCtxGetCurrent(&before));
	OK(cuCtxCreate_v2(&ctx, 0, 0));
	since();
	spin(spin_function(), NULL, 100);
	OK(cuCtxSynchronize());
	t = since();
	CHECK(t.own_switch_ns > 100 * US);
	CHECK_EQ(t.own_switch_ns, t.switch_ns);
	OK(cuCtxDestroy_v2(ctx));
	OK(cuCtxSetCurrent(before));
}

static void work_and_wait(int fd)
{
	CUfunction function;

	sim_context(0);
	function = spin_function();
	for (int i = 0; i < 5; i++)
		spin(function, NULL, 1000);
	OK(cuCtxSynchronize());
	sim_tell(fd);
	for (;;)
		spin(function, NULL, 1000);
}

/* Killed at work: what it had stays, though its row and memory go. */
static void test_dead(pid_t *ret_pid)
{
	struct sim_truth_time t, later;
	pid_t pid, pids[16];
	int fd, n;
	bool seen = false;

	pid = sim_child(work_and_wait, &fd);
	sim_wait(fd);
	sim_truth_time(truth, pid, 0, &t);
	CHECK(t.busy_ns >= 5 * MS);
	usleep(20000);
	CHECK(!kill(pid, SIGKILL));
	CHECK_EQ(waitpid(pid, NULL, 0), pid);
	close(fd);
	CHECK_EQ(sim_truth_process(truth, pid, 0), 0); /* its row is free now */
	sim_truth_time(truth, pid, 0, &later);
	CHECK(later.busy_ns >= t.busy_ns && later.closed_ns >= later.busy_ns);
	n = sim_truth_seen(truth, pids, 16);
	for (int i = 0; i < n; i++)
		seen |= pids[i] == pid;
	CHECK(seen);
	*ret_pid = pid;
}

/* Bins have all of `closed`, when it was not long ago. */
static void check_bins(pid_t pid)
{
	struct timespec ts;
	struct sim_truth_time t;
	uint64_t sum = 0, last;

	sim_truth_time(truth, pid, 0, &t);
	clock_gettime(CLOCK_MONOTONIC, &ts);
	last = ((uint64_t)ts.tv_sec * 1000000000 + (uint64_t)ts.tv_nsec) / SIM_TIME_BIN_NS + 1;
	for (uint64_t k = last > 400 ? last - 400 : 0; k <= last; k++)
		sum += sim_truth_bin_ns(truth, pid, 0, k);
	CHECK_EQ(sum, t.closed_ns);
}

int main(void)
{
	struct sim_truth_time t;
	CUfunction function;
	pid_t dead;

	sim_begin("2", "1GiB");
	test_dead(&dead);
	sim_context(0);
	function = spin_function();
	test_kernels(function);
	test_streams(function);
	test_gaps(function);
	test_kinds(function);
	test_own_switch();
	check_bins(getpid());
	check_bins(dead);
	sim_truth_time(truth, getpid(), 1, &t);
	CHECK_EQ(t.busy_ns + t.switch_ns, 0);
	return 0;
}
