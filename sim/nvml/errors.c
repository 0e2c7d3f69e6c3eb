/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Errors of devices, as events. ALLOT_SIM_NVML_ERRORS names the beginning of files' names: whoever adds a
 * number to the file of that name with the device's index behind it raises that Xid, and what
 * "<name><index>.recovery" has is the device's recovery action, 0 where there is no such file. Without the
 * variable nothing is told, as by a driver that has neither.
 */
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "sim/nvml/entry.h"

#define STEP_US 10000

struct nvmlEventSet_st {
	bool registered[SIM_MAX_DEVICES];
	unsigned int taken[SIM_MAX_DEVICES]; /* so many numbers of its file */
};

/* NULL: there is none. */
static FILE *errors_open_file(int index, const char *end)
{
	const char *prefix = getenv("ALLOT_SIM_NVML_ERRORS");
	char path[PATH_MAX];

	if (!prefix)
		return NULL;
	snprintf(path, sizeof(path), "%s%d%s", prefix, index, end);
	return fopen(path, "re");
}

/* How many numbers a device's file has; the one of that place is in *ret. */
static unsigned int errors_read(int index, unsigned int place, unsigned long long *ret)
{
	FILE *f = errors_open_file(index, "");
	unsigned long long number;
	unsigned int n = 0;

	for (; f && fscanf(f, "%llu", &number) == 1; n++)
		if (n == place)
			*ret = number;
	if (f)
		fclose(f);
	return n;
}

nvmlReturn_t sim_nvml_recovery(int index, unsigned int *ret)
{
	FILE *f = errors_open_file(index, ".recovery");

	if (!getenv("ALLOT_SIM_NVML_ERRORS"))
		return NVML_ERROR_NOT_SUPPORTED;
	*ret = 0;
	if (f && fscanf(f, "%u", ret) != 1)
		*ret = 0;
	if (f)
		fclose(f);
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlEventSetCreate(nvmlEventSet_t *set)
{
	if (!sim_nvml_region())
		return NVML_ERROR_UNINITIALIZED;
	if (!set)
		return NVML_ERROR_INVALID_ARGUMENT;
	*set = calloc(1, sizeof(**set));
	return *set ? NVML_SUCCESS : NVML_ERROR_MEMORY;
}

nvmlReturn_t nvmlEventSetFree(nvmlEventSet_t set)
{
	if (!sim_nvml_region())
		return NVML_ERROR_UNINITIALIZED;
	free(set);
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceRegisterEvents(nvmlDevice_t device, unsigned long long eventTypes, nvmlEventSet_t set)
{
	struct sim_region *region;
	unsigned long long none;
	int index;
	nvmlReturn_t r = sim_nvml_device(device, &region, &index);

	if (r)
		return r;
	if (!set || !eventTypes)
		return NVML_ERROR_INVALID_ARGUMENT;
	if (eventTypes != nvmlEventTypeXidCriticalError || !getenv("ALLOT_SIM_NVML_ERRORS"))
		return NVML_ERROR_NOT_SUPPORTED;
	set->registered[index] = true;
	set->taken[index] = errors_read(index, UINT_MAX, &none);
	return NVML_SUCCESS;
}

static bool errors_take(nvmlEventSet_t set, nvmlEventData_t *ret)
{
	nvmlDevice_t device;

	for (int i = 0; i < SIM_MAX_DEVICES; i++) {
		if (!set->registered[i] || errors_read(i, set->taken[i], &ret->eventData) <= set->taken[i] ||
		    nvmlDeviceGetHandleByIndex_v2((unsigned int)i, &device))
			continue;
		set->taken[i]++;
		ret->device = device;
		ret->eventType = nvmlEventTypeXidCriticalError;
		ret->gpuInstanceId = ret->computeInstanceId = UINT_MAX;
		return true;
	}
	return false;
}

nvmlReturn_t nvmlEventSetWait_v2(nvmlEventSet_t set, nvmlEventData_t *data, unsigned int timeoutms)
{
	uint64_t left_us = (uint64_t)timeoutms * 1000;

	if (!sim_nvml_region())
		return NVML_ERROR_UNINITIALIZED;
	if (!set || !data)
		return NVML_ERROR_INVALID_ARGUMENT;
	while (!errors_take(set, data)) {
		if (left_us < STEP_US)
			return NVML_ERROR_TIMEOUT;
		usleep(STEP_US);
		left_us -= STEP_US;
	}
	return NVML_SUCCESS;
}
