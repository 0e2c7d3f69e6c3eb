/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/tenant_options.h"

#include <stdlib.h>

#include "cli/command.h"

static const struct argp_option options[] = {
	{"memory", 'm', "LIST", 0, "quota: one size for all devices or one for each, like 8GiB,25%",
	 0},
	{0},
};

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct tenant_options *o = state->input;

	switch (key) {
	case 'm':
		if (limits_parse(arg, &o->memory) < 0)
			exit(EXIT_ALLOT);
		return 0;
	}
	return ARGP_ERR_UNKNOWN;
}

const struct argp tenant_options_argp = {.options = options, .parser = parse};

bool tenant_options_given(const struct tenant_options *o)
{
	return o->memory.text;
}

bool tenant_options_by_device(const struct tenant_options *o)
{
	return o->memory.n > 1;
}

int tenant_options_apply(const struct tenant_options *o, struct policy *policy)
{
	return limits_apply(&o->memory, policy);
}
