/* SPDX-License-Identifier: Apache-2.0 */
/* The --memory argument: sizes separated by commas, one for all devices or one for each. */
#ifndef ALLOT_CLI_MEMORY_LIMITS_H
#define ALLOT_CLI_MEMORY_LIMITS_H

#include "base/parse.h"
#include "cli/units.h"
#include "ledger/policy.h"

struct limits {
	unsigned int n;
	struct size_spec spec[POLICY_DEVICES];
};

/* 0, or a message that names the argument and shows a right one, and a negative value. */
int limits_parse(const char *list, struct limits *ret);

/* Whether the values fit this many devices; the message and a negative value if not. */
int limits_fit(const struct limits *limits, const char *list, unsigned int ndevices);

/* Puts the i-th limit (or the only one) into a device's policy. */
void limits_apply(const struct limits *limits, unsigned int i, struct policy_device *device);

/* "8 GiB", "25%", "no limit" */
struct units_text limits_words(const struct policy_device *device);

#endif
