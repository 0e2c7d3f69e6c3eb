/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ALLOT_SIM_NVML_POWER_H
#define ALLOT_SIM_NVML_POWER_H

#include "nvidia/nvml_api.h"
#include "sim/power.h"

/* What nvmlDeviceGetPowerUsage says, in milliwatts. */
unsigned int sim_nvml_power_mw(const struct sim_power *power);

/* nvmlDeviceGetSamples of NVML_TOTAL_POWER_SAMPLES; without `samples` it says how many there can be. */
nvmlReturn_t sim_nvml_power_samples(const struct sim_power *power, unsigned long long seen_us,
				    unsigned int *count, nvmlSample_t *samples);

#endif
