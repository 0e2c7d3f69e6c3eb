/* SPDX-License-Identifier: Apache-2.0 */
/* The secret of those who may switch tenants by HTTP, in a file that only root reads. */
#ifndef ALLOT_DAEMON_SWITCH_TOKEN_H
#define ALLOT_DAEMON_SWITCH_TOKEN_H

#include <linux/limits.h>
#include <stdbool.h>

#define TOKEN_LEAST 16 /* characters */
#define TOKEN_MOST  255

struct token {
	char s[TOKEN_MOST + 1];
};

/* Why there is none: the words begin with the file, or the folder, that is wrong. */
struct token_why {
	char words[PATH_MAX + 128];
};

/*
 * Reads the file: its one line. -EPERM: others than the caller's user and root can read or change it;
 * -EINVAL: it has no token; -errno of opening it.
 */
int token_read(const char *path, struct token *ret, struct token_why *why);

/*
 * Returns true if the header Authorization has the token: "Bearer TOKEN", or "Basic " and
 * base64("allot:TOKEN"), which clients make of http://allot:TOKEN@HOST/. NULL: there is none. Takes
 * the same time for every wrong one of a length.
 */
bool token_is_in(const struct token *token, const char *authorization);

#endif
