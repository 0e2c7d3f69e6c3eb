/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program with the hooks linked in, so that it can be built with sanitizers: threads that take
 * and give by every family, beside threads that ask; a second process of the tenant, forked before
 * the first GPU call and after it; memory passed between processes; and at the end the ledger says
 * what the simulator counts.
 */
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/prctl.h>

#include "sim/truth.h"
#include "tests/crash/guest_work.h"
#include "tests/unit/tenant_fixture.h"

#define OK(call) CHECK_EQ(call, CUDA_SUCCESS)
#define THREADS	 4
#define STEPS	 150
#define CONTEXT	 (8 * MIB)
#define LIMIT	 (256 * MIB)
#define POOL_STEP (32 * MIB)

static struct sim_truth *truth;
static char tenant[PATH_MAX];

static void *work(void *arg)
{
	struct work w = {.seed = (unsigned int)(uintptr_t)arg};

	if (!work_begin(&w))
		return NULL;
	for (int i = 0; i < STEPS; i++)
		work_step(&w);
	work_clear(&w);
	CHECK_EQ(w.wrong, 0);
	OK(cuStreamDestroy_v2(w.stream));
	OK(cuDevicePrimaryCtxRelease_v2(0));
	return NULL;
}

static atomic_bool asking;

static void *ask(void *arg)
{
	struct work w = {0};
	size_t free, total;
	bool begun;
	void *p;

	/* The other process may have taken all that there is. */
	do {
		begun = work_begin(&w);
	} while (!begun && atomic_load(&asking));
	if (!begun)
		return NULL;
	while (atomic_load(&asking)) {
		OK(cuMemGetInfo_v2(&free, &total));
		CHECK_EQ(total, LIMIT);
		CHECK(free <= total);
		OK(cuDeviceTotalMem_v2(&total, 0));
		CHECK_EQ(total, LIMIT);
		OK(cuGetProcAddress_v2("cuMemAlloc", &p, 12000, 0, NULL));
		CHECK(p);
		usleep(1000);
	}
	OK(cuStreamDestroy_v2(w.stream));
	OK(cuDevicePrimaryCtxRelease_v2(0));
	return NULL;
}

/* All at once, from the first call on: they make the guest together. */
static void threads(unsigned int seed)
{
	pthread_t worker[THREADS], asker;

	atomic_store(&asking, true);
	for (uintptr_t i = 0; i < THREADS; i++)
		CHECK_EQ(pthread_create(&worker[i], NULL, work, (void *)(seed + i)), 0);
	CHECK_EQ(pthread_create(&asker, NULL, ask, NULL), 0);
	for (int i = 0; i < THREADS; i++)
		CHECK_EQ(pthread_join(worker[i], NULL), 0);
	atomic_store(&asking, false);
	CHECK_EQ(pthread_join(asker, NULL), 0);
}

/* A process of its own; alone in it, so that a sanitizer lets it start threads. */
static pid_t in_child(void (*body)(unsigned int), unsigned int arg)
{
	pid_t pid = fork();

	CHECK(pid >= 0);
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		body(arg);
		exit(0);
	}
	return pid;
}

static int pipes[2][2];

static void send_bytes(int pipe, const void *data, size_t len)
{
	CHECK_EQ(write(pipes[pipe][1], data, len), len);
}

static void receive_bytes(int pipe, void *data, size_t len)
{
	CHECK_EQ(read(pipes[pipe][0], data, len), len);
}

static void export_memory(unsigned int word)
{
	struct work w = {.seed = word};
	CUipcMemHandle handle;
	CUdeviceptr ptr;
	char done;

	CHECK(work_begin(&w));
	OK(cuMemAlloc_v2(&ptr, 10 * MIB));
	OK(cuMemsetD32_v2(ptr, word, 1));
	OK(cuIpcGetMemHandle(&handle, ptr));
	send_bytes(0, &handle, sizeof(handle));
	receive_bytes(1, &done, 1);
	OK(cuMemFree_v2(ptr));
}

static void import_memory(unsigned int word)
{
	struct work w = {.seed = word};
	unsigned int got = 0;
	CUipcMemHandle handle;
	CUdeviceptr ptr;

	CHECK(work_begin(&w));
	receive_bytes(0, &handle, sizeof(handle));
	OK(cuIpcOpenMemHandle_v2(&ptr, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
	OK(cuMemcpyDtoH_v2(&got, ptr, 4));
	CHECK_EQ(got, word);
	OK(cuIpcCloseMemHandle(ptr));
	send_bytes(1, "", 1);
}

/* Uses the GPU, and then its child does, afresh. */
static void fork_after(unsigned int seed)
{
	struct work w = {.seed = seed};
	CUdeviceptr ptr;
	pid_t pid;

	CHECK(work_begin(&w));
	OK(cuMemAlloc_v2(&ptr, 20 * MIB));
	pid = fork();
	CHECK(pid >= 0);
	if (pid == 0) {
		size_t free, total;

		/* What the parent's driver left here is of no use; asking does no harm. */
		CHECK_EQ(cuMemGetInfo_v2(&free, &total), CUDA_ERROR_NOT_INITIALIZED);
		CHECK_EQ(cuMemFree_v2(ptr), CUDA_ERROR_NOT_INITIALIZED);
		_exit(0);
	}
	fixture_wait(pid, 0);
	OK(cuMemFree_v2(ptr));
}

static void check_books(void)
{
	struct ledger *ledger;
	uint8_t uuid[16];
	int device;

	sim_truth_uuid(truth, 0, uuid);
	CHECK_EQ(ledger_open(tenant, LEDGER_READ, &ledger), 0);
	device = ledger_device(ledger, uuid, 0);
	CHECK(device >= 0);
	CHECK_EQ(sim_truth_used(truth, 0), 0);
	CHECK_EQ(quota_used_live(ledger, device), 0);
	CHECK(sim_truth_peak(truth, 0) <= LIMIT + THREADS * POOL_STEP);
	ledger_close(ledger);
}

int main(void)
{
	struct policy policy = fixture_policy(LIMIT);
	char sim[PATH_MAX + 8];
	pid_t pid[2];

	CHECK_EQ(tenant_create(fixture_runtime_dir(), "static", &policy, tenant,
			       sizeof(tenant)), 0);
	snprintf(sim, sizeof(sim), "%s/sim", fixture_runtime_dir());
	setenv("ALLOT_TENANT_DIR", tenant, 1);
	setenv("ALLOT_SIM_DIR", sim, 1);
	setenv("ALLOT_SIM_MEMORY", "1GiB", 1);
	setenv("ALLOT_SIM_CONTEXT", "8MiB", 1);
	CHECK_EQ(sim_truth_create(NULL, &truth), 0);
	CHECK(pipe(pipes[0]) == 0 && pipe(pipes[1]) == 0);

	fixture_wait(in_child(fork_after, 1), 0);
	pid[0] = in_child(export_memory, 4711);
	pid[1] = in_child(import_memory, 4711);
	fixture_wait(pid[0], 0);
	fixture_wait(pid[1], 0);
	pid[0] = in_child(threads, 1);
	pid[1] = in_child(threads, 1000);
	fixture_wait(pid[0], 0);
	fixture_wait(pid[1], 0);
	check_books();
	sim_truth_close(truth);
	return 0;
}
