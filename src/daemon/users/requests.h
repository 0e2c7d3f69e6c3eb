/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Users' requests (control/message.h), and their execution. Nothing in a request is trusted but the
 * sender's identity.
 */
#ifndef ALLOT_DAEMON_USERS_REQUESTS_H
#define ALLOT_DAEMON_USERS_REQUESTS_H

#include <stdbool.h>
#include <sys/types.h>

#include "control/message.h"
#include "daemon/site/site.h"
#include "daemon/site/site_file.h"
#include "daemon/users/moves.h"
#include "node/devices.h"

#define REQUESTS_GROUPS 256

/* The sender, as the kernel tells it. */
struct requests_peer {
	uid_t uid;
	pid_t pid;
	size_t ngroups;
	gid_t groups[REQUESTS_GROUPS];
	/* manages all users' tenants, without limits: root and members of group allot */
	bool manages;
};

struct requests {
	const char *runtime;
	const struct site *site;
	const struct site_file *file; /* where that was read */
	const struct devices *devices;
};

/* Most tenants of a user at once, where the site says nothing. */
#define REQUESTS_TENANTS 32

/* 0: answered, `ret` is filled whole; 1: moves_read() of *ret_move will answer. */
int requests_do(const struct requests *requests, const struct requests_peer *peer,
		 const struct control_request *request, struct control_answer *ret,
		struct move *ret_move);

#endif
