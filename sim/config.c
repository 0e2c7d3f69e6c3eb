/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/config.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/parse.h"

static int config_complain(const char *name, const char *value, const char *right)
{
	fprintf(stderr, "allot sim: %s=%s is malformed; a right one is %s=%s\n", name, value, name,
		right);
	return -EINVAL;
}

static int config_complain_of_gpus(const char *value)
{
	fprintf(stderr, "allot sim: ALLOT_SIM_GPUS=%s is not a number from 1 to %d\n", value,
		SIM_MAX_DEVICES);
	return -EINVAL;
}

static int config_get_bytes(const char *name, uint64_t unset, const char *right, uint64_t *ret)
{
	const char *s = getenv(name);

	if (!s || !*s) {
		*ret = unset;
		return 0;
	}
	return parse_size(s, 0, ret) ? config_complain(name, s, right) : 0;
}

int sim_config_read(struct sim_config *ret)
{
	const char *name = getenv("ALLOT_SIM_NAME"), *count = getenv("ALLOT_SIM_GPUS");
	const char *idle = getenv("ALLOT_SIM_CONTEXT");
	uint64_t gpus = 1, memory, context = 0;
	int r;

	if (count && *count && parse_u64(count, 1, SIM_MAX_DEVICES, &gpus))
		return config_complain_of_gpus(count);
	r = config_get_bytes("ALLOT_SIM_MEMORY", 24ull << 30, "24GiB", &memory);
	if (r)
		return r;
	memory &= ~((2ull << 20) - 1);
	if (!memory)
		return config_complain("ALLOT_SIM_MEMORY", getenv("ALLOT_SIM_MEMORY"), "24GiB");
	if (!idle || strcmp(idle, "0")) { /* which is no size, and fine here */
		r = config_get_bytes("ALLOT_SIM_CONTEXT", 520ull << 20, "520MiB", &context);
		if (r)
			return r;
	}
	*ret = (struct sim_config){
		.ndevices = (uint32_t)gpus, .memory_bytes = memory, .context_bytes = context};
	snprintf(ret->name, sizeof(ret->name), "%s", name && *name ? name : "allot simulated GPU");
	return 0;
}
