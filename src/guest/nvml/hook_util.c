/* SPDX-License-Identifier: Apache-2.0 */
/*
 * NVML as the tenant sees it: utilisation. The library's samples a process, the tenant's only.
 */
#include "base/now.h"
#include "guest/nvml/hook.h"

#include <stdlib.h>
#include <time.h>

/* How far back what a process did is what it does now: the library's mean of five samples. */
#define RECENT_US 1000000u

/* The library wants room for more samples than there are processes. */
#define SAMPLES 128
#define SAMPLES_MAX (1u << 16)

static uint64_t nvml_wall_us(void)
{
	return now_ns(CLOCK_REALTIME) / NS_PER_US;
}

/* Recent samples of all processes, for free(); none is NULL. */
static nvmlReturn_t nvml_recent_samples(nvmlDevice_t device,
					nvmlProcessUtilizationSample_t **ret_samples,
					unsigned int *ret_n)
{
	nvmlProcessUtilizationSample_t *samples = NULL;
	uint64_t since = nvml_wall_us() - RECENT_US;
	unsigned int room = SAMPLES;
	nvmlReturn_t r;

	for (int tries = 0;; tries++) {
		unsigned int n = room;

		free(samples);
		samples = calloc(room, sizeof(*samples));
		if (!samples)
			return NVML_ERROR_MEMORY;
		r = NVML_REAL(nvmlDeviceGetProcessUtilization, (device, samples, &n, since));
		if (r == NVML_SUCCESS && n <= room) {
			*ret_samples = samples;
			*ret_n = n;
			return NVML_SUCCESS;
		}
		if (r != NVML_ERROR_INSUFFICIENT_SIZE || n > SAMPLES_MAX || tries == 4)
			break;
		room = (n > room ? n : room) * 2;
	}
	free(samples);
	if (r != NVML_ERROR_NOT_FOUND)
		return r == NVML_SUCCESS ? NVML_ERROR_UNKNOWN : r;
	*ret_samples = NULL;
	*ret_n = 0;
	return NVML_SUCCESS;
}

/*
 * Does the library know the tenant's processes by the pids that we know them by? Not in a
 * container whose driver tells the host's pids. True when there is nothing to compare.
 */
static bool nvml_knows_tenant(nvmlDevice_t device, const struct nvml_tenant *tenant)
{
	nvmlProcessInfo_t infos[SAMPLES];
	unsigned int n = SAMPLES;
	bool any = false;

	for (int i = 0; i < tenant->n; i++)
		any |= tenant->process[i].context;
	if (!any || NVML_REAL(nvmlDeviceGetComputeRunningProcesses_v3, (device, &n, infos)))
		return true;
	for (unsigned int i = 0; i < n && i < SAMPLES; i++)
		if (nvml_tenant_find(tenant, infos[i].pid))
			return true;
	return false;
}

/*
 * The sum over the tenant's processes. Where the library does not tell processes apart, or knows
 * them by other pids, the device's own figure, which is never below the tenant's.
 */
static nvmlReturn_t nvml_tenant_rates(const struct nvml_call *call, nvmlDevice_t device,
				      nvmlUtilization_t *ret)
{
	nvmlProcessUtilizationSample_t *samples = NULL;
	unsigned int n = 0, own = 0, gpu = 0, mem = 0;
	struct nvml_tenant tenant;

	if (nvml_recent_samples(device, &samples, &n) != NVML_SUCCESS)
		return NVML_REAL(nvmlDeviceGetUtilizationRates, (device, ret));
	nvml_tenant_get(call, &tenant);
	for (int i = 0; i < tenant.n; i++) {
		const nvmlProcessUtilizationSample_t *newest = NULL;

		for (unsigned int k = 0; k < n; k++)
			if (samples[k].pid == (unsigned int)tenant.process[i].driver_pid &&
			    (!newest || samples[k].timeStamp > newest->timeStamp))
				newest = &samples[k];
		if (!newest)
			continue;
		own++;
		gpu += newest->smUtil <= 100 ? newest->smUtil : 0; /* larger is "not known" */
		mem += newest->memUtil <= 100 ? newest->memUtil : 0;
	}
	free(samples);
	if (!own && !nvml_knows_tenant(device, &tenant))
		return NVML_REAL(nvmlDeviceGetUtilizationRates, (device, ret));
	*ret = (nvmlUtilization_t){.gpu = gpu > 100 ? 100 : gpu, .memory = mem > 100 ? 100 : mem};
	return NVML_SUCCESS;
}

nvmlReturn_t hook_nvmlDeviceGetUtilizationRates(nvmlDevice_t device, nvmlUtilization_t *utilization)
{
	struct nvml_call call;

	NVML_VIEW_OR_RETURN(nvmlDeviceGetUtilizationRates, (device, utilization), device, &call);
	if (!utilization)
		return NVML_ERROR_INVALID_ARGUMENT;
	return nvml_tenant_rates(&call, device, utilization);
}

/* The first two domains are the processors and the memory; the others are not the tenant's. */
nvmlReturn_t hook_nvmlDeviceGetDynamicPstatesInfo(nvmlDevice_t device,
						  nvmlGpuDynamicPstatesInfo_t *pDynamicPstatesInfo)
{
	nvmlGpuDynamicPstatesInfo_t *info = pDynamicPstatesInfo;
	nvmlUtilization_t rates;
	struct nvml_call call;
	nvmlReturn_t r;

	NVML_VIEW_OR_RETURN(nvmlDeviceGetDynamicPstatesInfo, (device, info), device, &call);
	r = NVML_REAL(nvmlDeviceGetDynamicPstatesInfo, (device, info));
	if (r != NVML_SUCCESS)
		return r;
	r = nvml_tenant_rates(&call, device, &rates);
	if (r != NVML_SUCCESS)
		return r;
	info->utilization[0].percentage = rates.gpu;
	info->utilization[1].percentage = rates.memory;
	return NVML_SUCCESS;
}

/* Samples of the whole device cannot be split: what they show is partly somebody else's work. */
nvmlReturn_t hook_nvmlDeviceGetSamples(nvmlDevice_t device, nvmlSamplingType_t type,
				       unsigned long long lastSeenTimeStamp,
				       nvmlValueType_t *sampleValType, unsigned int *sampleCount,
				       nvmlSample_t *samples)
{
	struct nvml_call call;

	NVML_VIEW_OR_RETURN(nvmlDeviceGetSamples,
			    (device, type, lastSeenTimeStamp, sampleValType, sampleCount, samples),
			    device, &call);
	switch (type) {
	case NVML_GPU_UTILIZATION_SAMPLES:
	case NVML_MEMORY_UTILIZATION_SAMPLES:
	case NVML_ENC_UTILIZATION_SAMPLES:
	case NVML_DEC_UTILIZATION_SAMPLES:
	case NVML_JPG_UTILIZATION_SAMPLES:
	case NVML_OFA_UTILIZATION_SAMPLES:
		return NVML_ERROR_NOT_SUPPORTED;
	default:
		return NVML_REAL(nvmlDeviceGetSamples, (device, type, lastSeenTimeStamp,
							sampleValType, sampleCount, samples));
	}
}

nvmlReturn_t hook_nvmlDeviceGetProcessUtilization(nvmlDevice_t device,
						  nvmlProcessUtilizationSample_t *utilization,
						  unsigned int *processSamplesCount,
						  unsigned long long lastSeenTimeStamp)
{
	struct nvml_tenant tenant;
	struct nvml_call call;
	nvmlReturn_t r;

	NVML_VIEW_OR_RETURN(nvmlDeviceGetProcessUtilization,
			    (device, utilization, processSamplesCount, lastSeenTimeStamp), device,
			    &call);
	r = NVML_REAL(nvmlDeviceGetProcessUtilization,
		      (device, utilization, processSamplesCount, lastSeenTimeStamp));
	if (r != NVML_SUCCESS || !utilization)
		return r;
	nvml_tenant_get(&call, &tenant);
	*processSamplesCount = NVML_KEEP_OWN(&tenant, utilization, *processSamplesCount);
	return *processSamplesCount ? NVML_SUCCESS : NVML_ERROR_NOT_FOUND;
}

nvmlReturn_t hook_nvmlDeviceGetProcessesUtilizationInfo(
	nvmlDevice_t device, nvmlProcessesUtilizationInfo_t *procesesUtilInfo)
{
	nvmlProcessesUtilizationInfo_t *info = procesesUtilInfo;
	struct nvml_tenant tenant;
	struct nvml_call call;
	nvmlReturn_t r;

	NVML_VIEW_OR_RETURN(nvmlDeviceGetProcessesUtilizationInfo, (device, info), device, &call);
	if (info && info->version != nvmlProcessesUtilizationInfo_v1)
		return NVML_ERROR_ARGUMENT_VERSION_MISMATCH; /* a layout that we cannot filter */
	r = NVML_REAL(nvmlDeviceGetProcessesUtilizationInfo, (device, info));
	if (r != NVML_SUCCESS || !info->procUtilArray)
		return r;
	nvml_tenant_get(&call, &tenant);
	info->processSamplesCount = NVML_KEEP_OWN(&tenant, info->procUtilArray,
					     info->processSamplesCount);
	return info->processSamplesCount ? NVML_SUCCESS : NVML_ERROR_NOT_FOUND;
}
