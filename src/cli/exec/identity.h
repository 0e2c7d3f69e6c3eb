/* SPDX-License-Identifier: Apache-2.0 */
/* The user whose command root starts. */
#ifndef ALLOT_CLI_EXEC_IDENTITY_H
#define ALLOT_CLI_EXEC_IDENTITY_H

#include <limits.h>
#include <sys/types.h>

/* Zeroed: the user who runs allot. */
struct identity {
	uid_t uid;
	gid_t gid;
	char name[256]; /* "": a number alone, and no home */
	char home[PATH_MAX], shell[PATH_MAX];
};

/* Finds a user by name, or by UID:GID; for root. 0, or a message and -errno. */
int identity_find(const char *user, struct identity *ret);

/* This process is that user from now on, for good, with its groups and its environment's names. 0, or
 * an exit status with a message. */
int identity_take(const struct identity *identity);

#endif
