/* SPDX-License-Identifier: Apache-2.0 */
/* Where the tenants of this user are that no allotd made. */
#ifndef ALLOT_CLI_TENANT_RUNTIME_H
#define ALLOT_CLI_TENANT_RUNTIME_H

#include <limits.h>
#include <stdbool.h>

#include "node/tenants.h"

/* The runtime directory, or a message and a negative value. */
int runtime_find(char ret[static PATH_MAX]);

/* Returns true if it is root's, and this process a user's that may not enter it. */
bool runtime_is_roots(const char *runtime);

/*
 * Loads the visible tenants of that directory and, for a user, of root's. Errors of tenants_load.
 */
int runtime_load(const char *runtime, struct tenants *ret);

/* The tenants there (tenants_load), and all users' that allotd made; or a message and a negative value. */
int runtime_load_tenants(struct tenants *ret);

#endif
