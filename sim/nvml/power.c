/* SPDX-License-Identifier: Apache-2.0 */
/* Power and energy, as the real library says them on an H200 (docs/design/energy.md). */
#include "sim/nvml/power.h"

#include "base/now.h"
#include "sim/nvml/wall.h"

/* The figure is the mean of this second. */
#define USAGE_SAMPLES 50

unsigned int sim_nvml_power_mw(const struct sim_power *power)
{
	uint64_t last = now_monotonic_ns() / SIM_POWER_SAMPLE_NS, mw = 0;

	for (uint64_t k = 0; k < USAGE_SAMPLES; k++)
		mw += sim_power_mw(power, (last - k) * SIM_POWER_SAMPLE_NS);
	return (unsigned int)(mw / USAGE_SAMPLES);
}

nvmlReturn_t sim_nvml_power_samples(const struct sim_power *power, unsigned long long seen_us,
				    unsigned int *count, nvmlSample_t *samples)
{
	uint64_t last = now_monotonic_ns() / SIM_POWER_SAMPLE_NS;
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
		samples[n++].sampleValue.uiVal = sim_power_mw(power, k * SIM_POWER_SAMPLE_NS);
	}
	*count = n;
	return n ? NVML_SUCCESS : NVML_ERROR_NOT_FOUND;
}
