/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/cuda/settings.h"

#include <pthread.h>
#include <stdlib.h>

#define MOST 1000000000u

static struct sim_settings settings;

uint32_t sim_setting(const char *name, uint32_t most, uint32_t unset)
{
	const char *text = getenv(name);
	char *end;
	unsigned long value;

	if (!text || !*text)
		return unset;
	value = strtoul(text, &end, 10);
	return *end || value > most ? unset : (uint32_t)value;
}

static uint64_t settings_us(const char *name)
{
	return sim_setting(name, MOST, 0) * UINT64_C(1000);
}

static void settings_read(void)
{
	settings = (struct sim_settings){
		.load_ns = settings_us("ALLOT_SIM_LOAD_US"),
		.launch_ns = settings_us("ALLOT_SIM_LAUNCH_US"),
		.figure_late_ns = settings_us("ALLOT_SIM_FIGURE_LATE_US"),
		.event_ns = sim_setting("ALLOT_SIM_EVENT_NS", MOST, 0),
		.event_device_ns = sim_setting("ALLOT_SIM_EVENT_DEVICE_NS", MOST, 0),
	};
}

const struct sim_settings *sim_settings(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, settings_read);
	return &settings;
}
