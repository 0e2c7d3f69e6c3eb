/* SPDX-License-Identifier: Apache-2.0 */
/* What a process's own configuration leaves of the policy that somebody else made. */
#include "guest/core/in_force.h"

#include <string.h>

#include "dropin/variables.h"
#include "dropin/vgpu_file.h"
#include "tests/check.h"

static struct guest guest;

static void configure(const char *variable, const char *file)
{
	char *block[] = {(char *)(uintptr_t)variable, NULL};

	memset(&guest.config, 0, sizeof(guest.config));
	CHECK_EQ(variables_read(&guest.config, block), 0);
	if (file)
		CHECK_EQ(vgpu_file_parse(&guest.config, file, strlen(file)), 0);
}

/* One device, by whichever way it is limited. */
static void one(void)
{
	static const struct {
		const char *variable, *file;
		uint32_t compute, share, becomes;
	} cases[] = {
		{NULL, "UsedMem:400\n", POLICY_COMPUTE_OFF, 0, 0},
		{NULL, "UsedCores:25\n", POLICY_COMPUTE_OFF, 0, 250},
		{NULL, "UsedCores:25\n", POLICY_COMPUTE_CAP, 100, 100},
		{NULL, "UsedCores:25\n", POLICY_COMPUTE_CAP, 900, 250},
		{NULL, "UsedCores:25\n", POLICY_COMPUTE_SHARE, 0, 250}, /* by weight */
		{NULL, "UsedCores:100\n", POLICY_COMPUTE_SHARE, 300, 300},
		{NULL, "UsedCores:25\n", POLICY_COMPUTE_OFF, 100, 250}, /* which is not in force */
		{"CUDA_DEVICE_SM_LIMIT=25", NULL, POLICY_COMPUTE_OFF, 0, 250},
		{"CUDA_DEVICE_SM_LIMIT=25", NULL, POLICY_COMPUTE_CAP, 100, 100},
		{"CUDA_DEVICE_SM_LIMIT=25", NULL, POLICY_COMPUTE_SHARE, 900, 250},
		{"CUDA_DEVICE_SM_LIMIT=25", "UsedCores:10\n", POLICY_COMPUTE_CAP, 900, 100},
		{"CUDA_DEVICE_MEMORY_LIMIT=1g", NULL, POLICY_COMPUTE_SHARE, 900, 900},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct policy policy = {.ndevices = 1, .compute = cases[i].compute};
		bool capped = cases[i].becomes != cases[i].share;

		configure(cases[i].variable, cases[i].file);
		policy.device[0].share_permille = cases[i].share;
		in_force_lower(&guest, &policy);
		CHECK_EQ(policy.device[0].share_permille, cases[i].becomes);
		CHECK_EQ(policy.compute, capped ? POLICY_COMPUTE_CAP : cases[i].compute);
	}
}

/* By CUDA's numbers, of a policy that has one entry for all devices, or two. */
static void by_number(void)
{
	struct policy policy = {.ndevices = 1, .flags = POLICY_ALL_DEVICES,
				.compute = POLICY_COMPUTE_CAP};
	struct slot *const slot = (struct slot *)&guest;

	policy.device[0] = (struct policy_device){.limit_permille = 1000, .share_permille = 500};
	guest.ndevices = 3;
	for (int i = 0; i < guest.ndevices; i++)
		memset(guest.device[i].uuid, 'a' + i, sizeof(guest.device[i].uuid));
	configure("CUDA_DEVICE_SM_LIMIT_1=20", NULL);
	CHECK_EQ(guest_ordinal(&guest, guest.device[1].uuid), CONFIG_EVERY);
	atomic_store(&guest.slot, slot); /* CUDA runs */
	CHECK_EQ(guest_ordinal(&guest, guest.device[1].uuid), 1);
	in_force_lower(&guest, &policy);
	CHECK_EQ(policy_share(&policy, guest.device[0].uuid), 500);
	CHECK_EQ(policy_share(&policy, guest.device[1].uuid), 200);
	CHECK_EQ(policy_share(&policy, guest.device[2].uuid), 500);
	policy = (struct policy){.ndevices = POLICY_DEVICES, .flags = POLICY_ALL_DEVICES};
	in_force_lower(&guest, &policy); /* no room for entries: nothing is written beyond */
	CHECK_EQ(policy.ndevices, POLICY_DEVICES);
	/* A device that the tenant does not have is not given to it. */
	policy = (struct policy){.ndevices = 1};
	memcpy(policy.device[0].uuid, guest.device[2].uuid, 16);
	in_force_lower(&guest, &policy);
	CHECK(!policy_find(&policy, guest.device[1].uuid));
}

int main(void)
{
	one();
	by_number();
	return 0;
}
