/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The options for a tenant's limits: described once, for each command that makes or changes a
 * tenant.
 */
#ifndef ALLOT_CLI_TENANT_OPTIONS_H
#define ALLOT_CLI_TENANT_OPTIONS_H

#include <argp.h>
#include <stdbool.h>

#include "cli/device/limits.h"
#include "ledger/policy.h"
#include "sched/controller.h"

enum tenant_option {
	TENANT_MEMORY = 1 << 0,
	TENANT_COMPUTE = 1 << 1,
	TENANT_COMPUTE_OFF = 1 << 2,
	TENANT_POLICY = 1 << 3,
	TENANT_WEIGHT = 1 << 4,
	TENANT_PRIORITY = 1 << 5,
	TENANT_CONTROLLER = 1 << 6,
	TENANT_MODE = 1 << 7,
	TENANT_INFLIGHT = 1 << 8,
	TENANT_FLOOR = 1 << 9,
	TENANT_METER = 1 << 10,
	TENANT_TRACE = 1 << 11,
	TENANT_LATENCY = 1 << 12,
	TENANT_SLICE = 1 << 13,
	TENANT_GTT = 1 << 14,
	TENANT_IDLE_SUSPEND = 1 << 15,
};

/* Groups of options in --help, in their order. The command has its own first, and behind these. */
enum tenant_group { TENANT_GROUP_MEMORY = 1, TENANT_GROUP_COMPUTE, TENANT_GROUPS };

/* The sources of settings, for people; NULL: an option, or none. */
struct tenant_askers {
	const char *memory, *compute, *priority, *overcommit;
};

/* Zeroed: nothing was said. */
struct tenant_options {
	unsigned int said; /* enum tenant_option */
	struct limits memory, compute;
	enum policy_compute policy;
	enum policy_mode mode;
	enum policy_priority priority;
	enum controller_id controller;
	bool meter, trace;
	uint32_t weight, inflight_us, floor_permille; /* the last as the policy has it */
	uint32_t latency_us, slice_us, gtt_mib; /* 0: the default */
	uint16_t idle_s; /* 0: off */
	struct tenant_askers elsewhere;
	char words[256]; /* all of them, as given: " --memory 8GiB --compute 25" */
};

/*
 * To be a child of a command's parser, with a struct tenant_options for its input. argp_parse()
 * answers EINVAL, after a message, for a value that cannot be right.
 */
extern const struct argp tenant_options_argp;

/*
 * --trace, which has a value in `allot set` and none in `allot run`: "on" or "off". 0, or EINVAL
 * after a message.
 */
int tenant_options_take_trace(const char *arg, struct tenant_options *options);

/* The list that gives devices different limits; NULL where all have the same. */
const struct limits *tenant_options_by_device(const struct tenant_options *options);

/*
 * Puts the given options into a policy, and keeps the rest. 0, or a message and a negative value.
 */
int tenant_options_apply(const struct tenant_options *options, struct policy *policy);

/* Says so where options were given that do nothing on the tenant's devices. */
void tenant_options_note_unused(const struct tenant_options *options, const struct policy *policy);

#endif
