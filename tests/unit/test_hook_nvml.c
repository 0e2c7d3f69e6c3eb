/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The NVML hooks between a guest and a library that are both made up here: what the tenant sees
 * for what the device has.
 */
#include <string.h>

#include "guest/account/view.h"
#include "guest/core/library.h"
#include "guest/nvml/hook.h"
#include "tests/check.h"

#define GIB (1ull << 30)

static char handle;
#define DEVICE ((nvmlDevice_t)&handle)

/* The guest. */
static struct guest guest = {.mode = GUEST_LIMITED};
static struct guest_page page = {.guest = &guest};
_Atomic(struct guest_page *) guest_page = &page;
_Thread_local unsigned int guest_depth;
static bool library_there = true;
static struct view tenant_view;
static struct view_process tenant_processes[8];
static int tenant_n;
static uint64_t seen_total;
static uint8_t seen_uuid[16];

struct guest *guest_start(void)
{
	return &guest;
}

struct library library_nvml;

bool library_present(struct library *library)
{
	CHECK(library == &library_nvml);
	return library_there;
}

uint64_t view_free(struct guest *g, const uint8_t uuid[16], const struct view *view,
		   uint64_t device_free)
{
	uint64_t left = view->total_bytes - view->used_bytes;

	CHECK(g == &guest);
	return left < device_free ? left : device_free;
}

void view_get(struct guest *g, const uint8_t uuid[16], unsigned int index, uint64_t total_bytes,
	      struct view *ret)
{
	CHECK_EQ(index, 3);
	memcpy(seen_uuid, uuid, 16);
	seen_total = total_bytes;
	*ret = tenant_view;
}

int view_processes(struct guest *g, const uint8_t uuid[16], unsigned int index,
		   struct view_process *out, int max)
{
	for (int i = 0; i < tenant_n && i < max; i++)
		out[i] = tenant_processes[i];
	return tenant_n;
}

/* The library. */
static const char *device_uuid = "GPU-00112233-4455-6677-8899-aabbccddeeff";
static nvmlReturn_t state;
static nvmlMemory_v2_t device_memory;
static nvmlProcessInfo_t listed[4];
static nvmlProcessUtilizationSample_t sampled[8];
static unsigned int listed_n, sampled_n, least_room;
static nvmlReturn_t samples_state;

static nvmlReturn_t real_uuid(nvmlDevice_t device, char *uuid, unsigned int length)
{
	CHECK(guest_depth == 1);
	if (state)
		return state;
	if (device != DEVICE)
		return NVML_ERROR_INVALID_ARGUMENT;
	snprintf(uuid, length, "%s", device_uuid);
	return NVML_SUCCESS;
}

static nvmlReturn_t real_index(nvmlDevice_t device, unsigned int *index)
{
	*index = 3;
	return NVML_SUCCESS;
}

static nvmlReturn_t real_memory(nvmlDevice_t device, nvmlMemory_t *memory)
{
	if (!memory)
		return NVML_ERROR_INVALID_ARGUMENT;
	*memory = (nvmlMemory_t){.total = device_memory.total,
				 .free = device_memory.free,
				 .used = device_memory.used + device_memory.reserved};
	return NVML_SUCCESS;
}

static nvmlReturn_t real_memory_v2(nvmlDevice_t device, nvmlMemory_v2_t *memory)
{
	if (memory->version != nvmlMemory_v2)
		return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
	*memory = device_memory;
	memory->version = nvmlMemory_v2;
	return NVML_SUCCESS;
}

static nvmlReturn_t real_list(nvmlDevice_t device, unsigned int *n, nvmlProcessInfo_t *infos)
{
	unsigned int room = *n;

	*n = listed_n;
	if (listed_n > room)
		return NVML_ERROR_INSUFFICIENT_SIZE;
	if (listed_n)
		memcpy(infos, listed, listed_n * sizeof(*infos));
	return NVML_SUCCESS;
}

static nvmlReturn_t real_rates(nvmlDevice_t device, nvmlUtilization_t *rates)
{
	*rates = (nvmlUtilization_t){.gpu = 99, .memory = 77};
	return NVML_SUCCESS;
}

static nvmlReturn_t real_samples(nvmlDevice_t device, nvmlProcessUtilizationSample_t *samples,
				 unsigned int *n, unsigned long long since)
{
	if (samples_state)
		return samples_state;
	if (!samples || *n < least_room || *n < sampled_n) {
		*n = sampled_n > least_room ? sampled_n : least_room;
		return NVML_ERROR_INSUFFICIENT_SIZE;
	}
	*n = sampled_n;
	memcpy(samples, sampled, sampled_n * sizeof(*samples));
	return sampled_n ? NVML_SUCCESS : NVML_ERROR_NOT_FOUND;
}

static void *library(void *none, const char *name)
{
	static const struct {
		const char *name;
		void *address;
	} functions[] = {
		{"nvmlDeviceGetUUID", (void *)real_uuid},
		{"nvmlDeviceGetIndex", (void *)real_index},
		{"nvmlDeviceGetMemoryInfo", (void *)real_memory},
		{"nvmlDeviceGetMemoryInfo_v2", (void *)real_memory_v2},
		{"nvmlDeviceGetComputeRunningProcesses_v3", (void *)real_list},
		{"nvmlDeviceGetGraphicsRunningProcesses_v3", (void *)real_list},
		{"nvmlDeviceGetUtilizationRates", (void *)real_rates},
		{"nvmlDeviceGetProcessUtilization", (void *)real_samples},
	};

	for (size_t i = 0; i < sizeof(functions) / sizeof(functions[0]); i++)
		if (!strcmp(functions[i].name, name))
			return functions[i].address;
	return NULL;
}

/* `used`: by whom it may be; `reserved` of these: not by the tenant. */
static void memory_is(uint64_t total, uint64_t free_bytes, uint64_t used, uint64_t reserved)
{
	nvmlMemory_v2_t v2 = {.version = nvmlMemory_v2};
	nvmlMemory_t v1;

	CHECK_EQ(hook_nvmlDeviceGetMemoryInfo(DEVICE, &v1), NVML_SUCCESS);
	CHECK_EQ(v1.total, total);
	CHECK_EQ(v1.free, free_bytes);
	CHECK_EQ(v1.used, used);
	CHECK_EQ(hook_nvmlDeviceGetMemoryInfo_v2(DEVICE, &v2), NVML_SUCCESS);
	CHECK_EQ(v2.version, nvmlMemory_v2);
	CHECK_EQ(v2.total, total);
	CHECK_EQ(v2.free, free_bytes);
	CHECK_EQ(v2.used, used - reserved);
	CHECK_EQ(v2.reserved, reserved);
}

static void memory(void)
{
	nvmlMemory_v2_t v2 = {0};

	device_memory = (nvmlMemory_v2_t){
		.total = 140 * GIB, .reserved = 1 * GIB, .used = 39 * GIB, .free = 100 * GIB};
	tenant_view = (struct view){.total_bytes = 8 * GIB, .used_bytes = 3 * GIB};
	memory_is(8 * GIB, 5 * GIB, 3 * GIB, 0);
	CHECK_EQ(seen_total, 140 * GIB);
	for (int i = 0; i < 16; i++)
		CHECK_EQ(seen_uuid[i], i * 0x11);

	/* The neighbours left less than the quota has to give: what they have is not used by us. */
	device_memory.free = 2 * GIB;
	memory_is(8 * GIB, 2 * GIB, 6 * GIB, 3 * GIB);

	/* Never below zero. */
	tenant_view = (struct view){.total_bytes = 8 * GIB, .used_bytes = 8 * GIB};
	memory_is(8 * GIB, 0, 8 * GIB, 0);
	tenant_view = (struct view){0};
	memory_is(0, 0, 0, 0);

	CHECK_EQ(hook_nvmlDeviceGetMemoryInfo_v2(DEVICE, &v2),
		 NVML_ERROR_ARGUMENT_VERSION_MISMATCH);
	CHECK_EQ(hook_nvmlDeviceGetMemoryInfo(DEVICE, NULL), NVML_ERROR_INVALID_ARGUMENT);
	/* What the library lacks stays lacking. */
	CHECK_EQ(hook_nvmlDeviceGetConfComputeProtectedMemoryUsage(DEVICE, (nvmlMemory_t *)&v2),
		 NVML_ERROR_FUNCTION_NOT_FOUND);
}

static void ways(void)
{
	nvmlMemory_t v1;

	tenant_view = (struct view){.total_bytes = 8 * GIB};
	guest.mode = GUEST_INERT;
	CHECK_EQ(hook_nvmlDeviceGetMemoryInfo(DEVICE, &v1), NVML_SUCCESS);
	CHECK_EQ(v1.total, 140 * GIB);
	guest.mode = GUEST_CLOSED;
	CHECK_EQ(hook_nvmlDeviceGetMemoryInfo(DEVICE, &v1), NVML_ERROR_NO_PERMISSION);
	guest.mode = GUEST_LIMITED;
	guest_depth = 1; /* the driver's own call */
	CHECK_EQ(hook_nvmlDeviceGetMemoryInfo(DEVICE, &v1), NVML_SUCCESS);
	CHECK_EQ(v1.total, 140 * GIB);
	guest_depth = 0;

	state = NVML_ERROR_UNINITIALIZED;
	CHECK_EQ(hook_nvmlDeviceGetMemoryInfo(DEVICE, &v1), NVML_ERROR_UNINITIALIZED);
	state = NVML_SUCCESS;
	CHECK_EQ(hook_nvmlDeviceGetMemoryInfo(NULL, &v1), NVML_ERROR_INVALID_ARGUMENT);
	device_uuid = "MIG-GPU-00112233-4455-6677-8899-aabbccddeeff/1/0";
	CHECK_EQ(hook_nvmlDeviceGetMemoryInfo(DEVICE, &v1), NVML_ERROR_UNKNOWN);
	device_uuid = "GPU-00112233-4455-6677-8899-aabbccddeeff";
	library_there = false;
	CHECK_EQ(hook_nvmlDeviceGetMemoryInfo(DEVICE, &v1), NVML_ERROR_UNINITIALIZED);
	library_there = true;
}

static void processes(void)
{
	nvmlProcessInfo_t infos[4];
	nvmlProcessInfo_v1_t old[2];
	nvmlProcessDetail_v1_t details[2];
	nvmlProcessDetailList_t list = {.version = nvmlProcessDetailList_v1,
					.procArray = details};
	unsigned int n = 0;

	tenant_n = 3;
	tenant_processes[0] = (struct view_process){.pid = 10, .driver_pid = 10, .used_bytes = GIB, .context = true};
	tenant_processes[1] = (struct view_process){.pid = 11, .driver_pid = 11, .used_bytes = 5};
	tenant_processes[2] = (struct view_process){.pid = 12, .driver_pid = 12, .used_bytes = 7, .context = true};
	CHECK_EQ(hook_nvmlDeviceGetComputeRunningProcesses_v3(DEVICE, &n, NULL),
		 NVML_ERROR_INSUFFICIENT_SIZE);
	CHECK_EQ(n, 2);
	n = 1;
	memset(infos, 0x55, sizeof(infos));
	CHECK_EQ(hook_nvmlDeviceGetComputeRunningProcesses_v3(DEVICE, &n, infos),
		 NVML_ERROR_INSUFFICIENT_SIZE);
	CHECK_EQ(n, 2);
	CHECK_EQ(infos[0].pid, 0x55555555);
	CHECK_EQ(hook_nvmlDeviceGetComputeRunningProcesses_v3(DEVICE, &n, infos), NVML_SUCCESS);
	CHECK_EQ(n, 2);
	CHECK_EQ(infos[0].pid, 10);
	CHECK_EQ(infos[0].usedGpuMemory, GIB);
	CHECK_EQ(infos[1].pid, 12);
	CHECK_EQ(infos[1].gpuInstanceId, ~0u);
	n = 2;
	CHECK_EQ(hook_nvmlDeviceGetComputeRunningProcesses(DEVICE, &n, old), NVML_SUCCESS);
	CHECK_EQ(old[1].usedGpuMemory, 7);
	CHECK_EQ(hook_nvmlDeviceGetComputeRunningProcesses_v3(DEVICE, NULL, infos),
		 NVML_ERROR_INVALID_ARGUMENT);
	CHECK_EQ(hook_nvmlDeviceGetComputeRunningProcesses_v3(DEVICE, &n, NULL),
		 NVML_ERROR_INVALID_ARGUMENT);

	CHECK_EQ(hook_nvmlDeviceGetRunningProcessDetailList(DEVICE, &list),
		 NVML_ERROR_INSUFFICIENT_SIZE);
	CHECK_EQ(list.numProcArrayEntries, 2);
	CHECK_EQ(hook_nvmlDeviceGetRunningProcessDetailList(DEVICE, &list), NVML_SUCCESS);
	CHECK_EQ(details[1].pid, 12);
	CHECK_EQ(details[1].usedGpuCcProtectedMemory, 0);
	list.version = 1;
	CHECK_EQ(hook_nvmlDeviceGetRunningProcessDetailList(DEVICE, &list),
		 NVML_ERROR_ARGUMENT_VERSION_MISMATCH);

	/* Who draws is the library's to say; a neighbour is not the tenant's to see. */
	listed_n = 3;
	listed[0] = (nvmlProcessInfo_t){.pid = 99, .usedGpuMemory = GIB};
	listed[1] = (nvmlProcessInfo_t){.pid = 12, .usedGpuMemory = GIB};
	listed[2] = (nvmlProcessInfo_t){.pid = 98, .usedGpuMemory = GIB};
	n = 4;
	CHECK_EQ(hook_nvmlDeviceGetGraphicsRunningProcesses_v3(DEVICE, &n, infos), NVML_SUCCESS);
	CHECK_EQ(n, 1);
	CHECK_EQ(infos[0].pid, 12);
	CHECK_EQ(infos[0].usedGpuMemory, 7);

	tenant_n = 0;
	n = 0;
	CHECK_EQ(hook_nvmlDeviceGetComputeRunningProcesses_v3(DEVICE, &n, NULL), NVML_SUCCESS);
	CHECK_EQ(n, 0);
}

static void rates_are(unsigned int gpu, unsigned int mem)
{
	nvmlUtilization_t rates;

	CHECK_EQ(hook_nvmlDeviceGetUtilizationRates(DEVICE, &rates), NVML_SUCCESS);
	CHECK_EQ(rates.gpu, gpu);
	CHECK_EQ(rates.memory, mem);
}

static nvmlProcessUtilizationSample_t sample(unsigned int pid, uint64_t time, unsigned int sm,
					     unsigned int mem)
{
	return (nvmlProcessUtilizationSample_t){
		.pid = pid, .timeStamp = time, .smUtil = sm, .memUtil = mem};
}

static void utilization(void)
{
	nvmlProcessUtilizationSample_t out[128];
	nvmlSample_t samples[4];
	nvmlValueType_t type;
	unsigned int n = 128;

	tenant_n = 3;
	least_room = 72;
	sampled_n = 4;
	sampled[0] = sample(99, 5, 60, 40);
	sampled[1] = sample(10, 4, 90, 9); /* older than the next one of this process */
	sampled[2] = sample(10, 5, 25, 2);
	sampled[3] = sample(12, 5, 15, 1);
	rates_are(40, 3);
	sampled[3].smUtil = 80;
	rates_are(100, 3);

	CHECK_EQ(hook_nvmlDeviceGetProcessUtilization(DEVICE, out, &n, 0), NVML_SUCCESS);
	CHECK_EQ(n, 3);
	for (unsigned int i = 0; i < n; i++)
		CHECK(out[i].pid != 99);
	n = 0;
	CHECK_EQ(hook_nvmlDeviceGetProcessUtilization(DEVICE, NULL, &n, 0),
		 NVML_ERROR_INSUFFICIENT_SIZE);
	CHECK_EQ(n, 72);

	/* More room wanted than was guessed. */
	least_room = 500;
	rates_are(100, 3);
	least_room = 72;

	/* Only a neighbour works: 0, and no samples. */
	sampled_n = 1;
	listed_n = 2;
	rates_are(0, 0);
	n = 128;
	CHECK_EQ(hook_nvmlDeviceGetProcessUtilization(DEVICE, out, &n, 0), NVML_ERROR_NOT_FOUND);
	CHECK_EQ(n, 0);
	sampled_n = 0;
	rates_are(0, 0);

	/* The library knows the tenant's processes by other pids, or nobody's: the whole device. */
	listed[1].pid = 97;
	rates_are(99, 77);
	/* Somebody has told which one that is. */
	tenant_processes[2].driver_pid = 97;
	rates_are(0, 0);
	sampled_n = 1;
	sampled[0] = sample(97, 5, 30, 4);
	rates_are(30, 4);
	sampled_n = 0;
	tenant_processes[2].driver_pid = 12;
	rates_are(99, 77);
	samples_state = NVML_ERROR_NOT_SUPPORTED;
	rates_are(99, 77);
	samples_state = NVML_SUCCESS;
	tenant_n = 0; /* nobody of the tenant is there: nothing is its work */
	rates_are(0, 0);

	CHECK_EQ(hook_nvmlDeviceGetSamples(DEVICE, NVML_GPU_UTILIZATION_SAMPLES, 0, &type, &n,
					   samples),
		 NVML_ERROR_NOT_SUPPORTED);
	CHECK_EQ(hook_nvmlDeviceGetSamples(DEVICE, NVML_TOTAL_POWER_SAMPLES, 0, &type, &n, samples),
		 NVML_ERROR_FUNCTION_NOT_FOUND);
}

int main(void)
{
	nvml_real_bind(NULL, library);
	memory();
	ways();
	processes();
	utilization();
	CHECK_EQ(guest_depth, 0);
	return 0;
}
