/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The socket by which users have tenants made and changed (control/message.h). One request a
 * connection, read when it arrives. A silent connection is closed, and a user with too many
 * connections is refused, so that no user keeps others from it.
 */
#ifndef ALLOT_DAEMON_USERS_CONTROL_H
#define ALLOT_DAEMON_USERS_CONTROL_H

#include "base/loop.h"
#include "daemon/users/requests.h"

struct control;

/* For root, which alone can make tenants for others. The loop's thread answers. -errno. */
int control_open(struct loop *loop, const struct requests *requests, struct control **ret);
/*
 * Removes the socket, as without a daemon users have tenants of their own; not where the site has
 * bounds. Takes NULL.
 */
void control_close(struct control *control);

#endif
