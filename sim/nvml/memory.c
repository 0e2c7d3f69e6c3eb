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

enum memory_list { COMPUTE, GRAPHICS };

/* A process that has both contexts and Vulkan devices is in both lists, each time with all it has. */
static bool memory_has(const struct sim_process_row *p, int device, enum memory_list list)
{
	const struct sim_use *use = &p->use[device];

	return p->state == SIM_ROW_LIVE && (list == COMPUTE ? use->contexts : use->graphics);
}

/* False for a second row of a process, which is in the list already. */
static bool memory_is_first(const struct sim_region *region, int row, int device, enum memory_list list)
{
	for (int i = 0; i < row; i++)
		if (memory_has(&region->row[i], device, list) && sim_row_is_sibling(region, row, i))
			return false;
	return true;
}

/* All processes of the list are counted, at most `room` of them written. */
static unsigned int memory_list_processes(struct sim_region *region, int device, enum memory_list list,
					  nvmlProcessDetail_v1_t *out, unsigned int room)
{
	unsigned int n = 0;

	sim_region_lock(region);
	sim_region_reap(region);
	for (int row = 0; row < (int)region->nrows; row++) {
		if (!memory_has(&region->row[row], device, list) ||
		    !memory_is_first(region, row, device, list))
			continue;
		if (n < room)
			out[n] = (nvmlProcessDetail_v1_t){
				.pid = sim_row_driver_pid(region, row),
				.usedGpuMemory = sim_process_figure(region, row, device),
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
	if (plist->mode < 2)
		n = memory_list_processes(region, i, plist->mode ? GRAPHICS : COMPUTE,
					  plist->procArray, plist->procArray ? room : 0);
	plist->numProcArrayEntries = n;
	return memory_list_answer(n, room, plist->procArray);
}

/* The older forms are the same list with fewer fields. */
#define PROCESS_LIST(list, name, type, ...)                                                        \
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
		n = memory_list_processes(region, i, list, all, SIM_MAX_PROCESSES);                \
		r = memory_list_answer(n, *infoCount, infos);                                      \
		*infoCount = n;                                                                    \
		for (unsigned int k = 0; r == NVML_SUCCESS && k < n; k++)                          \
			infos[k] = (type){.pid = all[k].pid,                                       \
					  .usedGpuMemory = all[k].usedGpuMemory,                   \
					  ##__VA_ARGS__};                                          \
		return r;                                                                          \
	}

PROCESS_LIST(COMPUTE, nvmlDeviceGetComputeRunningProcesses, nvmlProcessInfo_v1_t)
PROCESS_LIST(COMPUTE, nvmlDeviceGetComputeRunningProcesses_v2, nvmlProcessInfo_v2_t, .gpuInstanceId = ~0u,
	     .computeInstanceId = ~0u)
PROCESS_LIST(COMPUTE, nvmlDeviceGetComputeRunningProcesses_v3, nvmlProcessInfo_t, .gpuInstanceId = ~0u,
	     .computeInstanceId = ~0u)
PROCESS_LIST(GRAPHICS, nvmlDeviceGetGraphicsRunningProcesses, nvmlProcessInfo_v1_t)
PROCESS_LIST(GRAPHICS, nvmlDeviceGetGraphicsRunningProcesses_v2, nvmlProcessInfo_v2_t, .gpuInstanceId = ~0u,
	     .computeInstanceId = ~0u)
PROCESS_LIST(GRAPHICS, nvmlDeviceGetGraphicsRunningProcesses_v3, nvmlProcessInfo_t, .gpuInstanceId = ~0u,
	     .computeInstanceId = ~0u)

/*
 * Nobody encodes or captures frames, and there is no MPS server. `refused`: also where
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
