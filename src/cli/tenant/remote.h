/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tenants that allotd makes for users (control/message.h), so that all users of a machine have
 * theirs in one place. Root has no need of it.
 */
#ifndef ALLOT_CLI_TENANT_REMOTE_H
#define ALLOT_CLI_TENANT_REMOTE_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

#include "cli/tenant/options.h"
#include "control/message.h"

/* 1: those of a user are made by allotd, in that runtime directory; 0: not; or a message and -errno. */
int remote_find(uid_t user, char ret_runtime[static PATH_MAX]);

/*
 * Of this user, by its name without "@UID"; `container` as in enroll_request. 1; 0: there is one; or a
 * message and -errno.
 */
int remote_make(const char *runtime, const char *plain, const struct policy *policy,
		const struct tenant_options *options, uint32_t kind, pid_t container);

/* 0, -EAGAIN: it was changed meanwhile; or a message and -errno. */
int remote_set(const char *runtime, const char *name, const struct policy *before,
	       const struct policy *policy, const struct tenant_options *options);

/* As tenants_remove(); -ECONNABORTED after a message for other errors. */
int remote_remove(const char *runtime, const char *name, bool ended_only);

/* How a tenant is to be suspended: by this command (checkpoint/away.h), or by the daemon. */
struct away_options {
	uint64_t host_bytes; /* most that may go to host memory; 0: not said */
	uint64_t timeout_us; /* how long to wait for processes that make no progress */
	uint64_t notice_us;  /* before that: how long processes that listen have at most; 0: none */
	bool contexts;	     /* go, too */
};

/*
 * Has allotd do `allot suspend` or `allot resume` of it: 0 and its words on stdout, or as these
 * commands.
 */
int remote_move(const char *runtime, const char *name, bool away,
		const struct away_options *options);

#endif
