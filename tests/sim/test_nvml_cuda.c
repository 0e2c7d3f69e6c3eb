/* SPDX-License-Identifier: Apache-2.0 */
/* What one process does through the simulated CUDA driver, as the simulated NVML shows it. */
#include "tests/sim/exec.h"

#include "nvidia/nvml_api.h"

#define MIB (1ull << 20)

#define NVML_HOOK(name, kind, params, args) nvmlReturn_t name params;
#define NVML_CALL(name, kind, params, args) nvmlReturn_t name params;
#include "nvidia/nvml_api.def"

static nvmlDevice_t device;

static unsigned long long used(void)
{
	nvmlMemory_t memory;

	CHECK_EQ(nvmlDeviceGetMemoryInfo(device, &memory), NVML_SUCCESS);
	CHECK_EQ(memory.used + memory.free, memory.total);
	return memory.used;
}

static unsigned long long own(void)
{
	nvmlProcessInfo_t infos[4];
	unsigned int n = 4;

	CHECK_EQ(nvmlDeviceGetComputeRunningProcesses_v3(device, &n, infos), NVML_SUCCESS);
	if (!n)
		return 0;
	CHECK_EQ(n, 1);
	CHECK_EQ(infos[0].pid, getpid());
	return infos[0].usedGpuMemory;
}

static unsigned long long wall_us(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_REALTIME, &ts);
	return (unsigned long long)ts.tv_sec * 1000000 + (unsigned long long)ts.tv_nsec / 1000;
}

/* Keep the device busy until its figures say so; they may take a few windows. */
static void utilization(void)
{
	nvmlProcessUtilizationSample_t samples[72];
	nvmlUtilization_t rates = {0};
	unsigned int n = 0;

	for (int i = 0; rates.gpu < 50; i++) {
		CHECK(i < 100);
		OK(exec_spin(NULL, 100000));
		OK(cuCtxSynchronize());
		CHECK_EQ(nvmlDeviceGetUtilizationRates(device, &rates), NVML_SUCCESS);
	}
	CHECK(rates.gpu <= 100);
	for (int i = 0; n != 1 || samples[0].smUtil < 50; i++) {
		CHECK(i < 100);
		OK(exec_spin(NULL, 100000));
		OK(cuCtxSynchronize());
		n = 72;
		CHECK_EQ(nvmlDeviceGetProcessUtilization(device, samples, &n, wall_us() - 1000000),
			 NVML_SUCCESS);
	}
	CHECK_EQ(samples[0].pid, getpid());
	CHECK(samples[0].timeStamp > 0);
}

int main(void)
{
	CUdeviceptr ptr;
	CUcontext ctx;
	CUuuid uuid;
	unsigned long long before;
	nvmlUUID_t wanted = {.version = nvmlUUID_v1, .type = NVML_UUID_TYPE_BINARY};

	exec_init();
	/* Both libraries mean the same device by the same UUID. */
	OK(cuInit(0));
	OK(cuDeviceGetUuid_v2(&uuid, 0));
	memcpy(wanted.value.bytes, uuid.bytes, sizeof(uuid.bytes));
	CHECK_EQ(nvmlInit_v2(), NVML_SUCCESS);
	CHECK_EQ(nvmlDeviceGetHandleByUUIDV(&wanted, &device), NVML_SUCCESS);

	CHECK_EQ(used(), 0);
	CHECK_EQ(own(), 0);
	OK(cuDevicePrimaryCtxRetain(&ctx, 0));
	OK(cuCtxSetCurrent(ctx));
	CHECK(used() > 0);
	CHECK_EQ(own(), used());
	OK(exec_spin(NULL, 1)); /* its code takes memory, too */
	before = used();
	OK(cuMemAlloc_v2(&ptr, 64 * MIB));
	CHECK_EQ(used(), before + 64 * MIB);
	CHECK_EQ(own(), used());
	utilization();
	OK(cuMemFree_v2(ptr));
	CHECK_EQ(used(), before);
	OK(cuDevicePrimaryCtxRelease_v2(0));
	CHECK_EQ(used(), 0);
	CHECK_EQ(own(), 0);
	CHECK_EQ(nvmlShutdown(), NVML_SUCCESS);
	return 0;
}
