/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A role: a job for all tenants of a runtime directory that one process does, the role holder. It is
 * elected by a lock of a role file (ledger/role/role_file.h). The kernel drops the lock when the process
 * dies, and keeps it for one that is stopped. So each term has a lock of its own, and the role holder
 * says that it makes steps:
 *
 *	role holder   takes the lock of term n ─ steps ─ stopped                  goes on: not held
 *	another               tries: the lock is held ─── no step ─ lock of n + 1 ─ term n + 1
 *
 * A daemon claims a role by a second lock. The role holder hands over then, and no tenant takes the
 * role while that lock is held, unless the daemon is stopped:
 *
 *	tenant   holds ────────── hears ── drops                        no step ── takes
 *	daemon       claims, rings           └── takes ── holds ── killed ─┘
 *
 * A role is for one thread alone, but role_ring.
 */
#ifndef ALLOT_ROLES_ROLE_H
#define ALLOT_ROLES_ROLE_H

#include <stdbool.h>
#include <stdint.h>

#include "ledger/role/role_file.h"

struct role {
	const struct role_file *file;
	char runtime[256];
	uint64_t stopped_ns; /* a role holder that makes no step for so long counts as stopped */
	uint64_t gap_ns;     /* tries further apart say nothing about the time between; 0: they do */
	void *map;	     /* the file; it holds no lock of a term */
	void *held;	     /* the mapping that keeps the lock of `term`; NULL: not held */
	void *claim;	     /* the mapping that keeps a daemon's claim */
	uint32_t term;
	uint32_t claims;     /* at the last look */
	bool ignores;	     /* that claim: the daemon was stopped */
	uint64_t said_ns;    /* when a daemon last repeated its claim */
	uint64_t steps;	     /* of another role holder, at the last try, ... */
	uint64_t silent_ns;  /* ... unchanged since then; 0: nobody looked */
	uint64_t tried_ns;   /* ... which was then */
};

/*
 * For a process of the tenant of that directory: maps the file of the runtime directory, and makes it
 * where it is missing. -errno.
 */
int role_open(struct role *role, const struct role_file *file, const char *tenant_dir);
/* The same for a process that never takes the role, and reads its count of comers. */
int role_watch(struct role *role, const struct role_file *file, const char *runtime);
/* For a daemon: the same with a claim, and rings. -EAGAIN: another daemon has claimed the role. */
int role_claim(struct role *role, const struct role_file *file, const char *runtime);
/* Drops role and claim. */
void role_close(struct role *role);

/* Returns true if a daemon has claimed the role since the last look and the caller must drop it. */
bool role_is_claimed(struct role *role);

/*
 * Tries to take the role, and never waits. Returns true if it is held. A role holder that makes no
 * step for stopped_ns while others try loses it.
 */
bool role_take(struct role *role, uint64_t now_ns);
/* Returns true if the role is held: no other process has taken it from this one. */
bool role_held(const struct role *role);
void role_drop(struct role *role);
/* The caller does not try again soon: what it saw of the role holder's steps says nothing then. */
void role_look_away(struct role *role);

/* Counts a step of the role holder, or says by when it makes the next one. */
void role_beat(struct role *role, uint64_t due_ns);
/* By when the role holder makes its next step; 0: there is none. Where the file has that word. */
uint64_t role_due_ns(const struct role *role);

/* Wakes all that sleep on the role's bell. Any thread. */
void role_ring(struct role *role);
/* The bell's count; role_sleep sleeps until it is another one, or until then. */
uint32_t role_rung(const struct role *role);
void role_sleep(const struct role *role, uint32_t rung, uint64_t until_ns);

#endif
