/* SPDX-License-Identifier: Apache-2.0 */
/*
 * NVML's lists of processes as the tenant sees them. Compute processes come from the ledger, with
 * their charges. The other lists are the library's own, without processes outside of the tenant:
 * their count in an INSUFFICIENT_SIZE answer stays the library's, since it is only the room to ask
 * for.
 */
#include "guest/nvml/hook.h"

void nvml_tenant_get(const struct nvml_call *call, struct nvml_tenant *ret_tenant)
{
	int n = view_processes(call->guest, call->uuid, call->index, ret_tenant->process,
			       NVML_TENANT_MAX);

	ret_tenant->n = n < NVML_TENANT_MAX ? n : NVML_TENANT_MAX;
}

const struct view_process *nvml_tenant_find(const struct nvml_tenant *tenant, unsigned int pid)
{
	for (int i = 0; i < tenant->n; i++)
		if ((unsigned int)tenant->process[i].driver_pid == pid)
			return &tenant->process[i];
	return NULL;
}

/* Keeps those that have a context, as the library does; answers how many. */
static unsigned int nvml_keep_with_context(struct nvml_tenant *tenant)
{
	unsigned int n = 0;

	for (int i = 0; i < tenant->n; i++)
		if (tenant->process[i].context)
			tenant->process[n++] = tenant->process[i];
	tenant->n = (int)n;
	return n;
}

/* The answer where there are `n` entries. As in the library, their count is told in any case. */
static nvmlReturn_t nvml_list_answer(unsigned int n, unsigned int room, const void *entries)
{
	if (n > room)
		return NVML_ERROR_INSUFFICIENT_SIZE;
	return n && !entries ? NVML_ERROR_INVALID_ARGUMENT : NVML_SUCCESS;
}

/* The forms of the list differ in their entries alone; `fill` is how one entry is written. */
#define COMPUTE_LIST(name, type, fill)                                                             \
	nvmlReturn_t hook_##name(nvmlDevice_t device, unsigned int *infoCount, type *infos)        \
	{                                                                                          \
		struct nvml_tenant tenant;                                                         \
		struct nvml_call call;                                                             \
		nvmlReturn_t r;                                                                    \
		unsigned int n;                                                                    \
                                                                                                   \
		NVML_VIEW_OR_RETURN(name, (device, infoCount, infos), device, &call);              \
		if (!infoCount)                                                                    \
			return NVML_ERROR_INVALID_ARGUMENT;                                        \
		nvml_tenant_get(&call, &tenant);                                                   \
		n = nvml_keep_with_context(&tenant);                                               \
		r = nvml_list_answer(n, *infoCount, infos);                                        \
		*infoCount = n;                                                                    \
		for (unsigned int i = 0; !r && i < n; i++) {                                       \
			const struct view_process *p = &tenant.process[i];                        \
                                                                                                   \
			infos[i] = (type)fill;                                                     \
		}                                                                                  \
		return r;                                                                          \
	}

/* No part of a device: all ones. */
#define FILL_V1 {.pid = (unsigned int)p->pid, .usedGpuMemory = p->used_bytes}
#define FILL_V2                                                              \
	{                                                                    \
		.pid = (unsigned int)p->pid, .usedGpuMemory = p->used_bytes, \
		.gpuInstanceId = ~0u, .computeInstanceId = ~0u               \
	}

COMPUTE_LIST(nvmlDeviceGetComputeRunningProcesses, nvmlProcessInfo_v1_t, FILL_V1)
COMPUTE_LIST(nvmlDeviceGetComputeRunningProcesses_v2, nvmlProcessInfo_v2_t, FILL_V2)
COMPUTE_LIST(nvmlDeviceGetComputeRunningProcesses_v3, nvmlProcessInfo_t, FILL_V2)

/* The tenant's own entries, with what is charged to each. */
#define KEEP_CHARGED(tenant, entries, n)                                           \
	({                                                                         \
		unsigned int own_ = NVML_KEEP_OWN(tenant, entries, n);             \
		for (unsigned int j_ = 0; j_ < own_; j_++)                         \
			(entries)[j_].usedGpuMemory =                              \
				nvml_tenant_find(tenant, (entries)[j_].pid)->used_bytes; \
		own_;                                                              \
	})

#define FILTERED_LIST(name, type, keep)                                                     \
	nvmlReturn_t hook_##name(nvmlDevice_t device, unsigned int *count, type *entries)   \
	{                                                                                   \
		struct nvml_tenant tenant;                                                  \
		struct nvml_call call;                                                      \
		nvmlReturn_t r;                                                             \
                                                                                            \
		NVML_VIEW_OR_RETURN(name, (device, count, entries), device, &call);         \
		r = NVML_REAL(name, (device, count, entries));                              \
		if (r != NVML_SUCCESS || !entries)                                          \
			return r;                                                           \
		nvml_tenant_get(&call, &tenant);                                            \
		*count = keep(&tenant, entries, *count);                                    \
		return NVML_SUCCESS;                                                        \
	}

FILTERED_LIST(nvmlDeviceGetGraphicsRunningProcesses, nvmlProcessInfo_v1_t, KEEP_CHARGED)
FILTERED_LIST(nvmlDeviceGetGraphicsRunningProcesses_v2, nvmlProcessInfo_v2_t, KEEP_CHARGED)
FILTERED_LIST(nvmlDeviceGetGraphicsRunningProcesses_v3, nvmlProcessInfo_t, KEEP_CHARGED)
FILTERED_LIST(nvmlDeviceGetMPSComputeRunningProcesses, nvmlProcessInfo_v1_t, KEEP_CHARGED)
FILTERED_LIST(nvmlDeviceGetMPSComputeRunningProcesses_v2, nvmlProcessInfo_v2_t, KEEP_CHARGED)
FILTERED_LIST(nvmlDeviceGetMPSComputeRunningProcesses_v3, nvmlProcessInfo_t, KEEP_CHARGED)
FILTERED_LIST(nvmlDeviceGetEncoderSessions, nvmlEncoderSessionInfo_t, NVML_KEEP_OWN)
FILTERED_LIST(nvmlDeviceGetFBCSessions, nvmlFBCSessionInfo_t, NVML_KEEP_OWN)

nvmlReturn_t hook_nvmlDeviceGetRunningProcessDetailList(nvmlDevice_t device,
							nvmlProcessDetailList_t *plist)
{
	struct nvml_tenant tenant;
	struct nvml_call call;
	unsigned int n;
	nvmlReturn_t r;

	NVML_VIEW_OR_RETURN(nvmlDeviceGetRunningProcessDetailList, (device, plist), device, &call);
	if (!plist)
		return NVML_ERROR_INVALID_ARGUMENT;
	if (plist->version != nvmlProcessDetailList_v1)
		return NVML_ERROR_ARGUMENT_VERSION_MISMATCH; /* a layout that is not known */
	if (plist->mode != 0) { /* not the compute processes */
		r = NVML_REAL(nvmlDeviceGetRunningProcessDetailList, (device, plist));
		if (r != NVML_SUCCESS || !plist->procArray)
			return r;
		nvml_tenant_get(&call, &tenant);
		plist->numProcArrayEntries = KEEP_CHARGED(&tenant, plist->procArray,
							  plist->numProcArrayEntries);
		return NVML_SUCCESS;
	}
	nvml_tenant_get(&call, &tenant);
	n = nvml_keep_with_context(&tenant);
	r = nvml_list_answer(n, plist->numProcArrayEntries, plist->procArray);
	plist->numProcArrayEntries = n;
	for (unsigned int i = 0; !r && i < n; i++) {
		const struct view_process *p = &tenant.process[i];

		plist->procArray[i] = (nvmlProcessDetail_v1_t)FILL_V2;
	}
	return r;
}

nvmlReturn_t hook_nvmlDeviceGetAccountingPids(nvmlDevice_t device, unsigned int *count,
					      unsigned int *pids)
{
	struct nvml_tenant tenant;
	struct nvml_call call;
	unsigned int n = 0;
	nvmlReturn_t r;

	NVML_VIEW_OR_RETURN(nvmlDeviceGetAccountingPids, (device, count, pids), device, &call);
	r = NVML_REAL(nvmlDeviceGetAccountingPids, (device, count, pids));
	if (r != NVML_SUCCESS || !pids)
		return r;
	nvml_tenant_get(&call, &tenant);
	for (unsigned int i = 0; i < *count; i++)
		if (nvml_tenant_find(&tenant, pids[i]))
			pids[n++] = pids[i];
	*count = n;
	return NVML_SUCCESS;
}

nvmlReturn_t hook_nvmlDeviceGetAccountingStats(nvmlDevice_t device, unsigned int pid,
					       nvmlAccountingStats_t *stats)
{
	struct nvml_tenant tenant;
	struct nvml_call call;

	NVML_VIEW_OR_RETURN(nvmlDeviceGetAccountingStats, (device, pid, stats), device, &call);
	nvml_tenant_get(&call, &tenant);
	if (!nvml_tenant_find(&tenant, pid))
		return NVML_ERROR_NOT_FOUND;
	return NVML_REAL(nvmlDeviceGetAccountingStats, (device, pid, stats));
}
