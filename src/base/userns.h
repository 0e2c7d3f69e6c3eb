/* SPDX-License-Identifier: Apache-2.0 */
/* User namespaces. */
#ifndef ALLOT_BASE_USERNS_H
#define ALLOT_BASE_USERNS_H

#include <stdbool.h>

/* The kernel shows this owner for files of users that the caller's user namespace does not know. */
#define USERNS_OVERFLOW_UID 65534

/* Returns true if the caller's user namespace is not the first one, in which alone all users are known. */
bool userns_is_nested(void);

#endif
