/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tenants of a runtime directory, as the job of a role knows them. A tenant that comes rings, and
 * then all tenants are listed, of which most may be long dead; once a second they are listed in case
 * a comer was missed. The job keeps its own part of each tenant by the entry's number.
 */
#ifndef ALLOT_ROLES_ROSTER_H
#define ALLOT_ROLES_ROSTER_H

#include <stdbool.h>
#include <stdint.h>

#include "ledger/policy.h"
#include "roles/role.h"

#define ROSTER_TENANTS 256 /* those beyond are passed over */

struct roster_job {
	/* Returns true if the tenant of that directory is to have an entry. */
	bool (*lives)(const char *dir);
	/* Opens what the job needs of it. Not 0: it is passed over; `leave` is called all the same. */
	int (*join)(void *arg, int i, const char *dir);
	void (*leave)(void *arg, int i);
	uint64_t look_ns; /* how often it is asked which of the known tenants live; 0: when all are listed */
};

struct roster {
	const struct roster_job *job;
	void *arg;
	uint64_t looked_ns, listed_ns;
	uint32_t comers; /* when the tenants were listed */
	int n;
	struct roster_entry {
		char name[POLICY_NAME_BYTES]; /* "": free */
		struct policy_map *policy;
		bool seen; /* at the last look */
	} entry[ROSTER_TENANTS];
};

/* Looks which tenants came and went, if that is due. Returns true if it was. */
bool roster_scan(struct roster *roster, const struct role *role, uint64_t now_ns);
/* The next scan is due at once. */
void roster_expire(struct roster *roster);

static inline bool roster_has(const struct roster *roster, int i)
{
	return roster->entry[i].name[0];
}

void roster_leave(struct roster *roster, int i);
void roster_leave_all(struct roster *roster);

/* A policy's priority as the schedulers count it: the higher goes first. */
int32_t roster_level(const struct policy *policy);

#endif
