/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names of users, without waiting for them: a directory service at the other end of a broken
 * network may know them. One lookup runs at a time, on a thread that ends with it, and its result
 * is kept for a while.
 */
#ifndef ALLOT_DAEMON_AUDIT_NAMES_H
#define ALLOT_DAEMON_AUDIT_NAMES_H

#include "node/process/user.h"

/* Its name, printable; or its number, where the name is not known within a moment. Any thread. */
void names_find(uid_t uid, char ret[static USER_BYTES]);

#endif
