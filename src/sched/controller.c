/* SPDX-License-Identifier: Apache-2.0 */
#include "sched/controller.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>

static const struct controller *const controllers[CONTROLLERS] = {
	[CONTROLLER_DEFICIT] = &controller_deficit,
	[CONTROLLER_BUCKET] = &controller_bucket,
	[CONTROLLER_PID] = &controller_pid,
};

const struct controller *controller_by_id(uint32_t id)
{
	return id < CONTROLLERS ? controllers[id] : &controller_deficit;
}

int controller_parse(const char *name, enum controller_id *ret)
{
	for (size_t i = 0; i < CONTROLLERS; i++) {
		if (!strcmp(name, controllers[i]->name)) {
			*ret = (enum controller_id)i;
			return 0;
		}
	}
	return -EINVAL;
}

uint64_t controller_bill_nothing(uint64_t hot, const struct share_params *params,
				 uint64_t from_ns, uint64_t to_ns)
{
	return hot;
}
