/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The driver's checkpoint of another process: its states, who is held meanwhile, what stays on the
 * device, and the processes that are lost because they share memory. In each scenario a worker has
 * the GPU's memory, and a commander, a process of its own, asks for the checkpoint.
 */
#include <poll.h>
#include <sys/un.h>

#include "tests/sim/sim_test.h"

#define KEPT (4 * MIB) /* on the device of a process that was checkpointed */
#define CONTEXT (64 * MIB)

enum errand { NONE, ALLOC, CHECK, SPIN, DISSOLVE, FAIL, END };

static CUmemAllocationProp shareable = {
	.type = CU_MEM_ALLOCATION_TYPE_PINNED,
	.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
	.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE},
};
static const CUmemAccessDesc access_rw = {
	.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE},
	.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE,
};

/* What a worker has: memory of several kinds with content, and handles. */
struct belongings {
	CUdeviceptr large, small, pooled, mapped;
	CUmemGenericAllocationHandle handle;
	CUstream stream;
	CUmodule module;
	CUfunction spin;
};

static void map_shared(struct belongings *b, int fd)
{
	if (fd < 0)
		OK(cuMemCreate(&b->handle, 4 * MIB, &shareable, 0));
	else
		OK(cuMemImportFromShareableHandle(&b->handle, (void *)(uintptr_t)fd, 1));
	OK(cuMemAddressReserve(&b->mapped, 4 * MIB, 0, 0, 0));
	OK(cuMemMap(b->mapped, 4 * MIB, 0, b->handle, 0));
	OK(cuMemSetAccess(b->mapped, 4 * MIB, &access_rw, 1));
}

static void dissolve(struct belongings *b)
{
	OK(cuMemUnmap(b->mapped, 4 * MIB));
	OK(cuMemRelease(b->handle));
}

static void gather(struct belongings *b)
{
	sim_context(0);
	OK(cuMemAlloc_v2(&b->large, 30 * MIB));
	OK(cuMemAlloc_v2(&b->small, 1000));
	OK(cuStreamCreate(&b->stream, 0));
	OK(cuMemAllocAsync(&b->pooled, 4096, b->stream));
	OK(cuModuleLoadData(&b->module, "allot-sim-module\n"));
	OK(cuModuleGetFunction(&b->spin, b->module, "sim_spin"));
	map_shared(b, -1);
	OK(cuStreamSynchronize(b->stream));
	*(volatile int *)(b->large + 29 * MIB) = 1;
	*(volatile int *)b->small = 2;
	*(volatile int *)b->pooled = 3;
	*(volatile int *)(b->mapped + MIB) = 4;
}

static void check_belongings(const struct belongings *b)
{
	CUdeviceptr base;
	size_t bytes;
	int value = 0;

	OK(cuMemcpyDtoH_v2(&value, b->large + 29 * MIB, sizeof(value)));
	CHECK_EQ(value, 1);
	OK(cuMemcpyDtoH_v2(&value, b->mapped + MIB, sizeof(value)));
	CHECK_EQ(value, 4);
	CHECK_EQ(*(volatile int *)b->small, 2);
	CHECK_EQ(*(volatile int *)b->pooled, 3);
	OK(cuMemGetAddressRange_v2(&base, &bytes, b->large + MIB));
	CHECK_EQ(base, b->large);
	CHECK_EQ(bytes, 30 * MIB);
}

static void spin(const struct belongings *b, uint64_t us)
{
	OK(cuLaunchKernel(b->spin, 1, 1, 1, 1, 1, 1, 0, b->stream, (void *[]){&us}, NULL));
}

/* Does as it is told until it is told to end. */
static void work(int socket)
{
	struct belongings b;
	enum errand errand;
	CUdeviceptr more;

	gather(&b);
	sim_tell(socket);
	do {
		sim_receive(socket, &errand, sizeof(errand));
		if (errand == SPIN)
			spin(&b, 300000);
		if (errand == ALLOC) {
			OK(cuMemAlloc_v2(&more, 2 * MIB));
			OK(cuMemFree_v2(more));
		}
		if (errand == FAIL) {
			CHECK(cuMemAlloc_v2(&more, 2 * MIB) != CUDA_SUCCESS);
			return;
		}
		if (errand == CHECK)
			check_belongings(&b);
		if (errand == DISSOLVE)
			dissolve(&b);
		sim_tell(socket);
	} while (errand != END);
}

static void ask(int socket, enum errand errand)
{
	sim_send(socket, &errand, sizeof(errand), -1);
}

static void have(int socket, enum errand errand)
{
	ask(socket, errand);
	sim_wait(socket);
}

static bool answers(int socket, int ms)
{
	struct pollfd p = {.fd = socket, .events = POLLIN};

	return poll(&p, 1, ms) > 0;
}

static CUprocessState state_of(pid_t pid)
{
	CUprocessState state;

	OK(cuCheckpointProcessGetState(pid, &state));
	return state;
}

static uint64_t has(pid_t pid)
{
	return sim_truth_process(truth, pid, 0);
}

static void test_cycle(pid_t pid, int socket)
{
	CUcheckpointLockArgs odd = {.reserved0 = 1};
	CUprocessState state;
	CUdeviceptr filler;
	uint64_t before;
	int tid = 0;

	GIVES(CUDA_ERROR_NOT_INITIALIZED, cuCheckpointProcessGetState(pid, &state));
	sim_context(0);
	sim_wait(socket);
	before = has(pid);
	CHECK(before > CONTEXT + 36 * MIB);
	OK(cuCheckpointProcessGetRestoreThreadId(pid, &tid));
	CHECK(tid > 0);
	GIVES(CUDA_ERROR_INVALID_VALUE, cuCheckpointProcessGetRestoreThreadId(pid, NULL));
	GIVES(CUDA_ERROR_INVALID_VALUE, cuCheckpointProcessGetState(pid, NULL));
	GIVES(CUDA_ERROR_INVALID_VALUE, cuCheckpointProcessGetState(1 << 29, &state));
	GIVES(CUDA_ERROR_INVALID_VALUE, cuCheckpointProcessLock(pid, &odd));

	for (int round = 0; round < 3; round++) {
		CHECK_EQ(state_of(pid), CU_PROCESS_STATE_RUNNING);
		GIVES(CUDA_ERROR_ILLEGAL_STATE, cuCheckpointProcessCheckpoint(pid, NULL));
		GIVES(CUDA_ERROR_ILLEGAL_STATE, cuCheckpointProcessRestore(pid, NULL));
		GIVES(CUDA_ERROR_ILLEGAL_STATE, cuCheckpointProcessUnlock(pid, NULL));
		OK(cuCheckpointProcessLock(pid, NULL));
		CHECK_EQ(state_of(pid), CU_PROCESS_STATE_LOCKED);
		GIVES(CUDA_ERROR_ILLEGAL_STATE, cuCheckpointProcessLock(pid, NULL));
		ask(socket, ALLOC);
		CHECK(!answers(socket, 100));
		CHECK_EQ(has(pid), before);
		OK(cuCheckpointProcessCheckpoint(pid, NULL));
		CHECK_EQ(state_of(pid), CU_PROCESS_STATE_CHECKPOINTED);
		CHECK_EQ(has(pid), KEPT);
		CHECK_EQ(used(0), CONTEXT + KEPT);
		CHECK(!answers(socket, 100));

		/* Another process may have the memory meanwhile; back it comes when there is room. */
		OK(cuMemAlloc_v2(&filler, 512 * MIB - CONTEXT - KEPT));
		GIVES(CUDA_ERROR_OUT_OF_MEMORY, cuCheckpointProcessRestore(pid, NULL));
		CHECK_EQ(state_of(pid), CU_PROCESS_STATE_CHECKPOINTED);
		OK(cuMemFree_v2(filler));
		OK(cuCheckpointProcessRestore(pid, NULL));
		CHECK_EQ(state_of(pid), CU_PROCESS_STATE_LOCKED);
		CHECK_EQ(has(pid), before);
		CHECK(!answers(socket, 100));
		OK(cuCheckpointProcessUnlock(pid, NULL));
		sim_wait(socket);
		have(socket, CHECK);
	}
	/* Who is locked goes on as if nothing had been. */
	OK(cuCheckpointProcessLock(pid, NULL));
	OK(cuCheckpointProcessUnlock(pid, NULL));
	have(socket, SPIN);
	have(socket, END);
}

/* A lock waits for work that was launched, and for no more than its timeout. */
static void test_timeout(pid_t pid, int socket)
{
	CUcheckpointLockArgs brief = {.timeoutMs = 20};
	struct sim_truth_time t;

	OK(cuInit(0));
	sim_wait(socket);
	have(socket, SPIN);
	GIVES(CUDA_ERROR_NOT_READY, cuCheckpointProcessLock(pid, &brief));
	CHECK_EQ(state_of(pid), CU_PROCESS_STATE_RUNNING);
	have(socket, ALLOC);
	OK(cuCheckpointProcessLock(pid, NULL));
	sim_truth_time(truth, pid, 0, &t);
	CHECK_EQ(t.kernel_ns, 300000000);
	OK(cuCheckpointProcessUnlock(pid, NULL));
	have(socket, END);
}

/* Restoring on the same devices may be said in so many words. */
static void test_pairs(pid_t pid, int socket)
{
	CUcheckpointGpuPair pair[2] = {0};
	CUcheckpointRestoreArgs args = {.gpuPairs = pair, .gpuPairsCount = 1};

	OK(cuInit(0));
	sim_wait(socket);
	sim_truth_uuid(truth, 0, (uint8_t *)pair[0].oldUuid.bytes);
	sim_truth_uuid(truth, 1, (uint8_t *)pair[0].newUuid.bytes);
	OK(cuCheckpointProcessLock(pid, NULL));
	OK(cuCheckpointProcessCheckpoint(pid, NULL));
	GIVES(CUDA_ERROR_NOT_SUPPORTED, cuCheckpointProcessRestore(pid, &args)); /* not simulated */
	pair[0].oldUuid = pair[0].newUuid;
	GIVES(CUDA_ERROR_INVALID_VALUE, cuCheckpointProcessRestore(pid, &args)); /* one is missing */
	args.gpuPairsCount = 2;
	sim_truth_uuid(truth, 0, (uint8_t *)pair[1].oldUuid.bytes);
	sim_truth_uuid(truth, 0, (uint8_t *)pair[1].newUuid.bytes);
	OK(cuCheckpointProcessRestore(pid, &args));
	OK(cuCheckpointProcessUnlock(pid, NULL));
	have(socket, CHECK);
	have(socket, END);
}

/* ---- Sharing: two workers, one of which imports what the other exports ---- */

static void share(int socket, bool ipc)
{
	struct belongings b;
	CUdeviceptr opened = 0;
	CUipcMemHandle handle;
	enum errand errand;
	char c;
	int fd;

	fd = sim_receive(socket, &c, 1);
	sim_receive(socket, &handle, sizeof(handle));
	sim_context(0);
	if (ipc)
		OK(cuIpcOpenMemHandle_v2(&opened, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
	else
		map_shared(&b, fd);
	close(fd);
	sim_tell(socket);
	for (;;) {
		sim_receive(socket, &errand, sizeof(errand));
		if (errand == END)
			return;
		if (errand == FAIL) {
			CHECK(cuMemAlloc_v2(&opened, 2 * MIB) != CUDA_SUCCESS);
			return;
		}
		if (errand == DISSOLVE && ipc)
			OK(cuIpcCloseMemHandle(opened));
		else if (errand == DISSOLVE)
			dissolve(&b);
		sim_tell(socket);
	}
}

static void share_vmm(int socket)
{
	share(socket, false);
}

static void share_ipc(int socket)
{
	share(socket, true);
}

static void export_to(int socket)
{
	struct belongings b;
	CUipcMemHandle handle;
	enum errand errand;
	int fd;

	gather(&b);
	OK(cuMemExportToShareableHandle(&fd, b.handle, 1, 0));
	OK(cuIpcGetMemHandle(&handle, b.large));
	sim_send(socket, "", 1, fd);
	close(fd);
	sim_send(socket, &handle, sizeof(handle), -1);
	for (;;) {
		CUdeviceptr more;

		sim_receive(socket, &errand, sizeof(errand));
		if (errand == END)
			return;
		if (errand == DISSOLVE)
			dissolve(&b);
		if (errand == FAIL) {
			CHECK(cuMemAlloc_v2(&more, 2 * MIB) != CUDA_SUCCESS);
			return;
		}
		sim_tell(socket);
	}
}

struct pair_of {
	pid_t exporter, importer;
	int to_exporter, to_importer;
};

/* Both are there, and share. */
static void pair_begin(struct pair_of *p, bool ipc)
{
	CUipcMemHandle handle;
	char c;
	int fd;

	p->exporter = sim_child(export_to, &p->to_exporter);
	p->importer = sim_child(ipc ? share_ipc : share_vmm, &p->to_importer);
	OK(cuInit(0));
	fd = sim_receive(p->to_exporter, &c, 1);
	sim_receive(p->to_exporter, &handle, sizeof(handle));
	sim_send(p->to_importer, "", 1, fd);
	close(fd);
	sim_send(p->to_importer, &handle, sizeof(handle), -1);
	sim_wait(p->to_importer);
}

/* Lock and checkpoint answer success; the restore says that all is lost, and it is. */
static void check_lost(pid_t pid, int socket, CUresult why)
{
	GIVES(why, cuCheckpointProcessRestore(pid, NULL));
	CHECK_EQ(state_of(pid), CU_PROCESS_STATE_FAILED);
	GIVES(CUDA_ERROR_ILLEGAL_STATE, cuCheckpointProcessRestore(pid, NULL));
	GIVES(CUDA_ERROR_ILLEGAL_STATE, cuCheckpointProcessUnlock(pid, NULL));
	GIVES(CUDA_ERROR_ILLEGAL_STATE, cuCheckpointProcessLock(pid, NULL));
	ask(socket, FAIL);
	sim_reap(pid);
}

static void checkpoint_both(const struct pair_of *p)
{
	OK(cuCheckpointProcessLock(p->exporter, NULL));
	OK(cuCheckpointProcessLock(p->importer, NULL));
	OK(cuCheckpointProcessCheckpoint(p->exporter, NULL));
	OK(cuCheckpointProcessCheckpoint(p->importer, NULL));
	CHECK_EQ(has(p->exporter), KEPT);
	CHECK_EQ(has(p->importer), KEPT);
	CHECK_EQ(used(0), 2 * KEPT);
}

static void test_shared_vmm(pid_t pid, int socket)
{
	struct pair_of p;

	(void)pid, (void)socket;
	pair_begin(&p, false);
	checkpoint_both(&p);
	check_lost(p.exporter, p.to_exporter, CUDA_ERROR_INVALID_VALUE);
	check_lost(p.importer, p.to_importer, CUDA_ERROR_INVALID_VALUE);
}

static void test_shared_ipc(pid_t pid, int socket)
{
	struct pair_of p;

	(void)pid, (void)socket;
	pair_begin(&p, true);
	checkpoint_both(&p);
	check_lost(p.importer, p.to_importer, CUDA_ERROR_NOT_SUPPORTED);
	check_lost(p.exporter, p.to_exporter, CUDA_ERROR_NOT_SUPPORTED);
}

/* With the sharing taken apart on both sides all is well. */
static void test_dissolved(pid_t pid, int socket)
{
	struct pair_of p;

	(void)pid, (void)socket;
	pair_begin(&p, false);
	have(p.to_exporter, DISSOLVE);
	have(p.to_importer, DISSOLVE);
	checkpoint_both(&p);
	OK(cuCheckpointProcessRestore(p.importer, NULL));
	OK(cuCheckpointProcessRestore(p.exporter, NULL));
	OK(cuCheckpointProcessUnlock(p.exporter, NULL));
	OK(cuCheckpointProcessUnlock(p.importer, NULL));
	ask(p.to_exporter, END);
	ask(p.to_importer, END);
	sim_reap(p.exporter);
	sim_reap(p.importer);
}

/* ---- What is refused ---- */

static void work_managed(int socket)
{
	CUdeviceptr managed;
	enum errand errand;

	sim_context(0);
	OK(cuMemAllocManaged(&managed, 2 * MIB, CU_MEM_ATTACH_GLOBAL));
	sim_tell(socket);
	sim_receive(socket, &errand, sizeof(errand));
	OK(cuMemFree_v2(managed));
	sim_tell(socket);
	sim_receive(socket, &errand, sizeof(errand));
}

static void test_managed(pid_t pid, int socket)
{
	OK(cuInit(0));
	sim_wait(socket);
	OK(cuCheckpointProcessLock(pid, NULL));
	GIVES(CUDA_ERROR_NOT_SUPPORTED, cuCheckpointProcessCheckpoint(pid, NULL));
	CHECK_EQ(state_of(pid), CU_PROCESS_STATE_LOCKED);
	OK(cuCheckpointProcessUnlock(pid, NULL));
	have(socket, NONE);
	OK(cuCheckpointProcessLock(pid, NULL));
	OK(cuCheckpointProcessCheckpoint(pid, NULL));
	OK(cuCheckpointProcessRestore(pid, NULL));
	OK(cuCheckpointProcessUnlock(pid, NULL));
	ask(socket, END);
}

/* By main, who has the daemon's socket open for it: both processes are under MPS. */
static void test_mps(pid_t pid, int socket)
{
	OK(cuInit(0));
	sim_wait(socket);
	OK(cuCheckpointProcessLock(pid, NULL));
	GIVES(CUDA_ERROR_NOT_SUPPORTED, cuCheckpointProcessCheckpoint(pid, NULL));
	OK(cuCheckpointProcessUnlock(pid, NULL));
	have(socket, CHECK);
	have(socket, END);
}

static void test_settings(pid_t pid, int socket)
{
	CUprocessState state;

	OK(cuInit(0));
	sim_wait(socket);
	setenv("ALLOT_SIM_CHECKPOINT", "denied", 1);
	OK(cuCheckpointProcessGetState(pid, &state));
	GIVES(CUDA_ERROR_NOT_PERMITTED, cuCheckpointProcessLock(pid, NULL));
	setenv("ALLOT_SIM_CHECKPOINT", "unsupported", 1);
	GIVES(CUDA_ERROR_NOT_SUPPORTED, cuCheckpointProcessGetState(pid, &state));
	GIVES(CUDA_ERROR_NOT_SUPPORTED, cuCheckpointProcessLock(pid, NULL));
	setenv("ALLOT_SIM_CHECKPOINT", "lost", 1);
	OK(cuCheckpointProcessLock(pid, NULL));
	OK(cuCheckpointProcessCheckpoint(pid, NULL));
	GIVES(CUDA_ERROR_UNKNOWN, cuCheckpointProcessRestore(pid, NULL));
	CHECK_EQ(state_of(pid), CU_PROCESS_STATE_FAILED);
	ask(socket, FAIL);
}

/* ---- Whoever asks may be killed: what was asked is done, or not begun ---- */

enum step { STATE, LOCK, CHECKPOINT, RESTORE, UNLOCK };

/* In a process of its own, killed at `fault` unless that is NULL. What STATE finds comes back. */
static int do_step(pid_t pid, enum step step, const char *fault)
{
	CUresult (*const calls[])(int pid, void *args) = {
		[LOCK] = (CUresult(*)(int, void *))cuCheckpointProcessLock,
		[CHECKPOINT] = (CUresult(*)(int, void *))cuCheckpointProcessCheckpoint,
		[RESTORE] = (CUresult(*)(int, void *))cuCheckpointProcessRestore,
		[UNLOCK] = (CUresult(*)(int, void *))cuCheckpointProcessUnlock,
	};
	pid_t child = fork();
	int status;

	if (!child) {
		if (fault)
			setenv("ALLOT_FAULT", fault, 1);
		OK(cuInit(0));
		if (step == STATE)
			_exit((int)state_of(pid));
		OK(calls[step](pid, NULL));
		_exit(0);
	}
	CHECK_EQ(waitpid(child, &status, 0), child);
	if (fault)
		CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
	else
		CHECK(WIFEXITED(status));
	return fault ? 0 : WEXITSTATUS(status);
}

static void test_kills(pid_t pid, int socket)
{
	struct sim_truth_time t;
	uint64_t before;

	sim_wait(socket);
	before = has(pid);
	have(socket, SPIN);
	do_step(pid, LOCK, "CHECKPOINT_LOCKED"); /* the work is still under way */
	CHECK_EQ(do_step(pid, STATE, NULL), CU_PROCESS_STATE_LOCKED);
	CHECK_EQ(do_step(pid, UNLOCK, NULL), 0);
	have(socket, CHECK);
	have(socket, SPIN);
	do_step(pid, LOCK, "CHECKPOINT_LOCKED");
	do_step(pid, CHECKPOINT, "CHECKPOINT_JUDGED"); /* waited for the work in place of lock */
	sim_truth_time(truth, pid, 0, &t);
	CHECK_EQ(t.kernel_ns, 600000000);
	CHECK_EQ(do_step(pid, STATE, NULL), CU_PROCESS_STATE_LOCKED);
	CHECK_EQ(has(pid), before);
	do_step(pid, CHECKPOINT, "CHECKPOINT_TAKEN");
	CHECK_EQ(do_step(pid, STATE, NULL), CU_PROCESS_STATE_CHECKPOINTED);
	CHECK_EQ(has(pid), KEPT);
	do_step(pid, RESTORE, "CHECKPOINT_RESTORED");
	CHECK_EQ(do_step(pid, STATE, NULL), CU_PROCESS_STATE_LOCKED);
	CHECK_EQ(has(pid), before);
	ask(socket, CHECK);
	CHECK(!answers(socket, 100));
	do_step(pid, UNLOCK, "CHECKPOINT_UNLOCKED"); /* nobody was woken */
	sim_wait(socket);
	have(socket, END);
}

/* The worker may be killed, too: then there is no such process, and its memory is free. */
static void test_worker_killed(pid_t pid, int socket)
{
	CUprocessState state;

	OK(cuInit(0));
	sim_wait(socket);
	OK(cuCheckpointProcessLock(pid, NULL));
	OK(cuCheckpointProcessCheckpoint(pid, NULL));
	CHECK_EQ(kill(pid, SIGKILL), 0);
	while (cuCheckpointProcessGetState(pid, &state) == CUDA_SUCCESS)
		usleep(1000);
	GIVES(CUDA_ERROR_INVALID_VALUE, cuCheckpointProcessRestore(pid, NULL));
	CHECK_EQ(used(0), 0);
}

/* A worker, if any, and a commander that knows it by its pid and a socket. */
static void scenario(void (*worker)(int socket), void (*commander)(pid_t pid, int socket),
		     int worker_status)
{
	int socket = -1, status;
	pid_t pid = worker ? sim_child(worker, &socket) : 0, other;

	fflush(NULL);
	other = fork();
	CHECK(other >= 0);
	if (!other) {
		sim_truth_close(truth);
		CHECK_EQ(sim_truth_open(sim_dir, &truth), 0);
		commander(pid, socket);
		exit(0);
	}
	close(socket);
	sim_reap(other);
	if (worker) {
		CHECK_EQ(waitpid(pid, &status, 0), pid);
		CHECK_EQ(status, worker_status);
	}
}

int main(void)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	int mps = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	unsetenv("CUDA_MPS_PIPE_DIRECTORY");
	sim_begin("2", "512MiB");
	scenario(work, test_cycle, 0);
	scenario(work, test_timeout, 0);
	scenario(work, test_pairs, 0);
	scenario(NULL, test_shared_vmm, 0);
	scenario(NULL, test_shared_ipc, 0);
	scenario(NULL, test_dissolved, 0);
	scenario(work_managed, test_managed, 0);
	scenario(work, test_settings, 0);
#ifdef ALLOT_FAULT_POINTS
	scenario(work, test_kills, 0);
#endif
	scenario(work, test_worker_killed, SIGKILL);

	snprintf(address.sun_path, sizeof(address.sun_path), "%s/control", sim_dir);
	CHECK_EQ(bind(mps, (const struct sockaddr *)&address, sizeof(address)), 0);
	CHECK_EQ(listen(mps, 16), 0);
	setenv("CUDA_MPS_PIPE_DIRECTORY", sim_dir, 1);
	scenario(work, test_mps, 0);
	unlink(address.sun_path);
	CHECK_EQ(used(0), 0);
	return 0;
}
