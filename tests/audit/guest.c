/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/audit/guest.h"

#include <math.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/now.h"

#define POLL_US 20

const char *const guest_wait_names[WAITS] = {
	[WAIT_STREAM] = "stream",	    [WAIT_CONTEXT] = "context",
	[WAIT_EVENT] = "event",		    [WAIT_EVENT_QUERY] = "event query",
	[WAIT_STREAM_QUERY] = "stream query", [WAIT_COPY] = "copy",
	[WAIT_MEMORY] = "memory",	    [WAIT_KERNEL] = "a kernel's memory",
};

uint64_t guest_now_ns(void)
{
	return now_monotonic_ns();
}

void guest_host(uint64_t us)
{
	const struct timespec wait = {
		.tv_sec = (time_t)(us / 1000000),
		.tv_nsec = (long)(us % 1000000) * 1000,
	};

	if (us)
		nanosleep(&wait, NULL);
}

static CUfunction named_function(const char *name)
{
	CUfunction function;
	CUmodule module;

	MUST(cuModuleLoadData(&module, "allot-sim-module\n"));
	MUST(cuModuleGetFunction(&function, module, name));
	return function;
}

CUfunction guest_function(void)
{
	return named_function("sim_spin");
}

void guest_init(struct guest *guest, int device)
{
	void *words;

	*guest = (struct guest){.device = device};
	MUST(cuCtxCreate_v2(&guest->ctx, 0, device));
	for (int i = 0; i < GUEST_FUNCTIONS; i++)
		guest->function[i] = guest_function();
	guest->fill = named_function("sim_fill");
	guest->meet = named_function("sim_meet");
	for (int i = 0; i < GUEST_STREAMS; i++) {
		MUST(cuStreamCreate(&guest->stream[i], CU_STREAM_NON_BLOCKING));
		MUST(cuEventCreate(&guest->event[i], CU_EVENT_DISABLE_TIMING));
	}
	MUST(cuMemAlloc_v2(&guest->a, GUEST_COPY_BYTES));
	MUST(cuMemAlloc_v2(&guest->b, GUEST_COPY_BYTES));
	MUST(cuMemHostAlloc(&words, 4096, 0));
	memset(words, 0, 4096);
	guest->word = words;
	guest->gate = guest->word + 64;
	guest->met = (uint64_t *)words + 64;
}

/* splitmix64 */
static uint64_t next(struct guest *guest)
{
	uint64_t z = guest->random += UINT64_C(0x9e3779b97f4a7c15);

	z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
	return z ^ z >> 31;
}

void guest_begin(struct guest *guest, uint64_t seed, uint64_t until_ns)
{
	guest->random = seed;
	next(guest);
	guest->until_ns = until_ns;
	guest->bursts = guest->open = guest->open_streams = guest->longest_us = 0;
	guest->detail[0] = '\0';
}

bool guest_over(const struct guest *guest)
{
	return now_monotonic_ns() >= guest->until_ns;
}

void guest_say(struct guest *guest, const char *format, ...)
{
	size_t at = strlen(guest->detail);
	va_list args;

	va_start(args, format);
	vsnprintf(guest->detail + at, sizeof(guest->detail) - at, format, args);
	va_end(args);
}

uint64_t guest_draw(struct guest *guest, uint64_t least, uint64_t most)
{
	return least + next(guest) % (most - least + 1);
}

uint64_t guest_log(struct guest *guest, uint64_t least, uint64_t most)
{
	double from = log((double)least), to = log((double)most + 1);
	double part = (double)(next(guest) >> 11) / (double)(UINT64_C(1) << 53);
	uint64_t n = (uint64_t)exp(from + part * (to - from));

	return n < least ? least : n > most ? most : n;
}

bool guest_coin(struct guest *guest)
{
	return next(guest) & 1;
}

enum guest_wait guest_draw_wait(struct guest *guest)
{
	return (enum guest_wait)guest_draw(guest, 0, WAITS - 1);
}

static void longest(struct guest *guest, uint64_t us)
{
	if (guest->longest_us < us)
		guest->longest_us = us;
}

void guest_launch(struct guest *guest, CUfunction function, unsigned int grid, CUstream stream,
		  uint64_t us)
{
	longest(guest, us);
	MUST(cuLaunchKernel(function, grid, 1, 1, 1, 1, 1, 0, stream, (void *[]){&us}, NULL));
}

void guest_meet_anew(struct guest *guest)
{
	*guest->met = 0;
}

void guest_meet(struct guest *guest, CUstream stream, uint64_t streams, uint64_t us)
{
	CUdeviceptr met = (CUdeviceptr)(uintptr_t)guest->met;

	longest(guest, us);
	MUST(cuLaunchKernel(guest->meet, 1, 1, 1, 1, 1, 1, 0, stream, (void *[]){&met, &streams},
			    NULL));
}

CUgraphExec guest_graph(struct guest *guest, unsigned int n, uint64_t us)
{
	CUgraphExec exec;
	CUgraph graph;

	MUST(cuStreamBeginCapture_v2(guest->stream[0], CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
	for (unsigned int i = 0; i < n; i++)
		guest_launch(guest, guest->function[i % GUEST_FUNCTIONS], i + 1, guest->stream[0],
			     us * (i + 1) / n - us * i / n);
	MUST(cuStreamEndCapture(guest->stream[0], &graph));
	MUST(cuGraphInstantiateWithFlags(&exec, graph, 0));
	MUST(cuGraphDestroy(graph));
	return exec;
}

void guest_launch_graph(struct guest *guest, CUgraphExec graph, CUstream stream, uint64_t us)
{
	longest(guest, us);
	MUST(cuGraphLaunch(graph, stream));
}

/* No call of the driver's tells the program that this work is done. */
static void poll_memory(struct guest *guest, CUstream stream)
{
	_Atomic uint32_t *word = (_Atomic uint32_t *)guest->word;

	MUST(cuStreamWriteValue32_v2(stream, (CUdeviceptr)(uintptr_t)guest->word,
				     ++guest->written, 0));
	while (atomic_load(word) != guest->written)
		guest_host(POLL_US);
}

static void poll_kernel(struct guest *guest, CUstream stream)
{
	_Atomic uint32_t *word = (_Atomic uint32_t *)guest->word + 32;
	uint32_t before = atomic_load(word), seed = ++guest->written;
	CUdeviceptr ptr = (CUdeviceptr)(uintptr_t)word;
	uint64_t words = 1;

	MUST(cuLaunchKernel(guest->fill, 1, 1, 1, 1, 1, 1, 0, stream,
			    (void *[]){&ptr, &words, &seed}, NULL));
	while (atomic_load(word) == before)
		guest_host(POLL_US);
}

static void poll_event(struct guest *guest, CUstream stream)
{
	CUresult said;

	MUST(cuEventRecord(guest->event[0], stream));
	while ((said = cuEventQuery(guest->event[0])) == CUDA_ERROR_NOT_READY)
		guest_host(POLL_US);
	MUST(said);
}

static void poll_stream(CUstream stream)
{
	CUresult said;

	while ((said = cuStreamQuery(stream)) == CUDA_ERROR_NOT_READY)
		guest_host(POLL_US);
	MUST(said);
}

static void wait_event(struct guest *guest, CUstream stream)
{
	MUST(cuEventRecord(guest->event[0], stream));
	MUST(cuEventSynchronize(guest->event[0]));
}

static void wait_copy(struct guest *guest, CUstream stream)
{
	uint32_t said[16];

	/* To pageable memory: the call returns when the copy is done. */
	MUST(cuMemcpyDtoHAsync_v2(said, guest->a, sizeof(said), stream));
}

void guest_wait(struct guest *guest, enum guest_wait how, CUstream stream, unsigned int others)
{
	bool open = others;

	switch (how) {
	case WAIT_CONTEXT:
		MUST(cuCtxSynchronize());
		open = false;
		break;
	case WAIT_EVENT:
		wait_event(guest, stream);
		break;
	case WAIT_EVENT_QUERY:
		poll_event(guest, stream);
		break;
	case WAIT_STREAM_QUERY:
		poll_stream(stream);
		break;
	case WAIT_COPY:
		wait_copy(guest, stream);
		break;
	case WAIT_MEMORY:
		poll_memory(guest, stream);
		open = true;
		break;
	case WAIT_KERNEL:
		poll_kernel(guest, stream);
		open = true;
		break;
	default:
		MUST(cuStreamSynchronize(stream));
		break;
	}
	guest->bursts++;
	guest->open += open;
	guest->open_streams += open ? 1 + others : 0;
}
