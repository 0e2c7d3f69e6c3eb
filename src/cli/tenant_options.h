/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The options that say what a tenant may use: the same, described once, for each command that makes
 * or changes a tenant.
 */
#ifndef ALLOT_CLI_TENANT_OPTIONS_H
#define ALLOT_CLI_TENANT_OPTIONS_H

#include <argp.h>
#include <stdbool.h>

#include "cli/device_limits.h"
#include "ledger/policy.h"

/* Zeroed: nothing was said. */
struct tenant_options {
	struct limits memory;
};

/*
 * To be a child of a command's parser, with a struct tenant_options for its input. Ends the program
 * with a message and status 125 for a value that cannot be right.
 */
extern const struct argp tenant_options_argp;

/* Anything was said. */
bool tenant_options_given(const struct tenant_options *options);

/* One device is told from another, so it must be known which is which. */
bool tenant_options_by_device(const struct tenant_options *options);

/* Puts what was said into a policy, and leaves the rest. 0, or a message and a negative value. */
int tenant_options_apply(const struct tenant_options *options, struct policy *policy);

#endif
