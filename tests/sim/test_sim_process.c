/* SPDX-License-Identifier: Apache-2.0 */
/* Several processes on one device: together never above it, and nothing stays of the dead. */
#include "tests/sim/sim_test.h"

#include <time.h>

#define CHILDREN 6

/* Fills the device until refused, says how much it got, and waits to be let go. */
static void fill(int fd)
{
	uint64_t got = 0;
	CUdeviceptr p;

	sim_context(0);
	sim_tell(fd);
	sim_wait(fd); /* all have their contexts */
	while (!cuMemAlloc_v2(&p, 3 * MIB))
		got += 4 * MIB;
	CHECK_EQ(sim_truth_process(truth, getpid(), 0), got + 64 * MIB);
	sim_send(fd, &got, sizeof(got), -1);
	sim_wait(fd);
}

static void test_capacity(void)
{
	uint64_t sum = 0, got;
	int fd[CHILDREN];
	pid_t pid[CHILDREN], seen[CHILDREN + 1];

	for (int i = 0; i < CHILDREN; i++)
		pid[i] = sim_child(fill, &fd[i]);
	for (int i = 0; i < CHILDREN; i++)
		sim_wait(fd[i]);
	for (int i = 0; i < CHILDREN; i++)
		sim_tell(fd[i]);
	for (int i = 0; i < CHILDREN; i++) {
		sim_receive(fd[i], &got, sizeof(got));
		sum += got + 64 * MIB;
	}
	CHECK_EQ(used(0), sum);
	CHECK(sum <= 1024 * MIB && sum > 1020 * MIB);
	CHECK_EQ(sim_truth_pids(truth, seen, CHILDREN + 1), CHILDREN);
	/* One dies badly: all that it had is free for the next, who is refused no byte of it. */
	got = sim_truth_process(truth, pid[0], 0);
	sim_kill(pid[0], 0);
	CHECK_EQ(used(0), sum - got);
	pid[0] = sim_child(fill, &fd[0]);
	sim_wait(fd[0]);
	sim_tell(fd[0]);
	sim_receive(fd[0], &got, sizeof(got));
	CHECK(used(0) > 1020 * MIB);
	for (int i = 0; i < CHILDREN; i++) {
		sim_tell(fd[i]);
		sim_reap(pid[i]);
	}
	CHECK_EQ(used(0), 0);
	CHECK(sim_truth_peak(truth, 0) <= 1024 * MIB);
}

/* Every kind of change to the shared count, for ever. */
static void churn(int fd)
{
	CUmemAllocationProp prop = {
		.type = CU_MEM_ALLOCATION_TYPE_PINNED,
		.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
		.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE},
	};
	CUcontext ctx;

	sim_context(0);
	sim_tell(fd);
	for (;;) {
		CUmemGenericAllocationHandle h, again;
		CUdeviceptr p = 0;
		int shared;

		if (!cuCtxCreate_v2(&ctx, 0, 0))
			OK(cuCtxDestroy_v2(ctx));
		if (!cuMemAlloc_v2(&p, 200 * MIB))
			OK(cuMemFree_v2(p));
		if (cuMemCreate(&h, 200 * MIB, &prop, 0))
			continue;
		OK(cuMemExportToShareableHandle(&shared, h, 1, 0));
		OK(cuMemImportFromShareableHandle(&again, (void *)(uintptr_t)shared, 1));
		OK(cuMemRelease(h));
		close(shared);
		OK(cuMemRelease(again));
	}
}

static void test_kills(void)
{
	struct timespec pause = {.tv_nsec = 1};
	pid_t pid[4];
	int fd[4];

	for (int i = 0; i < 4; i++)
		pid[i] = sim_child(churn, &fd[i]);
	for (int i = 0; i < 4; i++)
		sim_wait(fd[i]);
	srand(1);
	for (int round = 0; round < 60; round++) {
		int i = rand() % 4;

		pause.tv_nsec = rand() % 2000000;
		nanosleep(&pause, NULL);
		sim_kill(pid[i], 0);
		close(fd[i]);
		CHECK(used(0) <= 1024 * MIB);
		pid[i] = sim_child(churn, &fd[i]);
		sim_wait(fd[i]);
	}
	for (int i = 0; i < 4; i++)
		sim_kill(pid[i], 0);
	CHECK_EQ(used(0), 0);
	CHECK(sim_truth_peak(truth, 0) <= 1024 * MIB);
}

static void visible(int fd)
{
	CUuuid uuid;
	uint8_t want[16];
	int n;

	OK(cuInit(0));
	OK(cuDeviceGetCount(&n));
	CHECK_EQ(n, 2);
	OK(cuDeviceGetUuid_v2(&uuid, 0));
	sim_truth_uuid(truth, 1, want);
	CHECK(!memcmp(uuid.bytes, want, 16));
	sim_context(0);
	CHECK_EQ(used(0), 0);
	CHECK_EQ(used(1), 64 * MIB);
}

static void none(int fd)
{
	GIVES(CUDA_ERROR_NO_DEVICE, cuInit(0));
}

static void test_visible(void)
{
	char text[64] = "GPU-";
	uint8_t uuid[16];
	int fd;

	setenv("CUDA_VISIBLE_DEVICES", "1,0", 1);
	sim_reap(sim_child(visible, &fd));
	sim_truth_uuid(truth, 1, uuid);
	for (int i = 0; i < 4; i++)
		sprintf(text + 4 + 2 * i, "%02x", uuid[i]);
	strcat(text, ",0,7,1"); /* the list ends at what does not exist */
	setenv("CUDA_VISIBLE_DEVICES", text, 1);
	sim_reap(sim_child(visible, &fd));
	setenv("CUDA_VISIBLE_DEVICES", "", 1);
	sim_reap(sim_child(none, &fd));
	setenv("CUDA_VISIBLE_DEVICES", "-1", 1);
	sim_reap(sim_child(none, &fd));
	unsetenv("CUDA_VISIBLE_DEVICES");
}

int main(void)
{
	sim_begin("2", "1GiB");
	test_capacity();
	test_kills();
	test_visible();
	return 0;
}
