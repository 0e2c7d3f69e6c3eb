/* SPDX-License-Identifier: Apache-2.0 */
/* Users by the names that people know them by. */
#ifndef ALLOT_NODE_USER_H
#define ALLOT_NODE_USER_H

#include <sys/types.h>

#define USER_BYTES 64

/* Its name, or number; printable. Takes as long as whoever knows the names likes. */
typedef void user_namer(uid_t uid, char ret[static USER_BYTES]);
user_namer user_name;

#endif
