/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sms: says how many SMs the program has, and whether the driver runs under MPS. Told "try", it
 * uses the device once: memory, a kernel, a wait; told "lose", for up to ten seconds until that
 * fails. It says which call failed, and when.
 */
#include <time.h>

#include "child.h"

#define LOSE_NS	 UINT64_C(10000000000)
#define PAUSE_US 2000

/* The name is the simulator's, which takes the number for microseconds. */
#define KERNEL "sim_spin"
static const char ptx[] = ".version 6.0\n.target sm_50\n.address_size 64\n"
			  ".visible .entry " KERNEL "(.param .u64 n)\n{\nret;\n}\n";

struct attempt {
	CUfunction kernel;
	const char *call; /* that failed */
	unsigned int rounds;
};

static CUresult launch(CUfunction kernel)
{
	uint64_t us = 10;
	void *params[] = {&us};

	return cu.cuLaunchKernel(kernel, 1, 1, 1, 32, 1, 1, 0, NULL, params, NULL);
}

static CUresult use_device(struct attempt *attempt)
{
	CUdeviceptr ptr;
	CUresult r;

	attempt->call = "cuMemAlloc";
	if ((r = cu.cuMemAlloc_v2(&ptr, MIB)))
		return r;
	attempt->call = "cuMemsetD8";
	if ((r = cu.cuMemsetD8_v2(ptr, 1, MIB)))
		return r;
	attempt->call = "cuLaunchKernel";
	if ((r = launch(attempt->kernel)))
		return r;
	attempt->call = "cuCtxSynchronize";
	if ((r = cu.cuCtxSynchronize()))
		return r;
	attempt->call = "cuMemFree";
	if ((r = cu.cuMemFree_v2(ptr)))
		return r;
	attempt->call = "";
	attempt->rounds++;
	return CUDA_SUCCESS;
}

static uint64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

static void obey(const char *word, CUfunction kernel)
{
	struct attempt attempt = {.kernel = kernel};
	uint64_t from = now_ns();
	CUresult r = use_device(&attempt);

	while (!r && !strcmp(word, "lose") && now_ns() < from + LOSE_NS) {
		usleep(PAUSE_US);
		r = use_device(&attempt);
	}
	printf("{\"stage\": \"tried\", \"code\": %d, \"result\": \"%s\", \"call\": \"%s\", "
	       "\"rounds\": %u, \"ms\": %.1f}\n",
	       (int)r, child_error(r), attempt.call, attempt.rounds,
	       (double)(now_ns() - from) / 1e6);
}

int main(void)
{
	int sms = 0, mps = -1;
	CUfunction kernel;
	CUmodule module;
	CUdevice device;
	char buf[32];

	child_begin(120);
	MUST(cu.cuInit(0));
	MUST(cu.cuDeviceGet(&device, 0));
	MUST(cu.cuDeviceGetAttribute(&sms, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, device));
	cu.cuDeviceGetAttribute(&mps, CU_DEVICE_ATTRIBUTE_MPS_ENABLED, device);
	child_context(device);
	MUST(cu.cuModuleLoadData(&module, ptx));
	MUST(cu.cuModuleGetFunction(&kernel, module, KERNEL));
	printf("{\"stage\": \"ready\", \"sms\": %d, \"mps\": %d}\n", sms, mps);
	while (child_told(buf))
		obey(buf, kernel);
	return 0;
}
