/* SPDX-License-Identifier: Apache-2.0 */
/*
 * quota_guest NAME: runs a scenario. quota_guest --list: the table as JSON, a line for each.
 *
 * The program prints "quiet" where its account must be right, and waits for a line.
 */
#include "tests/quota/quota_guest.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define EAGER	"CUDA_MODULE_LOADING=EAGER"
#define LATE	"ALLOT_SIM_FIGURE_LATE_US=300000"
#define THREADS 16

/*
 * A handle's descriptor is the driver's in these modes. In the others it is allot's: no other API
 * takes it, and it is good while the exporter has the memory (allot-suspend(1)).
 */
#define DRIVERS (MODE_PLAIN | MODE_DRIVER)
#define OWN	(MODE_SWAPPABLE | MODE_OVERCOMMIT)
/* With the driver's figure alone a pool counts for its exporter and for what others may keep. */
#define LEDGERS (MODE_PLAIN | MODE_SWAPPABLE | MODE_OVERCOMMIT)

static const struct scenario scenarios[] = {
	/* Limits of contexts. */
	{"heap-lowered-64", contexts_heap_lowered, 64, 2560, 520, NULL, 0},
	{"heap-lowered-256", contexts_heap_lowered, 256, 2560, 520, NULL, 0},
	{"heap-lowered-500", contexts_heap_lowered, 500, 2560, 520, NULL, 0},
	{"heap-kept", contexts_heap_kept, 500, 2560, 520, NULL, 0},
	{"heap-used-late", contexts_heap_used_late, 500, 2560, 520, NULL, 0},
	{"heap-used-first", contexts_heap_used_first, 500, 2560, 520, NULL, 0},
	{"fifo-used-late", contexts_fifo_used_late, 200, 2560, 520, NULL, 0},
	{"stack-lowered-2048", contexts_stack_lowered, 2048, 2560, 520, NULL, 0},
	{"stack-lowered-4096", contexts_stack_lowered, 4096, 2560, 520, NULL, 0},
	{"limits-of-ended-context", contexts_limits_gone, 500, 2560, 520, NULL, 0},
	{"limits-of-other-process", contexts_limits_elsewhere, 500, 2560, 520, NULL, 0},

	/* Code, and first contexts. */
	{"modules-eager", contexts_modules, 4, 2560, 800, EAGER, 0},
	{"libraries-eager", contexts_libraries, 4, 2560, 800, EAGER, 0},
	{"library-elsewhere", contexts_library_elsewhere, 200, 2560, 520, EAGER, 0},
	{"library-used-elsewhere", contexts_library_used, 200, 2560, 520, NULL, 0},
	{"library-before-context", contexts_library_first, 200, 2560, 520, EAGER, 0},
	{"first-contexts-520", contexts_first, 6, 2560, 520, NULL, 0},
	{"first-contexts-800", contexts_first, 6, 2560, 800, NULL, 0},
	{"first-contexts-two-fit", contexts_first, 3, 1300, 520, NULL, 0},
	{"first-contexts-three-fit", contexts_first, 3, 1600, 520, NULL, 0},
	{"retain-600", contexts_retain, 8, 600, 520, NULL, 0},
	{"retain-800", contexts_retain, 8, 800, 520, NULL, 0},
	{"retain-1024", contexts_retain, 8, 1024, 520, NULL, 0},
	{"retain-churn", contexts_churn, 8, 600, 520, NULL, 0},
	{"first-context-guessed", contexts_guessed, 4, 9100, 900, NULL, 0},
	{"context-guessed-elsewhere", contexts_guessed_elsewhere, 8900, 9100, 8, NULL, 0},
	{"late-figure", contexts_late_figure, 400, 2560, 520, LATE, 0},

	/* Green contexts. */
	{"green-fill-16", green_fill, 16, 2560, 520, NULL, 0},
	{"green-fill-2", green_fill, 2, 2560, 520, NULL, 0},
	{"green-first", green_first, 0, 2560, 520, NULL, 0},
	{"green-first-when-full", green_first, 1, 2560, 520, NULL, 0},
	{"green-near-limit", green_near_limit, 40, 2560, 520, NULL, 0},
	{"green-last", green_last, 0, 2560, 520, NULL, 0},
	{"green-last-again", green_last, 1, 2560, 520, NULL, 0},
	{"green-last-beside-context", green_last_beside_context, 300, 2560, 520, NULL, 0},
	{"green-memory", green_memory, 3, 2560, 520, NULL, 0},
	{"green-threads", green_threads, 8, 2560, 520, NULL, 0},

	/* Streams, pools, arrays, managed memory. */
	{"pool-gone", streams_pool_gone, 340, 2560, 520, NULL, 0},
	{"linear-late", streams_linear_late, 340, 2560, 520, NULL, 0},
	{"linear-late-two", streams_linear_late_two, 340, 2560, 520, NULL, 0},
	{"stream-of-other-context", streams_other_context, 0, 2560, 520, NULL, 0},
	{"stream-destroyed", streams_other_context, 1, 2560, 520, NULL, 0},
	{"stream-context-destroyed", streams_other_context, 2, 2560, 520, NULL, 0},
	{"pools-churn", streams_pools_churn, 2000, 2560, 520, NULL, 0},
	{"arrays-churn", streams_arrays_churn, 2000, 2560, 520, NULL, 0},
	{"managed", streams_managed, 100, 2560, 520, NULL, 0},
	{"cancelled", streams_cancelled, 8192, 2560, 520, NULL, 0},

	/* Memory that two processes hold. */
	{"descriptor-on-way-63", sharing_descriptor_on_way, 63, 3200, 520, NULL, DRIVERS},
	{"descriptor-on-way-200", sharing_descriptor_on_way, 200, 3200, 520, NULL, DRIVERS},
	{"descriptor-too-late-63", sharing_descriptor_too_late, 63, 2560, 520, NULL, OWN},
	{"descriptor-too-late-200", sharing_descriptor_too_late, 200, 2560, 520, NULL, OWN},
	{"released-by-exporter", sharing_released, 600, 2560, 520, NULL, 0},
	{"released-while-locked", sharing_locked, 600, 2560, 520, NULL, 0},
	{"pools-let-go", sharing_many_pools, 32, 2560, 520, NULL, LEDGERS},
	{"pool-destroyed", sharing_pool, 0, 2560, 520, NULL, 0},
	{"pool-exporter-killed", sharing_pool, 1, 2560, 520, NULL, 0},
	{"pool-trimmed", sharing_pool, 2, 2560, 520, NULL, 0},
	{"pool-left-at-once", sharing_pool_left, 0, 2560, 520, NULL, 0},
	{"pool-left-late", sharing_pool_left, 700, 2560, 520, NULL, 0},
	{"ipc-exporter-ended", sharing_ipc_exporter_gone, 0, 2560, 520, NULL, 0},
	{"ipc-exporter-killed", sharing_ipc_exporter_gone, 1, 2560, 520, NULL, 0},
	{"ipc-inside", sharing_ipc_inside, 300, 2560, 520, NULL, 0},
	{"ipc-small", sharing_ipc_inside, 0, 2560, 520, NULL, 0},
	{"ipc-address-again", sharing_ipc_again, 300, 2560, 520, NULL, 0},
	{"ipc-code-of-its-size", sharing_ipc_code, 300, 2560, 520, NULL, 0},
	{"ipc-contexts", sharing_ipc_contexts, 200, 2560, 520, NULL, 0},
	{"ipc-two-importers", sharing_ipc_two_importers, 200, 2560, 520, NULL, 0},
	{"external-part", sharing_external_part, 600, 2560, 520, NULL, DRIVERS},
	{"external-mapped", sharing_external_mapped, 600, 2560, 520, NULL, DRIVERS},
	{"external-mapped-while-locked", sharing_external_locked, 600, 2560, 520, NULL, DRIVERS},
};

const struct scenario *guest_scenario;
static _Atomic int complaints;

void guest_complain(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vfprintf(stderr, format, args);
	va_end(args);
	fputc('\n', stderr);
	complaints++;
}

void guest_say(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vprintf(format, args);
	va_end(args);
	putchar('\n');
	fflush(stdout);
}

void guest_quiet(void)
{
	char c;

	guest_say("quiet");
	while (read(STDIN_FILENO, &c, 1) == 1 && c != '\n')
		;
}

void guest_sleep_ms(long ms)
{
	nanosleep(&(struct timespec){ms / 1000, ms % 1000 * 1000000}, NULL);
}

static void CUDA_CB guest_sleep_in_stream(void *ms)
{
	guest_sleep_ms((long)(intptr_t)ms);
}

void guest_busy_ms(CUstream stream, long ms)
{
	MUST(cuLaunchHostFunc(stream, guest_sleep_in_stream, (void *)(intptr_t)ms));
}

long guest_now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

CUcontext guest_begin_on(CUdevice device)
{
	CUcontext primary;

	MUST(cuInit(0));
	MUST(cuDevicePrimaryCtxRetain(&primary, device));
	MUST(cuCtxSetCurrent(primary));
	return primary;
}

CUcontext guest_begin(void)
{
	return guest_begin_on(0);
}

void guest_fill(unsigned int step_mib, unsigned int least_mib)
{
	unsigned int had_mib = 0;
	CUdeviceptr at;
	CUresult e;

	while (!(e = cuMemAlloc_v2(&at, step_mib * MIB)))
		had_mib += step_mib;
	guest_say("filled %u MiB, then error %d", had_mib, e);
	if (had_mib < least_mib)
		guest_complain("refused after %u MiB, %u MiB are free", had_mib, least_mib);
}

void guest_make_contexts(int least)
{
	CUcontext context;
	CUdevice device;
	CUresult e;
	int n;

	MUST(cuCtxGetDevice(&device));
	for (n = 0; !(e = cuCtxCreate_v2(&context, 0, device)); n++)
		MUST(cuCtxPopCurrent_v2(&context));
	guest_say("%d contexts, then error %d", n, e);
	if (n < least)
		guest_complain("context refused after %d, %d fit", n, least);
}

CUresult guest_try_load(uint64_t bytes, const char *words, CUfunction *ret_function)
{
	char image[64];
	CUmodule module;
	CUresult e;

	snprintf(image, sizeof(image), "allot-sim-module bytes=%llu %s\n",
		 (unsigned long long)bytes, words);
	e = cuModuleLoadData(&module, image);
	return e ? e : cuModuleGetFunction(ret_function, module, "any");
}

CUfunction guest_load(uint64_t bytes, const char *words)
{
	CUfunction function;

	MUST(guest_try_load(bytes, words, &function));
	return function;
}

struct crowd {
	pthread_barrier_t begin;
	int (*run)(void *arg);
	void *arg;
	_Atomic int sum;
};

static void *guest_thread(void *arg)
{
	struct crowd *crowd = arg;

	pthread_barrier_wait(&crowd->begin);
	crowd->sum += crowd->run(crowd->arg);
	return NULL;
}

int guest_threads(int n, int (*run)(void *arg), void *arg)
{
	struct crowd crowd = {.run = run, .arg = arg};
	pthread_t thread[THREADS];

	pthread_barrier_init(&crowd.begin, NULL, (unsigned int)n);
	for (int i = 0; i < n; i++)
		if (pthread_create(&thread[i], NULL, guest_thread, &crowd))
			abort();
	for (int i = 0; i < n; i++)
		pthread_join(thread[i], NULL);
	pthread_barrier_destroy(&crowd.begin);
	return crowd.sum;
}

struct peer peer_fork(void (*run)(struct peer *parent, int n), int n)
{
	struct peer parent = {0}, child;
	int pair[2];

	if (socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair))
		abort();
	child = (struct peer){.socket = pair[0], .pid = fork()};
	if (child.pid < 0)
		abort();
	if (child.pid) {
		close(pair[1]);
		return child;
	}
	close(pair[0]);
	parent.socket = pair[1];
	run(&parent, n);
	exit(complaints ? 1 : 0);
}

void peer_send(const struct peer *peer, const void *data, size_t bytes, int fd)
{
	union {
		struct cmsghdr header;
		char room[CMSG_SPACE(sizeof(int))];
	} control = {0};
	struct iovec part = {(void *)data, bytes};
	struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};

	if (fd >= 0) {
		message.msg_control = &control;
		message.msg_controllen = sizeof(control);
		control.header = (struct cmsghdr){.cmsg_len = CMSG_LEN(sizeof(int)),
						  .cmsg_level = SOL_SOCKET,
						  .cmsg_type = SCM_RIGHTS};
		memcpy(CMSG_DATA(&control.header), &fd, sizeof(fd));
	}
	if (sendmsg(peer->socket, &message, MSG_NOSIGNAL) < 0) {
		guest_complain("the other process takes no message");
		exit(1);
	}
}

int peer_receive(const struct peer *peer, void *data, size_t bytes)
{
	union {
		struct cmsghdr header;
		char room[CMSG_SPACE(sizeof(int))];
	} control;
	struct iovec part = {data, bytes};
	struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = &control,
				 .msg_controllen = sizeof(control)};
	int fd = -1;

	if (recvmsg(peer->socket, &message, 0) <= 0) {
		guest_complain("the other process sent no message");
		exit(1);
	}
	if (CMSG_FIRSTHDR(&message))
		memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof(fd));
	return fd;
}

void peer_tell(const struct peer *peer)
{
	peer_send(peer, "", 1, -1);
}

void peer_await(const struct peer *peer)
{
	char c;

	peer_receive(peer, &c, 1);
}

void peer_end(const struct peer *peer)
{
	int status;

	if (waitpid(peer->pid, &status, 0) != peer->pid || status)
		guest_complain("the other process failed");
}

void peer_reap(const struct peer *peer)
{
	if (waitpid(peer->pid, NULL, 0) != peer->pid)
		guest_complain("the other process is not there");
}

static void guest_list(void)
{
	static const char *const names[] = {"plain", "swappable", "overcommit", "driver"};

	for (size_t i = 0; i < sizeof(scenarios) / sizeof(*scenarios); i++) {
		const struct scenario *s = &scenarios[i];
		enum mode modes = s->modes ? s->modes : MODE_ALL;
		const char *comma = "";

		printf("{\"name\": \"%s\", \"quota_mib\": %d, \"context_mib\": %d, "
		       "\"environment\": \"%s\", \"modes\": [",
		       s->name, s->quota_mib, s->context_mib,
		       s->environment ? s->environment : "");
		for (int mode = 0; mode < 4; mode++) {
			if (!(modes >> mode & 1))
				continue;
			printf("%s\"%s\"", comma, names[mode]);
			comma = ", ";
		}
		puts("]}");
	}
}

int main(int argc, char **argv)
{
	if (argc == 2 && !strcmp(argv[1], "--list")) {
		guest_list();
		return 0;
	}
	for (size_t i = 0; argc == 2 && i < sizeof(scenarios) / sizeof(*scenarios); i++)
		if (!strcmp(argv[1], scenarios[i].name)) {
			guest_scenario = &scenarios[i];
			guest_scenario->run(guest_scenario->n);
			return complaints ? 1 : 0;
		}
	fprintf(stderr, "usage: quota_guest NAME | --list\n");
	return 2;
}
