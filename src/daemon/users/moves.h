/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Suspends and resumes a user's tenant: `allot suspend` and `allot resume` as root, beside this
 * daemon, since both take as long as the tenant's work does.
 */
#ifndef ALLOT_DAEMON_USERS_MOVES_H
#define ALLOT_DAEMON_USERS_MOVES_H

#include <stdbool.h>
#include <sys/types.h>

#include "control/message.h"

struct move {
	pid_t pid; /* 0: none */
	int out;   /* its output, to be read until its end, and then its end itself; -EBADF */
	bool silent; /* it has said all */
};

/* By a request for CONTROL_SUSPEND or CONTROL_RESUME. -EINVAL, -ENOENT: there is no allot; -errno. */
int moves_start(const struct control_request *request, struct move *ret);

/*
 * 1: it continues, and `out`, which may be another one now, is to be waited for; 0: it is over, and
 * the answer is filled. Never waits.
 */
int moves_read(struct move *move, struct control_answer *answer);

#endif
