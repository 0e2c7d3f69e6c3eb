/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hooks [BATCHES]: nanoseconds a call for what programs call most, as medians over batches, one
 * line of JSON. Run against the driver that does nothing (bench/null), bare and with liballot
 * preloaded, the difference is the hooks' own cost: see bench/run-hooks. Against the driver that
 * counts (bench/counting) it says how many calls into the driver each of them makes.
 */
#include <dlfcn.h>
#include <stdint.h>

#include "bench/batch.h"
#include "nvidia/cuda_api.h"

#define BATCHES_MAX 10000
#define cu	    cuda_real

static void hooks_launch(void)
{
	cu.cuLaunchKernel((CUfunction)(uintptr_t)64, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL);
}

static void hooks_alloc_free(size_t bytes)
{
	CUdeviceptr ptr = 0;

	cu.cuMemAlloc_v2(&ptr, bytes);
	cu.cuMemFree_v2(ptr);
}

static void hooks_alloc_free_large(void)
{
	hooks_alloc_free((size_t)64 << 20);
}

static void hooks_alloc_free_granule(void)
{
	hooks_alloc_free((size_t)2 << 20);
}

static void hooks_alloc_free_small(void)
{
	hooks_alloc_free(4096);
}

static void hooks_alloc_free_async(void)
{
	CUdeviceptr ptr = 0;

	cu.cuMemAllocAsync(&ptr, 1 << 20, NULL);
	cu.cuMemFreeAsync(ptr, NULL);
}

/* As libraries do at each launch. */
static void hooks_function(void)
{
	CUfunction function;

	cu.cuKernelGetFunction(&function, (CUkernel)(uintptr_t)64);
}

static void hooks_mem_get_info(void)
{
	size_t free_bytes, total;

	cu.cuMemGetInfo_v2(&free_bytes, &total);
}

static const struct batch_item items[] = {
	{"launch", hooks_launch, 4000},
	{"alloc_free", hooks_alloc_free_large, 1000},
	{"alloc_free_granule", hooks_alloc_free_granule, 1000},
	{"alloc_free_small", hooks_alloc_free_small, 1000},
	{"alloc_free_async", hooks_alloc_free_async, 1000},
	{"function", hooks_function, 1000},
	{"mem_get_info", hooks_mem_get_info, 10},
};
#define ITEMS (sizeof(items) / sizeof(items[0]))

/* A thousand in a row, so that what comes once in a while does not decide. */
static int hooks_print_counts(uint64_t (*calls)(void))
{
	double counts[ITEMS];

	for (size_t i = 0; i < ITEMS; i++) {
		uint64_t before;

		items[i].call();
		before = calls();
		for (int c = 0; c < 1000; c++)
			items[i].call();
		counts[i] = (double)(calls() - before) / 1000;
	}
	batch_print(items, ITEMS, counts);
	return 0;
}

int main(int argc, char **argv)
{
	int batches = batch_count(argc, argv, 500, BATCHES_MAX);
	void *driver = dlopen("libcuda.so.1", RTLD_NOW);
	uint64_t (*calls)(void);
	CUcontext context;
	double ns[ITEMS];

	if (!driver || !batches)
		return 1;
	batch_pin();
	cuda_driver_bind(driver, dlsym);
	if (cu.cuInit(0) || cu.cuDevicePrimaryCtxRetain(&context, 0) || cu.cuCtxSetCurrent(context))
		return 1;
	*(void **)&calls = dlsym(driver, "null_calls");
	if (calls)
		return hooks_print_counts(calls);
	if (batch_measure(items, ITEMS, batches, ns) < 0)
		return 1;
	batch_print(items, ITEMS, ns);
	return 0;
}
