/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sync [BLOCKS]: what a program takes that launches a kernel of no length and waits for it, in each
 * of the ways that there are. One line of JSON: for each way the ns of one launch and its wait, the
 * median of blocks. Run with and without allot in turns.
 */
#include <time.h>

#include "child.h"

#define BLOCKS_MAX 2000
#define CALLS	   50

static const char ptx[] = ".version 6.0\n.target sm_50\n.address_size 64\n"
			  ".visible .entry sim_spin(.param .u64 n)\n{\nret;\n}\n";

static CUfunction kernel;
static CUstream stream;
static CUevent event;
static CUdeviceptr word;

static void launch(void)
{
	uint64_t us = 1;
	void *params[] = {&us};

	MUST(cu.cuLaunchKernel(kernel, 1, 1, 1, 32, 1, 1, 0, stream, params, NULL));
}

static void by_stream(void)
{
	launch();
	MUST(cu.cuStreamSynchronize(stream));
}

static void by_context(void)
{
	launch();
	MUST(cu.cuCtxSynchronize());
}

static void by_event(void)
{
	launch();
	MUST(cu.cuEventRecord(event, stream));
	MUST(cu.cuEventSynchronize(event));
}

static void by_copy(void)
{
	uint32_t got;

	launch();
	MUST(cu.cuMemcpyDtoHAsync_v2(&got, word, sizeof(got), stream));
	MUST(cu.cuStreamSynchronize(stream));
}

static const struct way {
	const char *name;
	void (*once)(void);
} ways[] = {
	{"stream", by_stream},
	{"context", by_context},
	{"event", by_event},
	{"copy", by_copy},
};
#define WAYS (sizeof(ways) / sizeof(ways[0]))

static double now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static int compare(const void *left, const void *right)
{
	const double *a = left, *b = right;

	return *a < *b ? -1 : *a > *b;
}

static double block(const struct way *way)
{
	double began = now_ns();

	for (int i = 0; i < CALLS; i++)
		way->once();
	return (now_ns() - began) / CALLS;
}

int main(int argc, char **argv)
{
	static double ns[WAYS][BLOCKS_MAX];
	int blocks = argc > 1 ? atoi(argv[1]) : 200;
	CUmodule module;
	CUdevice device;

	child_begin(120);
	if (blocks < 1 || blocks > BLOCKS_MAX)
		return 2;
	MUST(cu.cuInit(0));
	MUST(cu.cuDeviceGet(&device, 0));
	child_context(device);
	MUST(cu.cuModuleLoadData(&module, ptx));
	MUST(cu.cuModuleGetFunction(&kernel, module, "sim_spin"));
	MUST(cu.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	MUST(cu.cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
	MUST(cu.cuMemAlloc_v2(&word, MIB));
	for (int b = -5; b < blocks; b++) /* the first few warm up */
		for (size_t i = 0; i < WAYS; i++) {
			double took = block(&ways[i]);

			if (b >= 0)
				ns[i][b] = took;
		}
	printf("{\"stage\": \"sync\"");
	for (size_t i = 0; i < WAYS; i++) {
		qsort(ns[i], (size_t)blocks, sizeof(ns[i][0]), compare);
		printf(", \"%s\": %.1f", ways[i].name, ns[i][blocks / 2]);
	}
	puts("}");
	return 0;
}
