/* SPDX-License-Identifier: Apache-2.0 */
/* Asks allotd, as a user whose tenants it makes. */
#ifndef ALLOT_CONTROL_ASK_H
#define ALLOT_CONTROL_ASK_H

#include <limits.h>
#include <stdbool.h>
#include <sys/types.h>

#include "control/message.h"

/* Where the socket of a runtime directory of root's is. -ENAMETOOLONG. */
int control_socket_path(const char *runtime, char ret[static PATH_MAX]);

/*
 * Finds out if allotd makes the tenants of this machine's users, and in which runtime directory: 1
 * or 0. -ENOTCONN: the site wants a daemon and none runs; -EPERM: the socket is not root's; or
 * -errno. The machine's root may ask, too, but makes its own tenants.
 */
int control_find(char ret_runtime[static PATH_MAX]);

/* The answer's own error is in it. -ECONNREFUSED: nobody listens; -ETIMEDOUT, -EPROTO, or -errno. */
int control_ask(const char *runtime, struct control_request *request, struct control_answer *ret);

/*
 * The same, not waiting for longer than that, and by which process allotd is; 0 where that is not
 * known, also on an error.
 */
int control_ask_within(const char *runtime, unsigned int patience_s, struct control_request *request,
		       struct control_answer *ret, pid_t *ret_pid);

#endif
