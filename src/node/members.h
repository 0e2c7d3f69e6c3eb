/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Processes that were started in a tenant, by what they were started with: ALLOT_TENANT_DIR in the
 * environment that /proc shows. It stays what it was when a program closes all descriptors, forks,
 * or leaves its session, as daemons do, so it finds those that the tenant's lock (ledger/life.h)
 * does not. It does not find processes of other users, unless root asks, those outside this PID
 * namespace, and those that wrote their title over their environment. Processes of users who cannot
 * open the tenant's ledger are not in it.
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
		dev_t dev;
		ino_t ino; /* of the tenant's directory */
		pid_t pid;
		uid_t uid;
	} *list;
};

/*
 * A process that was started in the tenant of that directory, not counting this one; 0 for none.
 * Looks through /proc when it is first asked.
 */
pid_t members_find(struct members *members, const char *dir);
/* Whether that process was started in the tenant of that directory. */
bool members_has(struct members *members, const char *dir, pid_t pid);
/* The same of one that was not looked for, now. */
bool members_is(const char *dir, pid_t pid);
void members_free(struct members *members);

#endif
