/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tenants of the runtime directory as the commands see them, and the end of tenants without a
 * name of their own: `allot run` replaces itself by the command, so nobody is left to remove such a
 * tenant. It notes which process began it, and the next `allot run` or `allot ps` removes tenants
 * whose process is gone.
 */
#ifndef ALLOT_CLI_TENANT_TENANTS_H
#define ALLOT_CLI_TENANT_TENANTS_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>

#include "ledger/snapshot.h"

struct tenant_entry {
	char name[POLICY_NAME_BYTES];
	char dir[PATH_MAX];
	bool generated;		  /* `allot run` chose the name */
	bool abandoned;		  /* generated, and the process that began it is gone */
	int error;		  /* why there is no snapshot, -errno */
	struct snapshot *snapshot; /* NULL on error */
};

struct tenants {
	char runtime[PATH_MAX];
	size_t n;
	struct tenant_entry *list;
};

/*
 * All tenants but abandoned ones that nobody uses. 0, or a message and a negative value. A
 * runtime directory that does not exist has none. The figures are those that the tenants' processes
 * noted last; figures.h has the driver's own of now.
 */
int tenants_load(struct tenants *ret);
void tenants_free(struct tenants *tenants);

unsigned int tenants_live(const struct snapshot *snapshot);

/* Notes in a tenant's directory that this process began it and that its name was generated. */
int tenants_mark_generated(const char *dir);

/*
 * Removes abandoned tenants that no process uses and that are older than the grace, and what was
 * there for them alone; and cgroups of commands that are over.
 */
#define TENANTS_GRACE_S 60
void tenants_sweep(const char *runtime);

/* What an error of opening a tenant means, in words. */
const char *tenants_error_words(int err);

#endif
