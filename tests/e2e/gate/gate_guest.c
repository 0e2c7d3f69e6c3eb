/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gate_guest HAZARD: a program that does what the meter and its keeper must not disturb. Exits 0
 * when it was not disturbed; prints what a test compares from outside. Run it under a share.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/filter.h>
#include <linux/futex.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "ledger/layout.h"
#include "ledger/policy.h"
#include "sim/cuda/api.h"
#include "tests/e2e/must.h"

#define CHECK(what)                                                                  \
	do {                                                                         \
		if (!(what)) {                                                       \
			fprintf(stderr, "%s:%d: not %s\n", __FILE__, __LINE__, #what); \
			exit(1);                                                     \
		}                                                                    \
	} while (0)

/* More than a small stack: programs with large libraries have as much for each thread. */
static _Thread_local char ballast[128 << 10];

static CUcontext context;
static CUfunction spin;

static void begin(void)
{
	CUmodule module;

	MUST(cuInit(0));
	MUST(cuDevicePrimaryCtxRetain(&context, 0));
	MUST(cuCtxSetCurrent(context));
	MUST(cuModuleLoadData(&module, "allot-sim-module\n"));
	MUST(cuModuleGetFunction(&spin, module, "sim_spin"));
}

static CUresult launch(uint64_t us, CUstream stream)
{
	void *params[] = {&us};

	return cuLaunchKernel(spin, 1, 1, 1, 1, 1, 1, 0, stream, params, NULL);
}

static void pause_ms(long ms)
{
	nanosleep(&(struct timespec){ms / 1000, ms % 1000 * 1000000}, NULL);
}

static _Atomic bool over;

static void *launch_all_the_time(void *arg)
{
	CUstream stream;

	MUST(cuCtxSetCurrent(context));
	MUST(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	while (!atomic_load(&over))
		MUST(launch(300, stream));
	MUST(cuStreamSynchronize(stream));
	return NULL;
}

/*
 * A capture in the mode that forbids other threads whatever might not be part of it. A stream that
 * has nothing to do with it waits for another one's event meanwhile.
 */
static void capture(void)
{
	CUstream stream, before, behind;
	CUgraphExec exec;
	pthread_t thread;
	CUevent event;
	CUgraph graph;
	size_t nodes;

	begin();
	MUST(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	MUST(cuStreamCreate(&before, CU_STREAM_NON_BLOCKING));
	MUST(cuStreamCreate(&behind, CU_STREAM_NON_BLOCKING));
	MUST(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
	pthread_create(&thread, NULL, launch_all_the_time, NULL);
	for (int i = 0; i < 20; i++) {
		MUST(launch(1000, before));
		MUST(cuEventRecord(event, before));
		MUST(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
		for (int k = 0; k < 5; k++) {
			MUST(launch(100, stream));
			MUST(cuStreamWaitEvent(behind, event, 0));
			pause_ms(2); /* marks are recorded and looked for meanwhile */
		}
		MUST(cuStreamEndCapture(stream, &graph));
		MUST(cuGraphGetNodes(graph, NULL, &nodes));
		CHECK(nodes == 5);
		MUST(cuGraphInstantiateWithFlags(&exec, graph, 0));
		MUST(cuGraphLaunch(exec, stream));
		MUST(cuStreamSynchronize(stream));
		MUST(cuGraphExecDestroy(exec));
		MUST(cuGraphDestroy(graph));
	}
	atomic_store(&over, true);
	pthread_join(thread, NULL);
}

/* What is captured is no launch; what others launch meanwhile is. */
static void captured(void)
{
	CUstream stream, other;
	CUgraph graph;

	begin();
	MUST(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	MUST(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
	for (int i = 0; i < 7; i++)
		MUST(launch(10, stream));
	MUST(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
	for (int i = 0; i < 100; i++) {
		MUST(launch(10, stream));
		MUST(launch(10, other));
	}
	MUST(cuStreamEndCapture(stream, &graph));
	CHECK(launch(10, (CUstream)stream) == CUDA_SUCCESS);
	CHECK(cuLaunchKernel(spin, 0, 1, 1, 1, 1, 1, 0, stream, NULL, NULL) != CUDA_SUCCESS);
	MUST(cuCtxSynchronize());
}

/* A child that never uses the GPU ends as if nothing were there; one that does has its own. */
static void forked(void)
{
	int status;
	pid_t pid;

	pid = fork();
	if (!pid) {
		begin();
		for (int i = 0; i < 50; i++)
			MUST(launch(200, NULL));
		MUST(cuCtxSynchronize());
		exit(0);
	}
	begin();
	for (int i = 0; i < 50; i++)
		MUST(launch(200, NULL));
	CHECK(waitpid(pid, &status, 0) == pid && !status);
	/* Also one of which no handler of the C library's hears. */
	for (int i = 0; i < 20; i++) {
		MUST(launch(200, NULL));
		pid = i % 2 ? fork() : (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
		if (!pid)
			exit(7);
		CHECK(waitpid(pid, &status, 0) == pid && WEXITSTATUS(status) == 7);
	}
}

/* Children of all kinds, made while another thread launches and the keeper looks. */
static void forked_beside(void)
{
	char *argv[] = {(char[]){"true"}, NULL};
	pthread_t thread;
	int status;
	pid_t pid;

	begin();
	pthread_create(&thread, NULL, launch_all_the_time, NULL);
	for (int i = 0; i < 100; i++) {
		pid = i % 2 ? fork() : 0;
		if (i % 2 && !pid)
			exit(7);
		if (i % 2 == 0)
			CHECK(!posix_spawnp(&pid, argv[0], NULL, NULL, argv, environ));
		CHECK(waitpid(pid, &status, 0) == pid);
		CHECK(WIFEXITED(status) && WEXITSTATUS(status) == (i % 2 ? 7 : 0));
	}
	atomic_store(&over, true);
	pthread_join(thread, NULL);
}

/* A handler that runs while its thread launches ends the process as any program may. */
static void on_alarm(int signal)
{
	_exit(0);
}

static void signalled(void)
{
	struct itimerval soon = {.it_value = {.tv_usec = 50000}};
	struct sigaction restart = {.sa_handler = on_alarm};

	begin();
	sigaction(SIGALRM, &restart, NULL);
	setitimer(ITIMER_REAL, &soon, NULL);
	for (;;)
		MUST(launch(20000, NULL));
}

/* Ends with work in flight, from main and from another thread. */
static void *end(void *arg)
{
	exit(0);
}

static void ended(bool thread)
{
	pthread_t other;

	begin();
	for (int i = 0; i < 5; i++)
		MUST(launch(1000, NULL));
	if (!thread)
		return;
	pthread_create(&other, NULL, end, NULL);
	for (;;)
		launch(1000, NULL); /* the driver may be gone: an error, not a crash */
}

/* Contexts go while their marks are looked for. */
static void *come_and_go(void *arg)
{
	for (int i = 0; i < 40; i++) {
		CUcontext own;

		MUST(cuCtxCreate(&own, 0, 0));
		for (int k = 0; k < 4; k++)
			MUST(launch(300, NULL));
		if (i % 2)
			MUST(cuCtxSynchronize());
		MUST(cuCtxDestroy(own));
	}
	return NULL;
}

static void contexts(void)
{
	pthread_t thread[3];

	begin();
	for (int i = 0; i < 3; i++)
		pthread_create(&thread[i], NULL, come_and_go, NULL);
	for (int i = 0; i < 3; i++)
		pthread_join(thread[i], NULL);
}

static void *launch_by_thread(void *arg)
{
	MUST(cuCtxSetCurrent(context));
	for (int i = 0; i < 100; i++)
		MUST(launch(20, CU_STREAM_PER_THREAD));
	MUST(cuStreamSynchronize(CU_STREAM_PER_THREAD));
	return NULL;
}

static void threads(void)
{
	pthread_t thread[8];

	begin();
	for (int i = 0; i < 8; i++)
		pthread_create(&thread[i], NULL, launch_by_thread, NULL);
	for (int i = 0; i < 8; i++)
		pthread_join(thread[i], NULL);
}

/* More streams than the meter has lanes. */
static void streams(void)
{
	CUstream stream[100];

	begin();
	for (int i = 0; i < 100; i++)
		MUST(cuStreamCreate(&stream[i], CU_STREAM_NON_BLOCKING));
	for (int k = 0; k < 10; k++)
		for (int i = 0; i < 100; i++)
			MUST(launch(20, stream[i]));
	MUST(cuCtxSynchronize());
	for (int i = 0; i < 100; i++)
		MUST(cuStreamDestroy(stream[i]));
}

static void wait_for_flag(void *flag)
{
	while (!atomic_load((_Atomic bool *)flag))
		pause_ms(1);
}

/* Work that waits for what the program does after launches that wait for room. */
static void crossed(void)
{
	static _Atomic bool flag;
	CUstream a, b;

	begin();
	MUST(cuStreamCreate(&a, CU_STREAM_NON_BLOCKING));
	MUST(cuStreamCreate(&b, CU_STREAM_NON_BLOCKING));
	MUST(launch(1000, a));
	MUST(cuLaunchHostFunc(a, wait_for_flag, &flag));
	for (int i = 0; i < 4; i++)
		MUST(launch(5000, a));
	for (int i = 0; i < 4; i++)
		MUST(launch(5000, b));
	atomic_store(&flag, true);
	MUST(cuCtxSynchronize());
}

static long long now_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * 1000LL + ts.tv_nsec / 1000000;
}

/* Does 100 ms of work; how long does that take? */
static void work(void)
{
	long long from = now_ms();

	for (int i = 0; i < 20; i++) {
		MUST(launch(5000, NULL));
		MUST(cuCtxSynchronize());
	}
	printf("%lld\n", now_ms() - from);
}

static void worked(void)
{
	begin();
	work();
}

/* Each is of so many blocks for the first time, and comes after a pause of the program's own. */
static void first_launches(void)
{
	uint64_t us = 3000;
	void *params[] = {&us};

	begin();
	for (unsigned int blocks = 1; blocks <= 20; blocks++) {
		MUST(cuLaunchKernel(spin, blocks, 1, 1, 1, 1, 1, 0, NULL, params, NULL));
		MUST(cuCtxSynchronize());
		pause_ms(20);
	}
}

/* 40 ms of work, a few brief launches at a time, of which hardly any is measured by itself. */
static void bursts(void)
{
	begin();
	for (int i = 0; i < 200; i++) {
		for (int k = 0; k < 10; k++)
			MUST(launch(20, NULL));
		MUST(cuCtxSynchronize());
		pause_ms(1);
	}
}

/* A function that took long once and then does not: how long is it waited for? */
static void shorter(void)
{
	long long from;

	begin();
	MUST(launch(1000000, NULL));
	MUST(cuCtxSynchronize());
	from = now_ms();
	for (int i = 0; i < 40; i++)
		MUST(launch(20, NULL));
	MUST(cuCtxSynchronize());
	printf("%lld\n", now_ms() - from);
}

/*
 * Launches until the device itself pauses: something brief is not done long after its launch
 * returned. The last one's event. A machine that is busy may pause the program, too.
 */
static CUevent until_paused(CUstream stream)
{
	CUevent done;

	MUST(cuEventCreate(&done, CU_EVENT_DEFAULT));
	for (int i = 0; i < 20000; i++) {
		long long from = now_ms();

		MUST(launch(100, stream));
		MUST(cuEventRecord(done, stream));
		while (cuEventQuery(done) == CUDA_ERROR_NOT_READY)
			if (now_ms() > from + 10)
				return done;
	}
	CHECK(!"paused by the device");
	return done;
}

/* A program goes on launching in a pause. */
static void ahead(void)
{
	CUevent done = NULL;
	bool not_yet = false;

	begin();
	for (int i = 0; i < 20 && !not_yet; i++) {
		done = until_paused(NULL);
		for (int k = 0; k < 10; k++)
			MUST(launch(100, NULL));
		not_yet = cuEventQuery(done) == CUDA_ERROR_NOT_READY;
	}
	CHECK(not_yet);
	MUST(cuEventSynchronize(done));
	MUST(cuCtxSynchronize());
}

/* What a pause of the device must not keep waiting for ever: the end of a context, or of us. */
static void gone_in_a_pause(void)
{
	CUcontext own;

	begin();
	for (int i = 0; i < 3; i++) {
		MUST(cuCtxCreate(&own, 0, 0));
		until_paused(NULL);
		MUST(cuCtxDestroy(own));
		MUST(cuCtxSetCurrent(context));
		until_paused(NULL);
	}
}

/* Its policy is destroyed before the first launch: it keeps to what it was begun with. */
static void destroyed(void)
{
	char path[4096];
	FILE *policy;

	begin();
	snprintf(path, sizeof(path), "%s/policy", getenv("ALLOT_TENANT_DIR"));
	policy = fopen(path, "r+");
	CHECK(policy);
	/* Both copies, and not the header with the gate. */
	fseek(policy, 4096, SEEK_SET);
	for (int i = 0; i < 2 * 8192; i++)
		fputc(0x5a, policy);
	fclose(policy);
	work();
}

/* Its directory is gone before it launches: who runs keeps to what it maps. */
static void removed(void)
{
	char path[4096];

	begin();
	MUST(launch(5000, NULL));
	MUST(cuCtxSynchronize());
	for (int i = 0; i < 4; i++) {
		static const char *const files[] = {"policy", "ledger", "owner", "library"};

		snprintf(path, sizeof(path), "%s/%s", getenv("ALLOT_TENANT_DIR"), files[i]);
		CHECK(!unlink(path));
	}
	CHECK(!rmdir(getenv("ALLOT_TENANT_DIR")));
	work();
}

static void *map_own(const char *name, size_t bytes)
{
	char path[4096];
	void *map;
	int fd;

	snprintf(path, sizeof(path), "%s/%s", getenv("ALLOT_TENANT_DIR"), name);
	CHECK(chmod(path, 0600) == 0);
	fd = open(path, O_RDWR);
	CHECK(fd >= 0);
	map = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	CHECK(map != MAP_FAILED);
	close(fd);
	return map;
}

/* The last arbiter looked an hour from now: before the machine was started anew. */
static void before_the_boot(void)
{
	struct policy_file *policy = map_own("policy", sizeof(*policy));
	struct ledger_file *ledger = map_own("ledger", sizeof(*ledger));
	uint64_t then = ((uint64_t)now_ms() + 3600000) * 1000000;

	policy->turn.beat_ns = ledger->device_time[0].work_until_ns = then;
	begin();
	for (int i = 0; i < 20; i++)
		MUST(launch(200, NULL));
	MUST(cuCtxSynchronize());
	/* Nor does its work last until then. */
	for (int i = 0; i < 1000 && __atomic_load_n(&ledger->device_time[0].work_until_ns,
						    __ATOMIC_RELAXED) == then; i++)
		pause_ms(5);
	CHECK(ledger->device_time[0].work_until_ns < then);
}

static uint64_t next_random(void)
{
	static uint64_t state = 88172645463325252;

	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return state;
}

/* Whatever stands in the words that processes share: how long did the longest launch take? */
static void damaged(void)
{
	struct policy_file *policy = map_own("policy", sizeof(*policy));
	struct ledger_file *ledger = map_own("ledger", sizeof(*ledger));
	uint64_t *turn = (uint64_t *)&policy->turn, *compute = (uint64_t *)&ledger->device_time[0];
	long long longest = 0;

	begin();
	for (int i = 0; i < 600; i++) {
		long long from = now_ms();
		uint64_t word = next_random();

		/* Any instant, or one within the hour; but debts are instants, too. */
		turn[next_random() % (sizeof(policy->turn) / 8)] = word;
		compute[next_random() % (sizeof(ledger->device_time[0]) / 8)] = word;
		compute[1 + next_random() % 4] = (uint64_t)from * 1000000 + word % 3600000000000;
		turn[next_random() % 2] = (uint64_t)from * 1000000 + word % 3600000000000;
		MUST(launch(200, NULL));
		if (i % 8 == 0)
			MUST(cuCtxSynchronize());
		if (now_ms() - from > longest)
			longest = now_ms() - from;
	}
	printf("%lld\n", longest);
}

/* Somebody else's use of the context ends, as libraries do, just when work is done. */
static void released(void)
{
	CUcontext same;

	begin();
	for (int i = 0; i < 40; i++) {
		MUST(launch(3000, NULL));
		MUST(cuCtxSynchronize());
		MUST(cuDevicePrimaryCtxRetain(&same, 0));
		MUST(cuDevicePrimaryCtxRelease(0));
	}
}

/* One piece of work, and the end: what most programs of a batch are. */
static void once(void)
{
	begin();
	MUST(launch(50000, NULL));
	MUST(cuCtxSynchronize());
}

/* Each context ends with its work. */
static void in_contexts(void)
{
	begin();
	for (int i = 0; i < 20; i++) {
		CUcontext own;

		MUST(cuCtxCreate(&own, 0, 0));
		MUST(launch(10000, NULL));
		MUST(cuCtxSynchronize());
		MUST(cuCtxDestroy(own));
	}
}

/* Contexts of two devices in turns; prints how many had the handle of the one before. */
static void handles(void)
{
	CUcontext own, last = NULL;
	int same = 0;

	begin();
	for (int i = 0; i < 20; i++) {
		MUST(cuCtxCreate(&own, 0, i % 2));
		same += own == last;
		last = own;
		for (int k = 0; k < 3; k++)
			MUST(launch(10, NULL));
		MUST(cuCtxSynchronize());
		MUST(cuCtxDestroy(own));
	}
	printf("%d\n", same);
}

/* As `streams`, with so little in each that none fills a mark. */
static void many_streams(void)
{
	CUstream stream[100];

	begin();
	for (int i = 0; i < 100; i++)
		MUST(cuStreamCreate(&stream[i], CU_STREAM_NON_BLOCKING));
	for (int k = 0; k < 20; k++)
		for (int i = 0; i < 100; i++) {
			MUST(launch(50, stream[i]));
			MUST(cuStreamSynchronize(stream[i]));
		}
	MUST(cuCtxSynchronize());
}

/* Streams that come and go: the driver gives the next the address of the last. */
static void renewed(void)
{
	CUstream stream;

	begin();
	for (int i = 0; i < 200; i++) {
		MUST(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
		for (int k = 0; k < 4; k++)
			MUST(launch(200, stream));
		MUST(cuStreamDestroy(stream));
	}
	MUST(cuCtxSynchronize());
}

/* Green contexts come and go while their marks are looked for. */
static void green(void)
{
	CUdevResource all, part;
	CUdevResourceDesc desc;
	unsigned int n = 1;

	begin();
	MUST(cuDeviceGetDevResource(0, &all, CU_DEV_RESOURCE_TYPE_SM));
	MUST(cuDevSmResourceSplitByCount(&part, &n, &all, NULL, 0, 8));
	MUST(cuDevResourceGenerateDesc(&desc, &part, 1));
	for (int i = 0; i < 40; i++) {
		CUgreenCtx own;
		CUcontext as_context;

		MUST(cuGreenCtxCreate(&own, desc, 0, 1));
		MUST(cuCtxFromGreenCtx(&as_context, own));
		MUST(cuCtxSetCurrent(as_context));
		MUST(launch(1000, NULL));
		if (i % 2)
			MUST(cuCtxSynchronize());
		MUST(cuGreenCtxDestroy(own));
		MUST(cuCtxSetCurrent(context));
		MUST(launch(100, NULL));
	}
	MUST(cuCtxSynchronize());
}

/* Looks at what a context took, and ends. */
static bool is_of_a_look(const char *tid)
{
	char path[300], comm[32] = "";
	FILE *f;

	snprintf(path, sizeof(path), "/proc/self/task/%s/comm", tid);
	f = fopen(path, "r");
	if (f && !fgets(comm, sizeof(comm), f))
		*comm = 0;
	if (f)
		fclose(f);
	return !strcmp(comm, "allot-look\n");
}

static int threads_now(void)
{
	DIR *dir = opendir("/proc/self/task");
	struct dirent *entry;
	int n = 0;

	while ((entry = readdir(dir)))
		n += *entry->d_name != '.' && !is_of_a_look(entry->d_name);
	closedir(dir);
	return n;
}

/* No thread can be made any more, as under a limit or a seccomp filter. */
static void no_threads(void)
{
	struct sock_filter filter[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clone, 2, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clone3, 1, 0),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EAGAIN),
	};
	struct sock_fprog program = {sizeof(filter) / sizeof(filter[0]), filter};

	CHECK(!prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0));
	CHECK(!prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program));
}

static void unkept(void)
{
	static _Atomic bool flag = true;
	int before;

	begin();
	MUST(cuLaunchHostFunc(NULL, wait_for_flag, &flag)); /* the driver has its threads now */
	MUST(cuCtxSynchronize());
	before = threads_now();
	no_threads();
	work();
	CHECK(threads_now() == before);
}

static volatile sig_atomic_t elsewhere;
static pthread_t first;

static void caught(int signal)
{
	elsewhere += !pthread_equal(pthread_self(), first);
}

/* One thread more than without a share, and no signal ever runs in it. */
static void keeper(void)
{
	sigset_t set;

	begin();
	MUST(cuCtxSynchronize());
	*(volatile char *)ballast = 1;
	first = pthread_self();
	signal(SIGUSR1, caught);
	usleep(300000); /* a thread has its name by then */
	printf("before %d\n", threads_now());
	for (int i = 0; i < 10; i++)
		MUST(launch(200, NULL));
	MUST(cuCtxSynchronize());
	printf("after %d\n", threads_now());
	/* The simulated driver's threads block signals, too: only the first can take these. */
	for (int i = 0; i < 20; i++) {
		kill(getpid(), SIGUSR1);
		MUST(launch(200, NULL));
	}
	sigemptyset(&set);
	pthread_sigmask(SIG_SETMASK, NULL, &set);
	CHECK(!sigismember(&set, SIGUSR1));
	CHECK(!elsewhere);
}

static void executed(char **argv)
{
	static char next[] = "captured";

	begin();
	for (int i = 0; i < 10; i++)
		MUST(launch(500, NULL));
	argv[1] = next;
	execv("/proc/self/exe", argv);
	exit(1);
}

int main(int argc, char **argv)
{
	const char *hazard = argc > 1 ? argv[1] : "";

	if (!strcmp(hazard, "capture"))
		capture();
	else if (!strcmp(hazard, "captured"))
		captured();
	else if (!strcmp(hazard, "forked"))
		forked();
	else if (!strcmp(hazard, "forked beside"))
		forked_beside();
	else if (!strcmp(hazard, "signalled"))
		signalled();
	else if (!strcmp(hazard, "ended"))
		ended(false);
	else if (!strcmp(hazard, "ended by a thread"))
		ended(true);
	else if (!strcmp(hazard, "contexts"))
		contexts();
	else if (!strcmp(hazard, "threads"))
		threads();
	else if (!strcmp(hazard, "streams"))
		streams();
	else if (!strcmp(hazard, "crossed"))
		crossed();
	else if (!strcmp(hazard, "shorter"))
		shorter();
	else if (!strcmp(hazard, "first launches"))
		first_launches();
	else if (!strcmp(hazard, "bursts"))
		bursts();
	else if (!strcmp(hazard, "ahead"))
		ahead();
	else if (!strcmp(hazard, "gone in a pause"))
		gone_in_a_pause();
	else if (!strcmp(hazard, "destroyed"))
		destroyed();
	else if (!strcmp(hazard, "worked"))
		worked();
	else if (!strcmp(hazard, "removed"))
		removed();
	else if (!strcmp(hazard, "unkept"))
		unkept();
	else if (!strcmp(hazard, "before the boot"))
		before_the_boot();
	else if (!strcmp(hazard, "damaged"))
		damaged();
	else if (!strcmp(hazard, "released"))
		released();
	else if (!strcmp(hazard, "once"))
		once();
	else if (!strcmp(hazard, "in contexts"))
		in_contexts();
	else if (!strcmp(hazard, "handles"))
		handles();
	else if (!strcmp(hazard, "many streams"))
		many_streams();
	else if (!strcmp(hazard, "renewed"))
		renewed();
	else if (!strcmp(hazard, "green"))
		green();
	else if (!strcmp(hazard, "keeper"))
		keeper();
	else if (!strcmp(hazard, "executed"))
		executed(argv);
	else
		return 2;
	return 0;
}
