/* SPDX-License-Identifier: Apache-2.0 */
/* Power and energy, as the real library says them on an H200 (docs/design/energy.md). */
#include "sim/nvml/power.h"

#include "sim/nvml/entry.h"
#include "sim/nvml/wall.h"
#include "sim/power.h"

/* The figure is the mean of this second. */
#define USAGE_SAMPLES 50

nvmlReturn_t nvmlDeviceGetPowerUsage(nvmlDevice_t device, unsigned int *power)
{
	uint64_t last = sim_nvml_clock_ns(CLOCK_MONOTONIC) / SIM_POWER_SAMPLE_NS, mw = 0;
	struct sim_region *region;
	int i;
	nvmlReturn_t r = sim_nvml_device(device, &region, &i);

	if (r)
		return r;
	if (!power)
		return NVML_ERROR_INVALID_ARGUMENT;
	for (uint64_t k = 0; k < USAGE_SAMPLES; k++)
		mw += sim_power_mw(&region->device[i].engine.power,
				   (last - k) * SIM_POWER_SAMPLE_NS);
	*power = (unsigned int)(mw / USAGE_SAMPLES);
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetTotalEnergyConsumption(nvmlDevice_t device, unsigned long long *energy)
{
	struct sim_region *region;
	int i;
	nvmlReturn_t r = sim_nvml_device(device, &region, &i);

	if (r)
		return r;
	if (!energy)
		return NVML_ERROR_INVALID_ARGUMENT;
	*energy = sim_power_mj(&region->device[i].engine.power, sim_nvml_clock_ns(CLOCK_MONOTONIC));
	return NVML_SUCCESS;
}

nvmlReturn_t sim_nvml_power_samples(struct sim_region *region, int device, unsigned long long seen_us,
				    unsigned int *count, nvmlSample_t *samples)
{
	uint64_t last = sim_nvml_clock_ns(CLOCK_MONOTONIC) / SIM_POWER_SAMPLE_NS;
	unsigned int n = 0;

	if (!samples) {
		*count = SIM_POWER_SAMPLES;
		return NVML_SUCCESS;
	}
	for (uint64_t k = last - SIM_POWER_SAMPLES + 1; k <= last && n < *count; k++) {
		unsigned long long at_us = sim_nvml_wall_us(k * SIM_POWER_SAMPLE_NS);

		if (at_us <= seen_us)
			continue;
		/* The real one leaves the upper half as it was. */
		samples[n].timeStamp = at_us;
		samples[n++].sampleValue.uiVal =
			sim_power_mw(&region->device[device].engine.power, k * SIM_POWER_SAMPLE_NS);
	}
	*count = n;
	return n ? NVML_SUCCESS : NVML_ERROR_NOT_FOUND;
}
