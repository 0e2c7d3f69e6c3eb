/* SPDX-License-Identifier: Apache-2.0 */
/* Lists of limits as options take them, with commas: one for all devices or one for each. */
#ifndef ALLOT_CLI_DEVICE_LIMITS_H
#define ALLOT_CLI_DEVICE_LIMITS_H

#include <stdbool.h>

#include "base/parse.h"
#include "ledger/policy.h"
#include "node/devices.h"
#include "text/units.h"

/* A kind of limit: its option, and its words. */
struct limits_kind;
extern const struct limits_kind limits_memory;	/* --memory: sizes or parts of the device */
extern const struct limits_kind limits_compute; /* --compute: parts of the device's time */

struct limits {
	const struct limits_kind *kind;
	const char *text; /* as given, for messages; NULL: not given */
	unsigned int n;
	struct size_spec spec[POLICY_DEVICES];
};

/* 0, or a message that names the argument and shows a right one, and a negative value. */
int limits_parse(const struct limits_kind *kind, const char *text, struct limits *ret);

/*
 * Puts the limits into the policy's devices, in their order. Where they were not given, or are as
 * many as the devices, 0; else a message and a negative value.
 */
int limits_apply(const struct limits *limits, struct policy *policy);

/*
 * True if one of the limits is a size that a device may not have, so that the driver should be
 * asked.
 */
bool limits_may_exceed(const struct limits *limits);

/*
 * Says which memory limits are more than their devices have. That is no error: one command line may
 * be for several machines.
 */
void limits_note_excess(const struct policy *policy, const struct devices *devices);

/* "--memory" */
const char *limits_option(const struct limits *limits);

/* A memory limit: "8 GiB", "25%", "no limit". */
struct units_text limits_words(const struct policy_device *device);

/* "8 GiB", "what is free": of the machine's memory that AMD's GPUs have pinned. */
struct units_text limits_gtt_words(const struct policy *policy);

#endif
