/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Processes that were started in a tenant, found by ALLOT_TENANT_DIR in the environment that /proc
 * shows. The environment stays the same when a program closes all descriptors, forks, or leaves its
 * session, as daemons do, so it finds processes that the tenant's lock (ledger/life.h) does not. It
 * does not find processes of other users, unless root asks, those outside this PID namespace, and
 * those that wrote their title over their environment.
 *
 * An environment counts for tenants of the process's own user alone. The environment of a setuid
 * program never counts: another user wrote it.
 *
 * A process's environment is read once for as long as it runs the same program, within the budget
 * of node/process/allowance.h. For all threads.
 */
#ifndef ALLOT_NODE_MEMBERS_H
#define ALLOT_NODE_MEMBERS_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* Zeroed: not looked for yet. */
struct members {
	bool read;
	size_t n;
	struct member {
		bool unread; /* its environment is not read yet: dev and ino are not known */
		dev_t dev;
		ino_t ino; /* of the tenant's directory */
		pid_t pid;
		uid_t uid;
	} *list;
};

/*
 * Returns a process that was started in the tenant of that directory, or one that may have been and
 * is not read yet; 0 for none. This process does not count. Walks /proc at the first call.
 */
pid_t members_find(struct members *members, const char *dir);
/* Returns true if that process was started in the tenant of that directory. */
bool members_has(struct members *members, const char *dir, pid_t pid);
/* The same of one that was not looked for, now. */
bool members_is(const char *dir, pid_t pid);
void members_free(struct members *members);

#endif
