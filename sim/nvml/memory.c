/* SPDX-License-Identifier: Apache-2.0 */
/* Memory of a device, and who holds it: straight from the region, so true at every instant. */
#include "sim/nvml/entry.h"

nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t device, nvmlMemory_t *memory)
{
	struct sim_region *region;
	uint64_t total, used;
	int i;
	nvmlReturn_t r = sim_nvml_device(device, &region, &i);

	if (r)
		return r;
	if (!memory)
		return NVML_ERROR_INVALID_ARGUMENT;
	sim_region_lock(region);
	sim_region_reap(region);
	total = region->device[i].total_bytes;
	used = sim_region_used(region, i);
	sim_region_unlock(region);
	*memory = (nvmlMemory_t){.total = total, .free = total - used, .used = used};
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetMemoryInfo_v2(nvmlDevice_t device, nvmlMemory_v2_t *memory)
{
	nvmlMemory_t v1;
	nvmlReturn_t r;

	if (!memory)
		return NVML_ERROR_INVALID_ARGUMENT;
	if (memory->version != nvmlMemory_v2)
		return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
	r = nvmlDeviceGetMemoryInfo(device, &v1);
	if (r)
		return r;
	memory->total = v1.total;
	memory->reserved = 0;
	memory->free = v1.free;
	memory->used = v1.used;
	return NVML_SUCCESS;
}

/* No computing is confidential, so none of the memory is protected. */
nvmlReturn_t nvmlDeviceGetConfComputeProtectedMemoryUsage(nvmlDevice_t device, nvmlMemory_t *memory)
{
	struct sim_region *region;
	int i;
	nvmlReturn_t r = sim_nvml_device(device, &region, &i);

	if (r)
		return r;
	if (!memory)
		return NVML_ERROR_INVALID_ARGUMENT;
	*memory = (nvmlMemory_t){0};
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetBAR1MemoryInfo(nvmlDevice_t device, nvmlBAR1Memory_t *bar1Memory)
{
	struct sim_region *region;
	int i;
	nvmlReturn_t r = sim_nvml_device(device, &region, &i);

	if (r)
		return r;
	if (!bar1Memory)
		return NVML_ERROR_INVALID_ARGUMENT;
	*bar1Memory = (nvmlBAR1Memory_t){.bar1Total = 256ull << 30,
					 .bar1Free = (256ull << 30) - (1ull << 20),
					 .bar1Used = 1ull << 20};
	return NVML_SUCCESS;
}

static bool memory_is_listed(const struct sim_process_row *p, int device)
{
	return p->state == SIM_ROW_LIVE && p->use[device].contexts;
}

/* A process that uses CUDA and OpenCL has a row of each, and is listed once, with both. */
static bool memory_is_same(const struct sim_region *region, uint32_t a, uint32_t b)
{
	return region->row[a].pid == region->row[b].pid && region->row[a].pid_ns == region->row[b].pid_ns;
}

static bool memory_is_first(const struct sim_region *region, uint32_t row, int device)
{
	for (uint32_t i = 0; i < row; i++)
		if (memory_is_listed(&region->row[i], device) && memory_is_same(region, i, row))
			return false;
	return true;
}

static uint64_t memory_figure(const struct sim_region *region, uint32_t row, int device)
{
	uint64_t sum = 0;

	for (uint32_t i = row; i < region->nrows; i++)
		if (memory_is_listed(&region->row[i], device) && memory_is_same(region, i, row))
			sum += sim_row_figure(region, (int)i, device);
	return sum;
}

/* All that have a context are counted, at most `room` of them written. */
static unsigned int memory_list_processes(struct sim_region *region, int device,
					  nvmlProcessDetail_v1_t *out, unsigned int room)
{
	unsigned int n = 0;

	sim_region_lock(region);
	sim_region_reap(region);
	for (uint32_t row = 0; row < region->nrows; row++) {
		const struct sim_process_row *p = &region->row[row];

		if (!memory_is_listed(p, device) || !memory_is_first(region, row, device))
			continue;
		if (n < room)
			out[n] = (nvmlProcessDetail_v1_t){
				.pid = sim_row_driver_pid(region, (int)row),
				.usedGpuMemory = memory_figure(region, row, device),
				.gpuInstanceId = ~0u,
				.computeInstanceId = ~0u,
			};
		n++;
	}
	sim_region_unlock(region);
	return n;
}

/* The count is told in any case. */
static nvmlReturn_t memory_list_answer(unsigned int n, unsigned int room, const void *out)
{
	if (n > room)
		return NVML_ERROR_INSUFFICIENT_SIZE;
	return n && !out ? NVML_ERROR_INVALID_ARGUMENT : NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetRunningProcessDetailList(nvmlDevice_t device,
						   nvmlProcessDetailList_t *plist)
{
	struct sim_region *region;
	unsigned int n = 0, room;
	int i;
	nvmlReturn_t r = sim_nvml_device(device, &region, &i);

	if (r)
		return r;
	if (!plist || plist->mode > 2)
		return NVML_ERROR_INVALID_ARGUMENT;
	if (plist->version != nvmlProcessDetailList_v1)
		return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
	room = plist->numProcArrayEntries;
	if (plist->mode == 0)
		n = memory_list_processes(region, i, plist->procArray, plist->procArray ? room : 0);
	plist->numProcArrayEntries = n;
	return memory_list_answer(n, room, plist->procArray);
}

/* The older forms are the same list with fewer fields. */
#define COMPUTE_LIST(name, type, ...)                                                              \
	nvmlReturn_t name(nvmlDevice_t device, unsigned int *infoCount, type *infos)               \
	{                                                                                          \
		nvmlProcessDetail_v1_t all[SIM_MAX_PROCESSES];                                     \
		struct sim_region *region;                                                         \
		unsigned int n;                                                                    \
		int i;                                                                             \
		nvmlReturn_t r = sim_nvml_device(device, &region, &i);                             \
                                                                                                   \
		if (r)                                                                             \
			return r;                                                                  \
		if (!infoCount)                                                                    \
			return NVML_ERROR_INVALID_ARGUMENT;                                        \
		n = memory_list_processes(region, i, all, SIM_MAX_PROCESSES);                      \
		r = memory_list_answer(n, *infoCount, infos);                                      \
		*infoCount = n;                                                                    \
		for (unsigned int k = 0; r == NVML_SUCCESS && k < n; k++)                          \
			infos[k] = (type){.pid = all[k].pid,                                       \
					  .usedGpuMemory = all[k].usedGpuMemory,                   \
					  ##__VA_ARGS__};                                          \
		return r;                                                                          \
	}

COMPUTE_LIST(nvmlDeviceGetComputeRunningProcesses, nvmlProcessInfo_v1_t)
COMPUTE_LIST(nvmlDeviceGetComputeRunningProcesses_v2, nvmlProcessInfo_v2_t, .gpuInstanceId = ~0u,
	     .computeInstanceId = ~0u)
COMPUTE_LIST(nvmlDeviceGetComputeRunningProcesses_v3, nvmlProcessInfo_t, .gpuInstanceId = ~0u,
	     .computeInstanceId = ~0u)

/*
 * Nobody draws, encodes or captures frames, and there is no MPS server. `refused`: also where
 * nothing would be written.
 */
#define EMPTY_LIST(name, type, refused)                                              \
	nvmlReturn_t name(nvmlDevice_t device, unsigned int *infoCount, type *infos) \
	{                                                                            \
		struct sim_region *region;                                           \
		int i;                                                               \
		nvmlReturn_t r = sim_nvml_device(device, &region, &i);               \
                                                                                     \
		if (r)                                                               \
			return r;                                                    \
		if (!infoCount || (refused))                                         \
			return NVML_ERROR_INVALID_ARGUMENT;                          \
		*infoCount = 0;                                                      \
		return NVML_SUCCESS;                                                 \
	}

EMPTY_LIST(nvmlDeviceGetGraphicsRunningProcesses, nvmlProcessInfo_v1_t, false)
EMPTY_LIST(nvmlDeviceGetGraphicsRunningProcesses_v2, nvmlProcessInfo_v2_t, false)
EMPTY_LIST(nvmlDeviceGetGraphicsRunningProcesses_v3, nvmlProcessInfo_t, false)
EMPTY_LIST(nvmlDeviceGetMPSComputeRunningProcesses, nvmlProcessInfo_v1_t, false)
EMPTY_LIST(nvmlDeviceGetMPSComputeRunningProcesses_v2, nvmlProcessInfo_v2_t, false)
EMPTY_LIST(nvmlDeviceGetMPSComputeRunningProcesses_v3, nvmlProcessInfo_t, false)
EMPTY_LIST(nvmlDeviceGetEncoderSessions, nvmlEncoderSessionInfo_t, *infoCount && !infos)
EMPTY_LIST(nvmlDeviceGetFBCSessions, nvmlFBCSessionInfo_t, *infoCount && !infos)

#define ACCOUNTED_MOST 4000 /* processes: the usual size of the driver's buffer */

/* Accounting is off: no process is known. */
nvmlReturn_t nvmlDeviceGetAccountingPids(nvmlDevice_t device, unsigned int *count,
					 unsigned int *pids)
{
	struct sim_region *region;
	int i;
	nvmlReturn_t r = sim_nvml_device(device, &region, &i);

	if (r)
		return r;
	if (!count)
		return NVML_ERROR_INVALID_ARGUMENT;
	*count = pids ? 0 : ACCOUNTED_MOST;
	return pids ? NVML_SUCCESS : NVML_ERROR_INSUFFICIENT_SIZE;
}

nvmlReturn_t nvmlDeviceGetAccountingStats(nvmlDevice_t device, unsigned int pid,
					  nvmlAccountingStats_t *stats)
{
	struct sim_region *region;
	int i;
	nvmlReturn_t r = sim_nvml_device(device, &region, &i);

	if (r)
		return r;
	return stats ? NVML_ERROR_NOT_FOUND : NVML_ERROR_INVALID_ARGUMENT;
}
