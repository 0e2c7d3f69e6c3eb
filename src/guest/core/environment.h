/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the environment said of limits when the library was loaded. A program may clear its
 * environment, or write over it, before its first call for a GPU; that changes no limit.
 */
#ifndef ALLOT_GUEST_CORE_ENVIRONMENT_H
#define ALLOT_GUEST_CORE_ENVIRONMENT_H

#include <stdbool.h>
#include <stddef.h>

/* "NAME=value", a NULL behind the last; the program's own where nothing was said at first. */
char *const *environment_limits(void);
/* A variable of these; NULL: it is not there. */
const char *environment_get(const char *name);

/*
 * Did `allot run` have the library loaded? It names it by a path with a "/./" in it, which means
 * the same file, and stays with the process whatever becomes of its environment.
 */
bool environment_is_run(void);

/*
 * The tenant's directory beside a library that was loaded so, as a container has it (cdi/spec.h):
 * there each process is of the tenant, whatever its environment says. False where there is none.
 */
bool environment_find_tenant(char *ret, size_t len);

#endif
