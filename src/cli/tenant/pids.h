/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The processes in a tenant's slots, as pids of our namespace. A slot is written by its process,
 * which is not trusted: a pid counts only if that process has the tenant's ledger mapped.
 */
#ifndef ALLOT_CLI_TENANT_PIDS_H
#define ALLOT_CLI_TENANT_PIDS_H

#include <stddef.h>
#include <sys/types.h>

#include "cli/tenant/moving.h"

struct pids {
	size_t n;
	struct pid_entry {
		pid_t pid;
		int slot;
		char comm[16];
	} *list;
};

/* 0, or an exit status after a message: one of them cannot be reached from here. */
int pids_find(const struct moving *moving, struct pids *ret);
void pids_free(struct pids *pids);

#endif
