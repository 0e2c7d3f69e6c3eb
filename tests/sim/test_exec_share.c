/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Processes share a device: all get on, whoever is killed in the middle of whatever. Shares as
 * figures are bench/sim_share's; here nothing depends on how fast the machine is.
 */
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "tests/sim/exec.h"

#define CHILDREN 3
#define KILLS    60
#define HANG_S   100

/* What the children did, beyond their deaths. */
static _Atomic uint64_t *done;

static pid_t start_child(void)
{
	pid_t pid = fork();

	CHECK(pid >= 0);
	/* It holds the test's output open: left behind, it would keep a failure waiting. */
	if (!pid)
		prctl(PR_SET_PDEATHSIG, SIGKILL);
	return pid;
}

static void child(int slot, uint64_t us)
{
	CUevent event;

	exec_context();
	OK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
	for (;;) {
		for (int i = 0; i < 4; i++)
			OK(exec_spin(NULL, us));
		OK(cuEventRecord(event, NULL));
		OK(exec_spin(NULL, us));
		OK(cuEventSynchronize(event));
		atomic_fetch_add(&done[slot], 1);
	}
}

static pid_t start(int slot, uint64_t us)
{
	pid_t pid = start_child();

	if (!pid)
		child(slot, us);
	return pid;
}

/* Each of these children moves on within HANG_S: a hang, not slowness, is the failure. */
static void all_move(int but)
{
	uint64_t before[CHILDREN];
	double until = exec_now() + HANG_S;

	for (int i = 0; i < CHILDREN; i++)
		before[i] = atomic_load(&done[i]);
	for (int i = 0; i < CHILDREN; i++) {
		while (i != but && atomic_load(&done[i]) < before[i] + 2) {
			CHECK(exec_now() < until);
			usleep(500);
		}
	}
}

/* The same of one of them. */
static void move(int slot)
{
	uint64_t before = atomic_load(&done[slot]);
	double until = exec_now() + HANG_S;

	while (atomic_load(&done[slot]) < before + 2) {
		CHECK(exec_now() < until);
		usleep(500);
	}
}

static void end(pid_t pid)
{
	kill(pid, SIGKILL);
	CHECK(waitpid(pid, NULL, 0) == pid);
}

/* The children take turns often, so that kills hit every state: running, waiting, handing over. */
static void test_kills(void)
{
	pid_t pid[CHILDREN];

	for (int i = 0; i < CHILDREN; i++)
		pid[i] = start(i, 300);
	all_move(-1);
	srand(1);
	for (int n = 0; n < KILLS; n++) {
		int victim = rand() % CHILDREN;

		usleep((unsigned int)(rand() % 3000));
		end(pid[victim]);
		if (n % 4 == 0)
			all_move(victim);
		pid[victim] = start(victim, 300);
	}
	all_move(-1);
	for (int i = 0; i < CHILDREN; i++)
		end(pid[i]);
}

/* A stopped process keeps nobody from running, and goes on when it is continued. */
static void test_stop(void)
{
	pid_t pid[CHILDREN];

	for (int i = 0; i < CHILDREN; i++)
		pid[i] = start(i, 1000);
	all_move(-1);
	for (int i = 0; i < CHILDREN; i++) {
		CHECK(!kill(pid[i], SIGSTOP));
		all_move(i);
		CHECK(!kill(pid[i], SIGCONT));
		all_move(-1);
	}
	for (int i = 0; i < CHILDREN; i++)
		end(pid[i]);
}

/* Returns false if this process may not have a clock of its own. */
static bool shift_clock(long seconds)
{
	char offset[64];
	int fd, n = snprintf(offset, sizeof(offset), "monotonic %ld 0", seconds);

	if (unshare(CLONE_NEWTIME))
		return false;
	fd = open("/proc/self/timens_offsets", O_WRONLY);
	CHECK(fd >= 0 && write(fd, offset, (size_t)n) == n);
	close(fd);
	fd = open("/proc/self/ns/time_for_children", O_RDONLY);
	CHECK(fd >= 0 && !setns(fd, CLONE_NEWTIME));
	close(fd);
	return true;
}

static pid_t start_shifted(int slot, long seconds)
{
	pid_t pid = start_child();

	if (!pid) {
		CHECK(!seconds || shift_clock(seconds));
		child(slot, 300);
	}
	return pid;
}

/*
 * CRIU gives a process that it restores the clock of when it was dumped. What such a process has left behind
 * is in the future of others, or of itself when it is restored once more: nobody waits until then.
 */
static void test_clocks(void)
{
	static const long shifts[CHILDREN] = {900, 0, -10};
	pid_t pid[CHILDREN], try = start_child();
	int status;

	if (!try)
		_exit(!shift_clock(1));
	CHECK(waitpid(try, &status, 0) == try);
	if (status)
		return;
	for (int i = 0; i < CHILDREN; i++) {
		pid[i] = start_shifted(i, shifts[i]);
		move(i);
		end(pid[i]);
	}
	for (int i = 0; i < CHILDREN; i++)
		pid[i] = start_shifted(i, shifts[i]);
	all_move(-1);
	for (int i = 0; i < CHILDREN; i++)
		end(pid[i]);
}

#define LATE_MS 500 /* far more than a busy machine is late by */

/* A rank, which stops half-way if told so. Answers how long it was in its collective, in ms. */
static float meet(int device, bool stop)
{
	uint64_t count = (uintptr_t)&done[CHILDREN], ranks = 2;
	CUfunction function;
	CUevent from, to;
	CUcontext ctx;
	float ms;

	OK(cuInit(0));
	OK(cuDevicePrimaryCtxRetain(&ctx, device));
	OK(cuCtxSetCurrent(ctx));
	function = exec_function("sim_meet");
	OK(cuEventCreate(&from, 0));
	OK(cuEventCreate(&to, 0));
	OK(cuEventRecord(from, NULL));
	OK(exec_launch(function, NULL, (void *[]){&count, &ranks}));
	OK(cuEventRecord(to, NULL));
	while (stop && !atomic_load(&done[CHILDREN]))
		usleep(100);
	if (stop)
		CHECK(!kill(getpid(), SIGSTOP));
	OK(cuEventSynchronize(to));
	OK(cuEventElapsedTime_v2(&ms, from, to));
	return ms;
}

/* The processor was elsewhere, but the device waited for the other one as long as that took. */
static void test_meet(void)
{
	pid_t first = start_child(), last;
	int status;

	if (!first)
		exit(meet(0, true) < LATE_MS - 0.1f);
	CHECK(waitpid(first, &status, WUNTRACED) == first && WIFSTOPPED(status));
	exec_sleep_ms(LATE_MS);
	last = start_child();
	if (!last)
		exit(meet(1, false) >= LATE_MS);
	CHECK(waitpid(last, &status, 0) == last && !status);
	CHECK(!kill(first, SIGCONT));
	CHECK(waitpid(first, &status, 0) == first);
	CHECK(!status);
}

/* After all that the device is idle, and this process has it to itself. */
static void test_alone(void)
{
	CUevent from, to;
	float ms;

	exec_context();
	OK(cuEventCreate(&from, 0));
	OK(cuEventCreate(&to, 0));
	OK(exec_spin(NULL, 1));
	OK(cuEventRecord(from, NULL));
	OK(exec_spin(NULL, 50000));
	OK(cuEventRecord(to, NULL));
	OK(cuEventSynchronize(to));
	OK(cuEventElapsedTime_v2(&ms, from, to));
	CHECK(ms >= 50.0f && ms < 50.5f);
	OK(cuEventDestroy_v2(from));
	OK(cuEventDestroy_v2(to));
}

/*
 * Between two contexts that wait for each of their kernels the device is passed on dry, and stands
 * still for 138 us each time.
 */
static void test_switch(CUstream a, CUstream b)
{
	double from;

	OK(exec_spin(a, 10));
	OK(cuStreamSynchronize(a));
	from = exec_now();
	for (int i = 0; i < 10; i++) {
		OK(exec_spin(b, 10));
		OK(cuStreamSynchronize(b));
		OK(exec_spin(a, 10));
		OK(cuStreamSynchronize(a));
	}
	CHECK(exec_now() - from >= 20 * 138e-6);
}

/*
 * An event behind a wait is made when the device has turned to its context, not when the wait is over
 * (bench/results/h200-events-2026-11-29.txt): it is as long before the kernel's end as that took.
 * `waits`: a stream that does, and for which the other one waits.
 */
static void test_event_behind_wait(CUcontext other, CUstream busy, CUstream waits, CUstream stream)
{
	volatile uint32_t *word;
	CUevent begin, end;
	CUdeviceptr at;
	float ms;

	OK(cuMemHostAlloc((void **)&word, 4, CU_MEMHOSTALLOC_DEVICEMAP));
	OK(cuMemHostGetDevicePointer_v2(&at, (void *)word, 0));
	OK(cuEventCreate(&begin, 0));
	OK(cuEventCreate(&end, 0));
	for (uint32_t i = 1; i <= 10; i++) {
		*word = 0;
		OK(exec_spin(stream, 500)); /* what follows stands behind work */
		OK(cuStreamWaitValue32_v2(waits, at, i, CU_STREAM_WAIT_VALUE_EQ));
		OK(cuEventRecord(begin, stream));
		OK(exec_spin(stream, 200));
		OK(cuEventRecord(end, stream));
		OK(cuCtxPushCurrent_v2(other));
		OK(exec_spin(busy, 5000));
		OK(cuCtxPopCurrent_v2(NULL));
		exec_sleep_ms(2);
		*word = i;
		OK(cuEventSynchronize(end));
		OK(cuEventElapsedTime(&ms, begin, end));
		CHECK(ms < 0.3F);
		OK(cuStreamSynchronize(busy));
	}
	OK(cuEventDestroy_v2(begin));
	OK(cuEventDestroy_v2(end));
	OK(cuMemFreeHost((void *)word));
}

/* Two contexts of one process are two contenders as well. */
static void test_two_contexts(void)
{
	CUcontext one, two;
	CUstream a, b, blocking;

	OK(cuCtxCreate_v2(&one, 0, 0));
	OK(cuStreamCreate(&a, CU_STREAM_NON_BLOCKING));
	OK(cuCtxCreate_v2(&two, 0, 0));
	OK(cuStreamCreate(&b, CU_STREAM_NON_BLOCKING));
	for (int i = 0; i < 10; i++) {
		OK(exec_spin(b, 1000));
		OK(cuCtxPushCurrent_v2(one));
		OK(exec_spin(a, 1000));
		OK(cuCtxPopCurrent_v2(NULL));
	}
	OK(cuStreamSynchronize(a));
	OK(cuStreamSynchronize(b));
	test_switch(a, b);
	OK(cuStreamCreate(&blocking, CU_STREAM_DEFAULT));
	test_event_behind_wait(one, a, b, b);
	test_event_behind_wait(one, a, CU_STREAM_LEGACY, blocking);
	OK(cuCtxDestroy_v2(two));
	OK(cuCtxDestroy_v2(one));
}

int main(void)
{
	setenv("ALLOT_SIM_SLICE_US", "1000", 1);
	setenv("ALLOT_SIM_SWITCH_US", "50", 1);
	setenv("ALLOT_SIM_GPUS", "2", 1);
	exec_init();
	done = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	CHECK(done != MAP_FAILED);
	test_kills();
	test_stop();
	test_clocks();
	test_meet();
	test_alone();
	test_two_contexts();
	OK(cuDevicePrimaryCtxRelease_v2(0));
	return 0;
}
