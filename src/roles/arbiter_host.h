/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The arbiter's role on this machine. The process that holds a lock of <runtime>/.arbiter has it:
 * its monitor thread runs the state machine of sched/arbiter.h over all tenants of the runtime
 * directory, reads what they want and used from their ledgers, and writes whose turn it is into
 * their policies. The kernel drops the lock when that process dies; the next monitor thread that
 * finds the arbiter silent takes it. It keeps the lock for a process that is stopped, so there is
 * one for each term: who takes the role from such a one begins the next, and when that one goes on,
 * it finds that its own is over.
 *
 * A daemon claims the role, by a second lock. Who has the role gives it up then, and no tenant takes
 * it while that lock is held.
 *
 *	tenant   has the role ───────── hears ── gives it up                      silence ── takes it
 *	daemon              claims, rings            └── takes it ── arbitrates ── killed ┘
 *
 * Each host is for one thread alone, but arbiter_host_ring.
 */
#ifndef ALLOT_ROLES_ARBITER_HOST_H
#define ALLOT_ROLES_ARBITER_HOST_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>

struct arbiter_host;

/* For a tenant's directory. Maps the runtime directory's file; -errno where that cannot be. */
int arbiter_host_open(const char *tenant_dir, struct arbiter_host **ret);

/* For a daemon: the same with a claim to the role. -EAGAIN: another one has it. */
int arbiter_host_claim(const char *runtime, struct arbiter_host **ret);
/* Returns true if a daemon decides about turns in the runtime directory, or is about to. */
bool arbiter_host_has_daemon(const char *runtime);
/* The lock file of the role in that directory, which the role holder maps. -errno. */
int arbiter_host_find_file(const char *runtime, struct stat *ret);
/* Sleeps until no daemon has it, which then claims it anew: another one may be faster. -errno. */
int arbiter_host_await(const char *runtime);
/*
 * Likewise, while the role is not held: a device of this machine, which has a place whatever tenants write
 * into their ledgers. Others have one as long as a tenant lives that has them.
 */
void arbiter_host_know(struct arbiter_host *host, const uint8_t uuid[static 16]);
/* Gives up role and claim. Takes NULL. */
void arbiter_host_close(struct arbiter_host *host);

/*
 * Tries to take the role; true when it is held. Never waits. A tenant takes none that is claimed.
 * Whoever has it loses it when it makes no step for TUNING_STOPPED_NS, while others try and ring.
 */
bool arbiter_host_take(struct arbiter_host *host, uint64_t now_ns);
bool arbiter_host_held(const struct arbiter_host *host);

/* Whether who has the role is to hand it over: somebody has claimed it since. */
bool arbiter_host_is_claimed(struct arbiter_host *host);
/* Gives the role up; turns go on as they were told, and tenants that wait for one elect another. */
void arbiter_host_drop(struct arbiter_host *host);

/* One step of the role: answers when the next is due. */
uint64_t arbiter_host_step(struct arbiter_host *host, uint64_t now_ns);

/*
 * Keeps the role and no file of any tenant, until the next step, but of those in containers, whose
 * bells are in their ledgers. For who sleeps while nobody works. Whether there are such.
 */
bool arbiter_host_rest(struct arbiter_host *host);

/* When whoever has the role, if anybody, should have made the next step. */
uint64_t arbiter_host_due_ns(const struct arbiter_host *host);

/* Whether any tenant wanted a device in the last step. */
bool arbiter_host_busy(const struct arbiter_host *host);

/* Wakes whoever holds the role. Any thread. */
void arbiter_host_ring(struct arbiter_host *host);

/*
 * For who makes a tenant that cannot say so itself, as it is in a container: whoever has the role hears
 * of it, and from then on its ledger's bell. Where nobody arbitrates it does nothing.
 */
void arbiter_host_announce(const char *runtime);

/* Sleeps until somebody has rung since arbiter_host_listen, or until then. */
void arbiter_host_listen(struct arbiter_host *host);
void arbiter_host_sleep(struct arbiter_host *host, uint64_t until_ns);

#endif
