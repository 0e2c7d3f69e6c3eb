/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/tenant/options.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "amd/identity.h"
#include "base/host_memory.h"
#include "base/parse.h"
#include "cli/device/cuda.h"
#include "cli/say/arguments.h"
#include "cli/say/say.h"
#include "cli/tenant/space.h"
#include "node/compute_words.h"
#include "node/devices.h"

/* No device is busy for longer with one program's work in flight. */
#define INFLIGHT_MAX_US 1000000

enum { KEY_POLICY = 512, KEY_WEIGHT, KEY_PRIORITY, KEY_CONTROLLER, KEY_MODE, KEY_INFLIGHT, KEY_FLOOR,
       KEY_METER, KEY_LATENCY, KEY_SLICE, KEY_GTT, KEY_IDLE };

#define IDLE_LEAST_US 1000000
#define IDLE_MOST_US  (64800 * UINT64_C(1000000))

static const struct argp_option options[] = {
	{NULL, 0, NULL, 0, "Memory:", TENANT_GROUP_MEMORY},
	{"memory", 'm', "LIST", 0, "quota: one size for all devices or one for each, like 8GiB,25%",
	 TENANT_GROUP_MEMORY},
	{"gtt", KEY_GTT, "SIZE", 0,
	 "most of the machine's memory that AMD GPUs may have pinned for the tenant; off: what is free "
	 "(default)",
	 TENANT_GROUP_MEMORY},
	{"idle-suspend", KEY_IDLE, "TIME", 0,
	 "of a tenant with --overcommit: leave the devices after so long without use, like 600s; off "
	 "(default): only when others need the memory",
	 TENANT_GROUP_MEMORY},
	{NULL, 0, NULL, 0, "Compute:", TENANT_GROUP_COMPUTE},
	{"compute", 'c', "LIST", 0,
	 "share of each device's time in percent: one for all or one for each, like 25 or 25,50; "
	 "off: not limited",
	 TENANT_GROUP_COMPUTE},
	{"policy", KEY_POLICY, "cap|share", 0,
	 "cap: never more than the share (default with --compute); share: at least the share, and "
	 "the whole device while no other tenant wants it (default without)",
	 TENANT_GROUP_COMPUTE},
	{"weight", KEY_WEIGHT, "N", 0,
	 "share in proportion to the other tenants' weights, 1 to 1000", TENANT_GROUP_COMPUTE},
	{"priority", KEY_PRIORITY, "low|normal|high", 0,
	 "tenants of a higher priority go first (default normal)", TENANT_GROUP_COMPUTE},
	{"floor", KEY_FLOOR, "PART", 0,
	 "part of the time that a higher priority cannot take: up to 50%, or off (default 5%)",
	 TENANT_GROUP_COMPUTE},
	{"latency", KEY_LATENCY, "TIME", 0,
	 "how long work may wait for other tenants' turns, like 8ms; off: about 20ms, where that "
	 "costs little",
	 TENANT_GROUP_COMPUTE},
	{"slice", KEY_SLICE, "TIME", 0,
	 "length of a turn where others may wait for it, like 48ms: for throughput (default: off, "
	 "allot chooses)",
	 TENANT_GROUP_COMPUTE},
	{"controller", KEY_CONTROLLER, "deficit|bucket|pid", 0,
	 "algorithm that enforces the share (default deficit)", TENANT_GROUP_COMPUTE},
	{"mode", KEY_MODE, "turns|space", 0,
	 "turns (default): one tenant at a time; space: all at the same time, under MPS",
	 TENANT_GROUP_COMPUTE},
	{"inflight", KEY_INFLIGHT, "TIME", 0,
	 "most work under way on the device, like 2ms or 500us (default: allot chooses)",
	 TENANT_GROUP_COMPUTE},
	{"meter", KEY_METER, "on|off", 0,
	 "measure the use of compute even if it is not limited (default on where allotd runs)",
	 TENANT_GROUP_COMPUTE},
	{0},
};

static const char *const options_switch[] = {"off", "on"};

/* The place of a word in a list of n; -EINVAL and a message with the choice: it is not there. */
static int options_choose(const char *option, const char *arg, const char *const *words,
			  unsigned int n)
{
	char choice[128] = "";

	for (unsigned int i = 0; i < n; i++) {
		if (!strcmp(arg, words[i]))
			return (int)i;
		snprintf(choice + strlen(choice), sizeof(choice) - strlen(choice), "%s%s %s",
			 i == 0	      ? ""
			 : i == n - 1 ? " or "
				      : ", ",
			 option, words[i]);
	}
	return say_fail(-EINVAL, "%s \"%s\": write %s", option, arg, choice);
}

static int options_choose_controller(const char *arg)
{
	const char *words[CONTROLLERS];

	for (unsigned int id = 0; id < CONTROLLERS; id++)
		words[id] = controller_by_id(id)->name;
	return options_choose("--controller", arg, words, CONTROLLERS);
}

static int options_parse_weight(const char *arg, uint32_t *ret)
{
	uint64_t weight;

	if (parse_u64(arg, 1, POLICY_WEIGHT_MAX, &weight) < 0)
		return say_fail(-EINVAL, "--weight \"%s\": not a whole number from 1 to %d; write "
				"it like --weight 2", arg, POLICY_WEIGHT_MAX);
	*ret = (uint32_t)weight;
	return 0;
}

static int options_parse_inflight(const char *arg, uint32_t *ret_us)
{
	uint64_t us;

	if (parse_duration_us(arg, INFLIGHT_MAX_US, &us) < 0)
		return say_fail(-EINVAL, "--inflight \"%s\": not a time up to 1s; write it like "
				"--inflight 2ms or --inflight 500us", arg);
	*ret_us = (uint32_t)us;
	return 0;
}

static int options_parse_floor(const char *arg, uint32_t *ret_permille)
{
	uint32_t permille = POLICY_FLOOR_NONE;

	if (strcmp(arg, "off") &&
	    (parse_permille(arg, &permille) < 0 || permille > POLICY_FLOOR_MOST))
		return say_fail(-EINVAL, "--floor \"%s\": not a part of the time up to 50%%; write "
				"it like --floor 5, or --floor off", arg);
	*ret_permille = permille;
	return 0;
}

static int options_parse_time(const char *option, const char *arg, uint32_t *ret_us)
{
	uint64_t us = 0;

	if (strcmp(arg, "off") && (parse_duration_us(arg, POLICY_LATENCY_MOST_US, &us) < 0 ||
				   us < POLICY_LATENCY_LEAST_US))
		return say_fail(-EINVAL, "%s \"%s\": not a time from %dms to %dms; write it like "
				"%s 20ms, or %s off", option, arg, POLICY_LATENCY_LEAST_US / 1000,
				POLICY_LATENCY_MOST_US / 1000, option, option);
	*ret_us = (uint32_t)us;
	return 0;
}

static int options_parse_gtt(const char *arg, uint32_t *ret_mib)
{
	uint64_t bytes = 0;

	if (strcmp(arg, "off") && (parse_size(arg, host_memory_total(), &bytes) < 0 ||
				   bytes >> 20 == 0 || bytes >> 20 > UINT32_MAX))
		return say_fail(-EINVAL, "--gtt \"%s\": not a size of at least 1MiB; write it like "
				"--gtt 8GiB or --gtt 50%%, or --gtt off", arg);
	*ret_mib = (uint32_t)(bytes >> 20);
	return 0;
}

static int options_parse_idle(const char *arg, uint16_t *ret_s)
{
	uint64_t us = 0;

	if (strcmp(arg, "off") &&
	    (parse_duration_us(arg, IDLE_MOST_US, &us) < 0 || us < IDLE_LEAST_US))
		return say_fail(-EINVAL, "--idle-suspend \"%s\": not a time from 1s to 64800s; "
				"write it like --idle-suspend 600s, or --idle-suspend off", arg);
	*ret_s = (uint16_t)((us + 999999) / 1000000);
	return 0;
}

/* One option into `o`: its bit, 0 for a key that is not one of ours, -EINVAL after a message. */
static int options_take(int key, const char *arg, struct tenant_options *o)
{
	int r;

	switch (key) {
	case 'm':
		r = limits_parse(&limits_memory, arg, &o->memory);
		return r < 0 ? r : TENANT_MEMORY;
	case KEY_GTT:
		r = options_parse_gtt(arg, &o->gtt_mib);
		return r < 0 ? r : TENANT_GTT;
	case 'c':
		if (!strcmp(arg, "off"))
			return TENANT_COMPUTE_OFF;
		r = limits_parse(&limits_compute, arg, &o->compute);
		return r < 0 ? r : TENANT_COMPUTE;
	case KEY_POLICY:
		/* "off" is not among them: that is --compute off. */
		r = options_choose("--policy", arg, compute_policies + POLICY_COMPUTE_CAP,
				   POLICY_COMPUTES - POLICY_COMPUTE_CAP);
		if (r < 0)
			return r;
		o->policy = (enum policy_compute)(POLICY_COMPUTE_CAP + r);
		return TENANT_POLICY;
	case KEY_WEIGHT:
		r = options_parse_weight(arg, &o->weight);
		return r < 0 ? r : TENANT_WEIGHT;
	case KEY_PRIORITY:
		r = options_choose("--priority", arg, compute_priorities, POLICY_PRIORITIES);
		if (r < 0)
			return r;
		o->priority = (enum policy_priority)r;
		return TENANT_PRIORITY;
	case KEY_CONTROLLER:
		r = options_choose_controller(arg);
		if (r < 0)
			return r;
		o->controller = (enum controller_id)r;
		return TENANT_CONTROLLER;
	case KEY_MODE:
		r = options_choose("--mode", arg, compute_modes, POLICY_MODES);
		if (r < 0)
			return r;
		o->mode = (enum policy_mode)r;
		return TENANT_MODE;
	case KEY_FLOOR:
		r = options_parse_floor(arg, &o->floor_permille);
		return r < 0 ? r : TENANT_FLOOR;
	case KEY_LATENCY:
		r = options_parse_time("--latency", arg, &o->latency_us);
		return r < 0 ? r : TENANT_LATENCY;
	case KEY_SLICE:
		r = options_parse_time("--slice", arg, &o->slice_us);
		return r < 0 ? r : TENANT_SLICE;
	case KEY_IDLE:
		r = options_parse_idle(arg, &o->idle_s);
		return r < 0 ? r : TENANT_IDLE_SUSPEND;
	case KEY_METER:
		r = options_choose("--meter", arg, options_switch, 2);
		if (r < 0)
			return r;
		o->meter = r;
		return TENANT_METER;
	case KEY_INFLIGHT:
		r = options_parse_inflight(arg, &o->inflight_us);
		return r < 0 ? r : TENANT_INFLIGHT;
	}
	return 0;
}

static error_t options_parse(int key, char *arg, struct argp_state *state)
{
	struct tenant_options *o = state->input;
	int said = options_take(key, arg, o);

	/*
	 * One error for all: argp takes E2BIG, which limits_parse() may answer, for an unknown
	 * option.
	 */
	if (said < 0)
		return EINVAL;
	if (!said)
		return ARGP_ERR_UNKNOWN;
	o->said |= (unsigned int)said;
	for (const struct argp_option *option = options; !arguments_at_end(option); option++)
		if (option->key == key)
			snprintf(o->words + strlen(o->words), sizeof(o->words) - strlen(o->words),
				 " --%s %s", option->name, arg);
	return 0;
}

const struct argp tenant_options_argp = {.options = options, .parser = options_parse};

int tenant_options_take_trace(const char *arg, struct tenant_options *o)
{
	int r = options_choose("--trace", arg, options_switch, 2);

	if (r < 0)
		return EINVAL;
	o->trace = r;
	o->said |= TENANT_TRACE;
	snprintf(o->words + strlen(o->words), sizeof(o->words) - strlen(o->words), " --trace %s", arg);
	return 0;
}

const struct limits *tenant_options_by_device(const struct tenant_options *o)
{
	return o->memory.n > 1 ? &o->memory : o->compute.n > 1 ? &o->compute : NULL;
}

/* The options that were given of those that limit compute. */
static unsigned int options_of_compute(const struct tenant_options *o)
{
	return o->said & ~(unsigned int)(TENANT_MEMORY | TENANT_IDLE_SUSPEND | TENANT_METER | TENANT_TRACE |
					   TENANT_GTT);
}

static int options_compute_off(const struct tenant_options *o, struct policy *policy)
{
	if (options_of_compute(o) != TENANT_COMPUTE_OFF)
		return say_fail(-EINVAL, "--compute off: nothing is left for the other options to "
				"act on (%s); write --compute off alone, or a share like --compute "
				"25", o->words + 1);
	policy->compute = POLICY_COMPUTE_OFF;
	policy->mode = POLICY_MODE_TURNS;
	policy->controller = CONTROLLER_DEFICIT;
	policy->priority = POLICY_PRIORITY_NORMAL;
	policy->weight = policy->inflight_us = policy->slice_us = policy->floor_permille = 0;
	policy->latency_us = 0;
	for (unsigned int i = 0; i < policy->ndevices; i++)
		policy->device[i].share_permille = 0;
	return 0;
}

/* Options for a tenant that takes turns: without more they are of a part by weight. */
#define OPTIONS_OF_TURNS \
	(TENANT_WEIGHT | TENANT_PRIORITY | TENANT_FLOOR | TENANT_LATENCY | TENANT_SLICE)

/* A tenant keeps the policy that it has; a share begins as a cap, a weight as a part. */
static enum policy_compute options_policy_wanted(const struct tenant_options *o,
						 const struct policy *old)
{
	if (o->said & TENANT_POLICY)
		return o->policy;
	if (old->compute != POLICY_COMPUTE_OFF)
		return (enum policy_compute)old->compute;
	if (o->said & TENANT_COMPUTE)
		return POLICY_COMPUTE_CAP;
	return o->said & OPTIONS_OF_TURNS ? POLICY_COMPUTE_SHARE : POLICY_COMPUTE_OFF;
}

/* Checks that the options, put into a policy that was `old`, make sense together. */
static int options_check_compute(const struct tenant_options *o, const struct policy *policy,
				 uint32_t old)
{
	unsigned int shares = 0;

	for (unsigned int i = 0; i < policy->ndevices; i++)
		shares += policy->device[i].share_permille > 0;
	if (policy->compute == POLICY_COMPUTE_OFF)
		say_error("%s: of what share? give one too, like --compute 25 or --weight 2",
			  o->words + 1);
	else if (policy->compute == POLICY_COMPUTE_CAP && shares < policy->ndevices)
		say_error("%s: a cap at what? give a share too, like --policy cap --compute 25",
			  o->words + 1);
	else if (policy->compute == POLICY_COMPUTE_SHARE && old == POLICY_COMPUTE_OFF && !shares &&
		 !(o->said & OPTIONS_OF_TURNS))
		say_error("%s: which share? give one too, like --policy share --compute 25 or "
			  "--policy share --weight 2",
			  o->words + 1);
	else if (policy->compute == POLICY_COMPUTE_SHARE && (o->said & TENANT_COMPUTE) &&
		 (o->said & TENANT_WEIGHT))
		say_error("--weight %u: under --policy share it says the same as --compute %s; "
			  "give one of the two, like --policy share --weight 2",
			  o->weight, o->compute.text);
	else
		return 0;
	return -EINVAL;
}

static int options_apply_compute(const struct tenant_options *o, struct policy *policy)
{
	uint32_t old = policy->compute;

	if (!options_of_compute(o))
		return 0;
	if (o->said & TENANT_COMPUTE_OFF)
		return options_compute_off(o, policy);
	policy->compute = options_policy_wanted(o, policy);
	if (o->said & TENANT_WEIGHT)
		policy->weight = o->weight;
	else if ((o->said & TENANT_COMPUTE) && policy->compute == POLICY_COMPUTE_SHARE)
		policy->weight = 0; /* which went before the share */
	if (o->said & TENANT_PRIORITY)
		policy->priority = o->priority;
	if (o->said & TENANT_FLOOR)
		policy->floor_permille = o->floor_permille;
	if (o->said & TENANT_LATENCY)
		policy->latency_us = o->latency_us;
	if (o->said & TENANT_SLICE)
		policy->slice_us = o->slice_us;
	if (o->said & TENANT_CONTROLLER)
		policy->controller = o->controller;
	if (o->said & TENANT_MODE)
		policy->mode = o->mode;
	if (o->said & TENANT_INFLIGHT)
		policy->inflight_us = o->inflight_us;
	if (policy->mode == POLICY_MODE_SPACE && space_check_part(policy))
		return -EINVAL;
	return options_check_compute(o, policy, old);
}

int tenant_options_apply(const struct tenant_options *o, struct policy *policy)
{
	int r = limits_apply(&o->memory, policy);

	if (r < 0)
		return r;
	if (o->said & TENANT_METER)
		policy->meter = o->meter;
	if (o->said & TENANT_TRACE)
		policy->trace = o->trace;
	if (o->said & TENANT_GTT)
		policy->gtt_mib = o->gtt_mib;
	if (o->said & TENANT_IDLE_SUSPEND)
		policy->idle_s = o->idle_s;
	r = limits_apply(&o->compute, policy);
	return r < 0 ? r : options_apply_compute(o, policy);
}

/* None of the tenant's devices is of NVIDIA, as far as that is known. */
static bool options_are_for_amd(const struct policy *policy)
{
	static struct devices amd;
	bool named = !(policy->flags & POLICY_ALL_DEVICES);

	for (unsigned int i = 0; named && i < policy->ndevices; i++)
		if (!amd_identity_is(policy->device[i].uuid))
			return false;
	if (named)
		return true;
	if (cuda_context_bytes())
		return false;
	devices_read_amd(&amd);
	return amd.n > 0;
}

/* Appends a name to "a, b and c"; `left`: how many follow. */
static void options_list(char names[static 128], const char *name, unsigned int left)
{
	size_t n = strlen(names);

	snprintf(names + n, 128 - n, "%s%s", !n ? "" : left ? ", " : " and ", name);
}

void tenant_options_note_unused(const struct tenant_options *o, const struct policy *policy)
{
	static const struct {
		unsigned int bit;
		const char *name;
	} unused[] = {{TENANT_PRIORITY, "--priority"},	   {TENANT_FLOOR, "--floor"},
		      {TENANT_LATENCY, "--latency"},	   {TENANT_MODE, "--mode"},
		      {TENANT_CONTROLLER, "--controller"}, {TENANT_INFLIGHT, "--inflight"}};
	bool turns = policy->flags & POLICY_OVERCOMMIT; /* on memory, in the order of priorities */
	unsigned int said = 0;
	char names[128] = "";

	for (size_t i = turns; i < sizeof(unused) / sizeof(unused[0]); i++)
		said |= o->said & unused[i].bit;
	if (!said || !options_are_for_amd(policy))
		return;
	for (size_t i = 0; i < sizeof(unused) / sizeof(unused[0]); i++)
		if (said & unused[i].bit) {
			said &= ~unused[i].bit;
			options_list(names, unused[i].name, said);
		}
	say_note("note: %s %s nothing on AMD GPUs, where tenants work side by side; --compute and "
		 "--weight do",
		 names, strchr(names, ' ') ? "do" : "does");
}
