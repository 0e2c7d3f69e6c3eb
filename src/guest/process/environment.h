/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The environment's limits at the time when the library was loaded. A program may clear its
 * environment, or write over it, before its first call for a GPU; that changes no limit.
 */
#ifndef ALLOT_GUEST_PROCESS_ENVIRONMENT_H
#define ALLOT_GUEST_PROCESS_ENVIRONMENT_H

#include <stdbool.h>

/* "NAME=value", a NULL behind the last; the program's own where nothing was said at first. */
char *const *environment_limits(void);
/* A variable of these; NULL: it is not there. */
const char *environment_get(const char *name);

#endif
