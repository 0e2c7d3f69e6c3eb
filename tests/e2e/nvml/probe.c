/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program that uses CUDA and NVML as told, one command a line, one line of answer each:
 *
 *   nvml                    load NVML and initialise it
 *   cuda                    load the driver and initialise it
 *   alloc ORDINAL BYTES     device memory on a CUDA device
 *   spin US                 a kernel on the last of these devices, to its end
 *   info                    what cuMemGetInfo says: free and total
 *   total ORDINAL           what cuDeviceTotalMem says
 *   show                    what NVML says, as JSON
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "nvidia/cuda_api.h"
#include "nvidia/nvml_api.h"
#include "tests/check.h"

#define ROOM 128

/* What a program's own loader would have found. */
static struct nvml_library nvml;
static struct cuda_driver *cuda = &cuda_real;

static void load_nvml(void)
{
	void *handle = dlopen("libnvidia-ml.so.1", RTLD_NOW);

	CHECK(handle);
	nvml_library_bind(&nvml, handle, dlsym);
	CHECK_EQ(nvml.nvmlInit_v2(), NVML_SUCCESS);
	puts("ok");
}

static void load_cuda(void)
{
	void *handle = dlopen("libcuda.so.1", RTLD_NOW);

	CHECK(handle);
	cuda_driver_bind(handle, dlsym);
	printf("%d\n", cuda->cuInit(0));
}

static void alloc(int ordinal, size_t bytes)
{
	CUcontext ctx;
	CUdeviceptr ptr;
	CUresult r = cuda->cuDevicePrimaryCtxRetain(&ctx, ordinal);

	if (!r)
		r = cuda->cuCtxSetCurrent(ctx);
	if (!r)
		r = cuda->cuMemAlloc_v2(&ptr, bytes);
	printf("%d\n", r);
}

static void spin(uint64_t us)
{
	void *params[] = {&us};
	static CUmodule module;
	CUfunction function;

	if (!module)
		CHECK_EQ(cuda->cuModuleLoadData(&module, "allot-sim-module\n"), CUDA_SUCCESS);
	CHECK_EQ(cuda->cuModuleGetFunction(&function, module, "sim_spin"), CUDA_SUCCESS);
	CHECK_EQ(cuda->cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, NULL, params, NULL),
		 CUDA_SUCCESS);
	printf("%d\n", cuda->cuCtxSynchronize());
}

static void info(void)
{
	size_t room, total;

	CHECK_EQ(cuda->cuMemGetInfo_v2(&room, &total), CUDA_SUCCESS);
	printf("%zu %zu\n", room, total);
}

static void total(int ordinal)
{
	size_t bytes;

	CHECK_EQ(cuda->cuDeviceTotalMem_v2(&bytes, ordinal), CUDA_SUCCESS);
	printf("%zu\n", bytes);
}

static unsigned long long wall_us(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_REALTIME, &ts);
	return (unsigned long long)ts.tv_sec * 1000000 + (unsigned long long)ts.tv_nsec / 1000;
}

/* Each form of the list of compute processes says the same as `infos`, which are the newest's. */
static void show_agrees(nvmlDevice_t device, const nvmlProcessInfo_t *infos, unsigned int n)
{
	nvmlProcessDetail_v1_t details[ROOM];
	nvmlProcessDetailList_t list = {.version = nvmlProcessDetailList_v1,
					.numProcArrayEntries = ROOM,
					.procArray = details};
	nvmlProcessInfo_v1_t v1[ROOM];
	nvmlProcessInfo_v2_t v2[ROOM];
	unsigned int n1 = ROOM, n2 = ROOM;

	CHECK_EQ(nvml.nvmlDeviceGetComputeRunningProcesses(device, &n1, v1), NVML_SUCCESS);
	CHECK_EQ(nvml.nvmlDeviceGetComputeRunningProcesses_v2(device, &n2, v2), NVML_SUCCESS);
	CHECK_EQ(nvml.nvmlDeviceGetRunningProcessDetailList(device, &list), NVML_SUCCESS);
	CHECK_EQ(n1, n);
	CHECK_EQ(n2, n);
	CHECK_EQ(list.numProcArrayEntries, n);
	for (unsigned int i = 0; i < n; i++) {
		CHECK_EQ(v1[i].usedGpuMemory, infos[i].usedGpuMemory);
		CHECK_EQ(v2[i].usedGpuMemory, infos[i].usedGpuMemory);
		CHECK_EQ(details[i].usedGpuMemory, infos[i].usedGpuMemory);
	}
}

static void show_device(nvmlDevice_t device)
{
	nvmlProcessUtilizationSample_t samples[ROOM];
	nvmlMemory_v2_t v2 = {.version = nvmlMemory_v2};
	nvmlProcessInfo_t infos[ROOM];
	unsigned int n = ROOM, exact = 0;
	nvmlUtilization_t rates;
	nvmlReturn_t r;
	nvmlMemory_t v1;
	char uuid[96];

	CHECK_EQ(nvml.nvmlDeviceGetUUID(device, uuid, sizeof(uuid)), NVML_SUCCESS);
	CHECK_EQ(nvml.nvmlDeviceGetMemoryInfo(device, &v1), NVML_SUCCESS);
	CHECK_EQ(nvml.nvmlDeviceGetMemoryInfo_v2(device, &v2), NVML_SUCCESS);
	printf("{\"uuid\": \"%s\", \"v1\": [%llu, %llu, %llu], "
	       "\"v2\": [%llu, %llu, %llu, %llu], ",
	       uuid, v1.total, v1.free, v1.used, v2.total, v2.free, v2.used, v2.reserved);

	CHECK_EQ(nvml.nvmlDeviceGetComputeRunningProcesses_v3(device, &n, infos), NVML_SUCCESS);
	r = nvml.nvmlDeviceGetComputeRunningProcesses_v3(device, &exact, NULL);
	CHECK_EQ(r, n ? NVML_ERROR_INSUFFICIENT_SIZE : NVML_SUCCESS);
	CHECK_EQ(exact, n);
	show_agrees(device, infos, n);
	printf("\"processes\": {");
	for (unsigned int i = 0; i < n; i++)
		printf("%s\"%u\": %llu", i ? ", " : "", infos[i].pid, infos[i].usedGpuMemory);

	CHECK_EQ(nvml.nvmlDeviceGetUtilizationRates(device, &rates), NVML_SUCCESS);
	printf("}, \"gpu\": %u, \"samples\": {", rates.gpu);
	n = ROOM;
	r = nvml.nvmlDeviceGetProcessUtilization(device, samples, &n, wall_us() - 1000000);
	CHECK(r == NVML_SUCCESS || r == NVML_ERROR_NOT_FOUND);
	for (unsigned int i = 0; !r && i < n; i++)
		printf("%s\"%u\": %u", i ? ", " : "", samples[i].pid, samples[i].smUtil);
	printf("}}");
}

static void show(void)
{
	unsigned int n;

	CHECK_EQ(nvml.nvmlDeviceGetCount_v2(&n), NVML_SUCCESS);
	printf("[");
	for (unsigned int i = 0; i < n; i++) {
		nvmlDevice_t device;

		CHECK_EQ(nvml.nvmlDeviceGetHandleByIndex_v2(i, &device), NVML_SUCCESS);
		printf("%s", i ? ", " : "");
		show_device(device);
	}
	printf("]\n");
}

int main(void)
{
	char line[128];

	while (fgets(line, sizeof(line), stdin)) {
		unsigned long long bytes;
		int ordinal;

		if (!strcmp(line, "nvml\n"))
			load_nvml();
		else if (!strcmp(line, "cuda\n"))
			load_cuda();
		else if (!strcmp(line, "show\n"))
			show();
		else if (!strcmp(line, "info\n"))
			info();
		else if (sscanf(line, "total %d", &ordinal) == 1)
			total(ordinal);
		else if (sscanf(line, "alloc %d %llu", &ordinal, &bytes) == 2)
			alloc(ordinal, bytes);
		else if (sscanf(line, "spin %llu", &bytes) == 1)
			spin(bytes);
		else
			return 2;
		fflush(stdout);
	}
	return 0;
}
