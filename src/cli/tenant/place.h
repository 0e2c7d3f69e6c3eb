/* SPDX-License-Identifier: Apache-2.0 */
/* Which tenant a name means: one of this user's, or one that is beside root's runtime directory. */
#ifndef ALLOT_CLI_TENANT_PLACE_H
#define ALLOT_CLI_TENANT_PLACE_H

#include <limits.h>
#include <stdbool.h>

#include "ledger/policy.h"
#include "node/process/user.h"

struct place {
	char runtime[PATH_MAX];
	char name[POLICY_NAME_BYTES]; /* whole, with "@UID" */
	char dir[PATH_MAX];
	bool remote; /* allotd changes it for us */
};

/*
 * NAME, NAME@UID or NAME@USER; a plain one of an ordinary user is that user's with allotd, where there
 * is one. It need not be there. 0, or a message and -errno.
 */
int place_find(const char *name, struct place *ret);

/* "alice", or the number of a user without a name, in words for people. */
struct place_user {
	char s[USER_BYTES];
};
struct place_user place_user_words(const char *name);

#endif
