/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The limits of other systems (dropin/config.h) for a tenant of `allot run`: variables and the file
 * lower the options' limits, and never raise them. The tenant's processes apply them in any case;
 * here the tenant is made with them, and people are told.
 */
#ifndef ALLOT_CLI_TENANT_ELSEWHERE_H
#define ALLOT_CLI_TENANT_ELSEWHERE_H

#include "cli/tenant/options.h"
#include "dropin/config.h"
#include "ledger/policy.h"

/* Reads this process's environment, and the file. 0, or a message and an exit status. */
int elsewhere_read(struct config *ret);

/*
 * The options of a new tenant: lowered by limits for all devices, which are known without the
 * driver; and the priority, if no option gives one.
 */
void elsewhere_apply(const struct config *config, const struct tenant_options *said,
		     struct tenant_options *ret);

/* Lowers the shares of a policy, for decisions before the processes start (mode space). */
void elsewhere_lower(const struct config *config, struct policy *policy);

/*
 * For --verbose: for each variable and line of the file, says if it is the limit in force in that
 * tenant.
 */
void elsewhere_describe(const struct config *config, const struct policy *policy);

#endif
