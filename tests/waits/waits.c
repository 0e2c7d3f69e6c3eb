/* SPDX-License-Identifier: Apache-2.0 */
/*
 * waits WORD [ARGUMENT...] | --list: runs one word. What each does stands at the top of the file
 * that has it: waits_behind.c, waits_billed.c, waits_meet.c, waits_capture.c. A word
 *
 *	warms up, and prints {"ready": true, "pids": [...]};
 *	waits for a line on stdin, and does its work;
 *	prints {"done_ms": ..., ...}, or {"unsupported": true};
 *	waits for the end of stdin, so that its figures can be read.
 *
 * A call of the driver that fails ends the program with what failed and where.
 */
#include "tests/waits/waits.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/now.h"
#include "base/word.h"

#define WARM_LAUNCHES 20

struct guest guest;

static double started_ms;

double guest_now_ms(void)
{
	return (double)now_monotonic_ns() / (double)NS_PER_MS;
}

void guest_nap(uint64_t us)
{
	const struct timespec time = {
		.tv_sec = (time_t)(us / 1000000),
		.tv_nsec = (long)(us % 1000000 * NS_PER_US),
	};

	nanosleep(&time, NULL);
}

CUfunction guest_function(const char *name)
{
	CUfunction function;
	CUmodule module;

	MUST(cuModuleLoadData(&module, "allot-sim-module\n"));
	MUST(cuModuleGetFunction(&function, module, name));
	return function;
}

CUstream guest_stream(void)
{
	CUstream stream;

	MUST(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	return stream;
}

CUevent guest_event(void)
{
	CUevent event;

	MUST(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
	return event;
}

void guest_begin(int device)
{
	void *words;

	MUST(cuInit(0));
	MUST(cuDevicePrimaryCtxRetain(&guest.context, device));
	MUST(cuCtxSetCurrent(guest.context));
	guest.spin = guest_function("sim_spin");
	guest.meet = guest_function("sim_meet");
	guest.a = guest_stream();
	guest.b = guest_stream();
	guest.c = guest_stream();
	MUST(cuMemHostAlloc(&words, WORDS * sizeof(*guest.word), CU_MEMHOSTALLOC_DEVICEMAP));
	memset(words, 0, WORDS * sizeof(*guest.word));
	guest.word = words;
	MUST(cuMemHostGetDevicePointer_v2(&guest.word_at, words, 0));
}

void guest_share(uint64_t *page)
{
	guest.word = page;
	MUST(cuMemHostRegister_v2(page, WORDS * sizeof(*page), HOST_REGISTER_MAPPED));
	MUST(cuMemHostGetDevicePointer_v2(&guest.word_at, page, 0));
}

void guest_warm(void)
{
	for (int i = 0; i < WARM_LAUNCHES; i++) {
		guest_spin(guest.a, BRIEF_US);
		guest_spin(guest.b, BRIEF_US);
	}
	guest_sync_all();
}

void guest_ready(void)
{
	printf("{\"ready\": true, \"pids\": [%d", getpid());
	for (int i = 0; guest.pid[i]; i++)
		printf(", %d", guest.pid[i]);
	puts("]}");
	if (getchar() == EOF)
		exit(1);
}

void guest_start(void)
{
	started_ms = guest_now_ms();
}

void guest_go(void)
{
	guest_ready();
	guest_start();
}

void guest_idle(void)
{
	char c;

	while (read(STDIN_FILENO, &c, 1) > 0)
		;
}

void guest_done(const char *format, ...)
{
	double ms = guest_now_ms() - started_ms;
	char more[256] = "";
	va_list args;

	va_start(args, format);
	if (format)
		vsnprintf(more, sizeof(more), format, args);
	va_end(args);
	printf("{\"done_ms\": %.3f%s%s}\n", ms, *more ? ", " : "", more);
	guest_idle();
}

void guest_launch(CUfunction function, CUstream stream, uint64_t us)
{
	void *params[] = {&us};

	MUST(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, stream, params, NULL));
}

void guest_spin(CUstream stream, uint64_t us)
{
	guest_launch(guest.spin, stream, us);
}

void guest_meet(CUstream stream, uint64_t ranks)
{
	uint64_t count = guest.word_at + WORD_MET * sizeof(*guest.word);
	void *params[] = {&count, &ranks};

	MUST(cuLaunchKernel(guest.meet, 1, 1, 1, 1, 1, 1, 0, stream, params, NULL));
}

void guest_await_word(CUstream stream, unsigned int i, uint64_t value)
{
	MUST(cuStreamWaitValue64_v2(stream, guest.word_at + i * sizeof(*guest.word), value,
				    CU_STREAM_WAIT_VALUE_GEQ));
}

void guest_write_word(CUstream stream, unsigned int i, uint64_t value)
{
	MUST(cuStreamWriteValue64_v2(stream, guest.word_at + i * sizeof(*guest.word), value, 0));
}

void guest_await(CUstream stream, uint64_t n)
{
	guest_await_word(stream, WORD_GATE, n);
}

void guest_open(void)
{
	word_publish_add(&guest.word[WORD_GATE], 1);
}

void guest_thread(void *(*run)(void *arg), void *arg)
{
	pthread_t thread;

	if (pthread_create(&thread, NULL, run, arg))
		abort();
	pthread_detach(thread);
}

static void *open_later(void *arg)
{
	guest_nap(UINT64_C(1000) * ROUND_MS);
	guest_open();
	return NULL;
}

void guest_open_later(void)
{
	guest_thread(open_later, NULL);
}

void guest_await_host(unsigned int i, uint64_t value)
{
	while (word_check(&guest.word[i]) < value)
		guest_nap(50);
}

void guest_sync(CUstream stream)
{
	MUST(cuStreamSynchronize(stream));
}

void guest_sync_all(void)
{
	MUST(cuCtxSynchronize());
}

CUgraphExec guest_instantiate(void)
{
	CUgraphExec exec;
	CUgraph graph;

	MUST(cuStreamEndCapture(guest.c, &graph));
	MUST(cuGraphInstantiateWithFlags(&exec, graph, 0));
	return exec;
}

static const struct {
	const char *name;
	void (*run)(char **args);
} words[] = {
	{"behind", behind_word},
	{"evbehind", behind_event},
	{"hostbehind", behind_host},
	{"graphhold", behind_graph},
	{"beside", behind_beside},
	{"fullring", behind_ring},
	{"watched", behind_watched},
	{"fan", behind_fan},
	{"blocked", behind_blocked},
	{"mutex", behind_mutex},
	{"cbthread", behind_thread},
	{"busy", behind_busy},
	{"graphnap", billed_graph_nap},
	{"graphends", billed_graph_ends},
	{"graphevent", billed_graph_event},
	{"graphupdate", billed_graph_update},
	{"graphowned", billed_graph_owned},
	{"legacy", billed_legacy},
	{"legacy2", billed_behind_legacy},
	{"otherctx", billed_other_context},
	{"many", billed_many},
	{"coldwait", billed_cold_wait},
	{"coldstream", billed_cold_stream},
	{"coldfunction", billed_cold_function},
	{"coldboth", billed_cold_both},
	{"batch", billed_batch},
	{"semaphore", billed_semaphore},
	{"ptds", billed_per_thread},
	{"copywait", billed_copy},
	{"setwait", billed_set},
	{"pool", billed_pool},
	{"coop", billed_cooperative},
	{"pair", meet_pair},
	{"pairthreads", meet_threads},
	{"flight", meet_in_flight},
	{"flag", meet_flag},
	{"words", meet_words},
	{"devices", meet_devices},
	{"contexts", meet_contexts},
	{"procs", meet_processes},
	{"procdevs", meet_processes_devices},
	{"rank", meet_tenants},
	{"capwait", capture_wait},
	{"capfork", capture_fork},
};

int main(int argc, char **argv)
{
	setlinebuf(stdout);
	dup2(STDOUT_FILENO, STDERR_FILENO); /* what fails is read with the rest */
	for (size_t i = 0; argc > 1 && i < sizeof(words) / sizeof(*words); i++) {
		if (!strcmp(argv[1], "--list")) {
			puts(words[i].name);
		} else if (!strcmp(argv[1], words[i].name)) {
			words[i].run(argv + 2);
			return 0;
		}
	}
	return argc == 2 && !strcmp(argv[1], "--list") ? 0 : 2;
}
