/* SPDX-License-Identifier: Apache-2.0 */
/* Users by the names that people know them by. */
#ifndef ALLOT_NODE_USER_H
#define ALLOT_NODE_USER_H

#include <sys/types.h>

#define USER_BYTES 64

/* Its name, or number; printable. */
void user_name(uid_t uid, char ret[static USER_BYTES]);

#endif
