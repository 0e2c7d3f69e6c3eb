/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Utilisation, as coarse and as stale as the real library's: integer percent of 1/6 s, new every
 * 200 ms, and a process's averaged over the samples that the caller has not seen and in which it
 * worked. Memory traffic and the video engines are not simulated and read 0.
 */
#include "base/now.h"
#include "sim/nvml/entry.h"
#include "sim/nvml/power.h"
#include "sim/nvml/wall.h"
#include "sim/window.h"

/* The real library refuses smaller buffers, however few processes there are. */
#define LEAST_ROOM 72

static uint64_t utilization_window_time_us(uint64_t window)
{
	return sim_nvml_wall_us(window * SIM_WINDOW_EVERY_NS);
}

static unsigned int utilization_percent(uint64_t busy_ns)
{
	uint64_t p = (busy_ns * 100 + SIM_WINDOW_NS / 2) / SIM_WINDOW_NS;

	return p > 100 ? 100 : (unsigned int)p;
}

/* The first window that ended after that time, of those that are kept. */
static uint64_t utilization_window_after(uint64_t seen_us, uint64_t last)
{
	uint64_t first = last < SIM_WINDOW_KEPT ? 1 : last - SIM_WINDOW_KEPT + 1;

	while (first <= last && utilization_window_time_us(first) <= seen_us)
		first++;
	return first;
}

static uint64_t utilization_busy_of(struct sim_region *region, int device, uint32_t row,
				    uint64_t window)
{
	return sim_windows_busy_ns(sim_engine_row_windows(&region->device[device].engine, row),
				   window);
}

nvmlReturn_t nvmlDeviceGetUtilizationRates(nvmlDevice_t device, nvmlUtilization_t *utilization)
{
	uint64_t window = sim_window_at(now_monotonic_ns()), busy = 0;
	struct sim_region *region;
	int i;
	nvmlReturn_t r = sim_nvml_device(device, &region, &i);

	if (r)
		return r;
	if (!utilization)
		return NVML_ERROR_INVALID_ARGUMENT;
	/* A process that died within the window worked in it, too. */
	for (uint32_t row = 0; row < region->nrows; row++)
		busy += utilization_busy_of(region, i, row, window);
	*utilization = (nvmlUtilization_t){.gpu = utilization_percent(busy)};
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetDynamicPstatesInfo(nvmlDevice_t device,
					     nvmlGpuDynamicPstatesInfo_t *pDynamicPstatesInfo)
{
	nvmlUtilization_t rates;
	nvmlReturn_t r = nvmlDeviceGetUtilizationRates(device, &rates);

	if (r)
		return r;
	if (!pDynamicPstatesInfo)
		return NVML_ERROR_INVALID_ARGUMENT;
	*pDynamicPstatesInfo = (nvmlGpuDynamicPstatesInfo_t){
		.utilization = {{.bIsPresent = 1, .percentage = rates.gpu},
				{.bIsPresent = 1, .percentage = rates.memory}}};
	return NVML_SUCCESS;
}

#define SAMPLES 100

/* Every sample is 0, whatever its kind, but of power. */
nvmlReturn_t nvmlDeviceGetSamples(nvmlDevice_t device, nvmlSamplingType_t type,
				  unsigned long long lastSeenTimeStamp,
				  nvmlValueType_t *sampleValType, unsigned int *sampleCount,
				  nvmlSample_t *samples)
{
	struct sim_region *region;
	int i;
	nvmlReturn_t r = sim_nvml_device(device, &region, &i);

	if (r)
		return r;
	if (!sampleValType || !sampleCount || type >= NVML_SAMPLINGTYPE_COUNT)
		return NVML_ERROR_INVALID_ARGUMENT;
	*sampleValType = NVML_VALUE_TYPE_UNSIGNED_INT;
	if (type == NVML_TOTAL_POWER_SAMPLES)
		return sim_nvml_power_samples(&region->device[i].engine.power, lastSeenTimeStamp,
					      sampleCount, samples);
	if (!samples || *sampleCount > SAMPLES)
		*sampleCount = SAMPLES;
	for (unsigned int k = 0; samples && k < *sampleCount; k++)
		samples[k] =
			(nvmlSample_t){.timeStamp = now_ns(CLOCK_REALTIME) / 1000};
	return NVML_SUCCESS;
}

/*
 * One sample a process that worked in these windows: its mean over those in which it did, and the
 * time of the last of them.
 */
static bool utilization_sample(struct sim_region *region, int device, uint32_t row, uint64_t first,
			       uint64_t last, nvmlProcessUtilizationInfo_v1_t *ret)
{
	uint64_t sum = 0, newest = 0, n = 0;

	for (uint64_t window = first; window <= last; window++) {
		uint64_t busy = utilization_busy_of(region, device, row, window);

		if (!busy)
			continue;
		sum += busy;
		newest = window;
		n++;
	}
	if (!n)
		return false;
	*ret = (nvmlProcessUtilizationInfo_v1_t){
		.timeStamp = utilization_window_time_us(newest),
		.pid = sim_row_driver_pid(region, (int)row),
		.smUtil = utilization_percent(sum / n),
	};
	return true;
}

static unsigned int utilization_collect(struct sim_region *region, int device, uint64_t seen_us,
					nvmlProcessUtilizationInfo_v1_t out[SIM_MAX_PROCESSES])
{
	uint64_t last = sim_window_at(now_monotonic_ns());
	uint64_t first = utilization_window_after(seen_us, last);
	unsigned int n = 0;

	sim_region_lock(region);
	sim_region_reap(region);
	for (uint32_t row = 0; row < region->nrows; row++) {
		const struct sim_process_row *p = &region->row[row];

		if (p->state == SIM_ROW_LIVE && p->use[device].contexts &&
		    utilization_sample(region, device, row, first, last, &out[n]))
			n++;
	}
	sim_region_unlock(region);
	return n;
}

/* The answer where there are `n` samples and the caller has room for *count; tells it in *count. */
static nvmlReturn_t utilization_answer(unsigned int n, const void *out, unsigned int *count)
{
	unsigned int room = out ? *count : 0;

	if (room < LEAST_ROOM || room < n) {
		*count = n > LEAST_ROOM ? n : LEAST_ROOM;
		return NVML_ERROR_INSUFFICIENT_SIZE;
	}
	*count = n;
	return n ? NVML_SUCCESS : NVML_ERROR_NOT_FOUND;
}

nvmlReturn_t nvmlDeviceGetProcessUtilization(nvmlDevice_t device,
					     nvmlProcessUtilizationSample_t *utilization,
					     unsigned int *processSamplesCount,
					     unsigned long long lastSeenTimeStamp)
{
	nvmlProcessUtilizationInfo_v1_t all[SIM_MAX_PROCESSES];
	struct sim_region *region;
	unsigned int n;
	int i;
	nvmlReturn_t r = sim_nvml_device(device, &region, &i);

	if (r)
		return r;
	if (!processSamplesCount)
		return NVML_ERROR_INVALID_ARGUMENT;
	n = utilization_collect(region, i, lastSeenTimeStamp, all);
	r = utilization_answer(n, utilization, processSamplesCount);
	for (unsigned int k = 0; k < n && !r; k++)
		utilization[k] = (nvmlProcessUtilizationSample_t){.pid = all[k].pid,
								  .timeStamp = all[k].timeStamp,
								  .smUtil = all[k].smUtil};
	return r;
}

nvmlReturn_t nvmlDeviceGetProcessesUtilizationInfo(nvmlDevice_t device,
						   nvmlProcessesUtilizationInfo_t *procesesUtilInfo)
{
	nvmlProcessUtilizationInfo_v1_t all[SIM_MAX_PROCESSES];
	nvmlProcessesUtilizationInfo_t *info = procesesUtilInfo;
	struct sim_region *region;
	unsigned int n;
	int i;
	nvmlReturn_t r = sim_nvml_device(device, &region, &i);

	if (r)
		return r;
	if (!info)
		return NVML_ERROR_INVALID_ARGUMENT;
	if (info->version != nvmlProcessesUtilizationInfo_v1)
		return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
	n = utilization_collect(region, i, info->lastSeenTimeStamp, all);
	r = utilization_answer(n, info->procUtilArray, &info->processSamplesCount);
	for (unsigned int k = 0; k < n && !r; k++)
		info->procUtilArray[k] = all[k];
	return r;
}
