/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ends processes that a person has seen in a list. First they are found and held by descriptors, so
 * that the question is about the processes that will end; then, if the person agrees, they are
 * signalled.
 */
#ifndef ALLOT_CLI_TENANT_END_H
#define ALLOT_CLI_TENANT_END_H

#include <stddef.h>
#include <sys/types.h>

#include "node/tenants.h"

struct end {
	size_t n;
	int *pidfd;
};

/*
 * Finds the processes of a tenant: those that were started in it, and those in its slots. A slot is
 * written by its process, which is not trusted: such a process counts only if it has the tenant's
 * ledger mapped and is its user's, or its container's. 0 or -ENOMEM; there may be none.
 */
int end_find_tenant(const struct tenant_entry *tenant, struct end *ret);

/* One process. 0, -ESRCH: it is gone, or -ENOMEM. */
int end_find_process(pid_t pid, struct end *ret);

/*
 * Returns how many processes could not be signalled, and the last one's -errno. Processes that are
 * gone count as signalled.
 */
size_t end_send(const struct end *end, int sig, int *ret_error);
void end_free(struct end *end);

#endif
