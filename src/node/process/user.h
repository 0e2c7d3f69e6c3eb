/* SPDX-License-Identifier: Apache-2.0 */
/* Users by the names that people know them by. */
#ifndef ALLOT_NODE_PROCESS_USER_H
#define ALLOT_NODE_PROCESS_USER_H

#include <sys/types.h>

#define USER_BYTES 64

/* Returns the user's name, or number; printable. A directory service may take long for a name. */
typedef void user_namer(uid_t uid, char ret[static USER_BYTES]);
user_namer user_name;

#endif
