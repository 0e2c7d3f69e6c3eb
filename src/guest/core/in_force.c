/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/core/in_force.h"

#include <string.h>

/* Gives each of CUDA's devices an entry of its own: they may have shares that differ. */
static void in_force_name_devices(const struct guest *guest, struct policy *policy)
{
	bool known = atomic_load_explicit(&guest->slot, memory_order_acquire);

	for (int i = 0; known && i < guest->ndevices; i++) {
		const struct guest_device *device = &guest->device[i];
		const struct policy_device *found = policy_find(policy, device->uuid);

		if (!found || memcmp(found->uuid, device->uuid, sizeof(found->uuid)) == 0 ||
		    policy->ndevices == POLICY_DEVICES)
			continue;
		policy->device[policy->ndevices] = *found;
		memcpy(policy->device[policy->ndevices++].uuid, device->uuid, sizeof(found->uuid));
	}
}

void in_force_lower(const struct guest *guest, struct policy *policy)
{
	const struct config *config = &guest->config;
	bool off = policy->compute == POLICY_COMPUTE_OFF;

	if (config_compute(config) == POLICY_COMPUTE_OFF)
		return;
	in_force_name_devices(guest, policy);
	policy->compute = POLICY_COMPUTE_CAP;
	for (uint32_t i = 0; i < policy->ndevices; i++) {
		struct policy_device *device = &policy->device[i];
		bool all = i == 0 && (policy->flags & POLICY_ALL_DEVICES);
		/* A share for all devices applies to AMD's in the end, and these count as 0. */
		unsigned int ordinal = all ? 0 : guest_ordinal(guest, device->uuid);
		uint32_t share = config_share_permille(config, ordinal);

		device->share_permille =
			config_smaller_share(off ? 0 : device->share_permille, share);
	}
}

int in_force_policy(const struct guest *guest, struct policy *ret)
{
	int r = policy_read(guest->policy_map, ret);

	if (!r)
		in_force_lower(guest, ret);
	return r;
}
