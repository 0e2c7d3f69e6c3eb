/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hooks [BATCHES]: nanoseconds a call for what programs call most, as medians over batches, one
 * line of JSON. Run against the driver that does nothing (bench/null), bare and with liballot
 * preloaded, the difference is the hooks' own cost: see bench/run-hooks. Against the driver that
 * counts (bench/counting) it says how many calls into the driver each of them makes.
 */
#include <dlfcn.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "nvidia/cuda_api.h"

#define BATCHES_MAX 10000
#define cu	    cuda_real

static double now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static void launch(void)
{
	cu.cuLaunchKernel((CUfunction)(uintptr_t)64, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL);
}

static void alloc_free(size_t bytes)
{
	CUdeviceptr ptr = 0;

	cu.cuMemAlloc_v2(&ptr, bytes);
	cu.cuMemFree_v2(ptr);
}

static void alloc_free_large(void)
{
	alloc_free((size_t)64 << 20);
}

static void alloc_free_small(void)
{
	alloc_free(4096);
}

static void alloc_free_async(void)
{
	CUdeviceptr ptr = 0;

	cu.cuMemAllocAsync(&ptr, 1 << 20, NULL);
	cu.cuMemFreeAsync(ptr, NULL);
}

static void mem_get_info(void)
{
	size_t free_bytes, total;

	cu.cuMemGetInfo_v2(&free_bytes, &total);
}

static const struct item {
	const char *name;
	void (*call)(void);
	int calls; /* in a batch */
} items[] = {
	{"launch", launch, 4000},
	{"alloc_free", alloc_free_large, 1000},
	{"alloc_free_small", alloc_free_small, 1000},
	{"alloc_free_async", alloc_free_async, 1000},
	{"mem_get_info", mem_get_info, 10},
};
#define ITEMS (sizeof(items) / sizeof(items[0]))

static int ascending(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* A thousand in a row, so that what comes once in a while does not decide. */
static int print_counts(uint64_t (*calls)(void))
{
	for (size_t i = 0; i < ITEMS; i++) {
		uint64_t before;

		items[i].call();
		before = calls();
		for (int c = 0; c < 1000; c++)
			items[i].call();
		printf("%s\"%s\": %.2f", i ? ", " : "{", items[i].name,
		       (double)(calls() - before) / 1000);
	}
	printf("}\n");
	return 0;
}

int main(int argc, char **argv)
{
	static double ns[ITEMS][BATCHES_MAX];
	int batches = argc > 1 ? atoi(argv[1]) : 500;
	void *driver = dlopen("libcuda.so.1", RTLD_NOW);
	uint64_t (*calls)(void);
	CUcontext context;
	cpu_set_t cpu;

	if (!driver || batches < 1 || batches > BATCHES_MAX)
		return 1;
	/* Where it happens to run, it stays. */
	CPU_ZERO(&cpu);
	CPU_SET(sched_getcpu(), &cpu);
	sched_setaffinity(0, sizeof(cpu), &cpu);
	cuda_driver_bind(driver, dlsym);
	if (cu.cuInit(0) || cu.cuDevicePrimaryCtxRetain(&context, 0) || cu.cuCtxSetCurrent(context))
		return 1;
	*(void **)&calls = dlsym(driver, "null_calls");
	if (calls)
		return print_counts(calls);
	/* Interleaved, so that a slow moment of the machine meets all of them. */
	for (int b = 0; b < batches; b++) {
		for (size_t i = 0; i < ITEMS; i++) {
			double began = now_ns();

			for (int c = 0; c < items[i].calls; c++)
				items[i].call();
			ns[i][b] = (now_ns() - began) / items[i].calls;
		}
	}
	for (size_t i = 0; i < ITEMS; i++) {
		qsort(ns[i], (size_t)batches, sizeof(double), ascending);
		printf("%s\"%s\": %.2f", i ? ", " : "{", items[i].name, ns[i][batches / 2]);
	}
	printf("}\n");
	return 0;
}
