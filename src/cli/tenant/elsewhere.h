/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The limits of other systems (dropin/config.h) for a tenant of `allot run`: variables and the file
 * lower what the options say, and never raise it. The tenant's processes keep to them in any
 * case; here the tenant is made so, and people are told.
 */
#ifndef ALLOT_CLI_TENANT_ELSEWHERE_H
#define ALLOT_CLI_TENANT_ELSEWHERE_H

#include "cli/tenant/options.h"
#include "dropin/config.h"
#include "ledger/policy.h"

/* Reads this process's environment, and the file. 0, or a message and an exit status. */
int elsewhere_read(struct config *ret);

/*
 * The options of a tenant that is made now: lowered by what is known without asking the driver,
 * which is a limit for all devices; and the priority, where no option says one.
 */
void elsewhere_apply(const struct config *config, const struct tenant_options *said,
		     struct tenant_options *ret);

/* Lowers the shares of a policy, for what is decided before the processes start (mode space). */
void elsewhere_lower(const struct config *config, struct policy *policy);

/* For --verbose: of each variable and line of the file whether it is what binds in that tenant. */
void elsewhere_describe(const struct config *config, const struct policy *policy);

#endif
