/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Mode space on the command's side: a tenant's programs are clients of the runtime directory's MPS
 * daemon and are told their part of the SMs, and their priority, by their environment. The guest
 * checks all of it again.
 */
#ifndef ALLOT_CLI_TENANT_SPACE_H
#define ALLOT_CLI_TENANT_SPACE_H

#include <stdbool.h>

#include "ledger/policy.h"

/*
 * Before there is such a tenant: whether this machine, the runtime directory and the caller's
 * environment allow for mode space. 0, or a message and an exit status.
 */
int space_check(void);

/* Checks that the policy's shares can be parts of the SMs. 0, or an exit status after a message. */
int space_check_part(const struct policy *policy);

/*
 * With the tenant there: a daemon that answers, started if need be, and the environment that makes
 * the command its client. 0, or a message and an exit status.
 */
int space_enter(const struct policy *policy);

/* For `allot set` on a running tenant: prints which programs a new part or priority applies to. */
void space_report(const struct policy *before, const struct policy *after);

/* The daemon, as `allot doctor` asks after it: 0, or errors of mps_daemon_ask. */
int space_daemon(const char *runtime);

/* Ends a daemon that no tenant of the runtime directory needs any more: true if it was told to. */
bool space_sweep(const char *runtime);

/* For --verbose: prints the variables of space_enter; nothing for a policy of another mode. */
void space_describe(const struct policy *policy);

#endif
