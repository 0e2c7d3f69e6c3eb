/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The arbiter of a runtime directory, a role (roles/role.h) with the file .arbiter. The role holder is a
 * tenant's process, whose monitor thread does it, or a daemon, which claims the role. It runs the
 * state machine of sched/arbiter.h over all tenants, reads what they want and used from their
 * ledgers, and writes whose turn it is into their policies.
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

/* As role_take. The role holder loses the role if it makes no step for TUNING_STOPPED_NS. */
bool arbiter_host_take(struct arbiter_host *host, uint64_t now_ns);
bool arbiter_host_held(const struct arbiter_host *host);

/* True if a daemon has claimed the role and the caller must hand it over. */
bool arbiter_host_is_claimed(struct arbiter_host *host);
/* Drops the role; turns go on as they were told, and tenants that wait for one elect another. */
void arbiter_host_drop(struct arbiter_host *host);

/* One step of the role: answers when the next is due. */
uint64_t arbiter_host_step(struct arbiter_host *host, uint64_t now_ns);

/*
 * Keeps the role and no file of any tenant, until the next step, but of those in containers, whose
 * bells are in their ledgers. For who sleeps while nobody works. Whether there are such.
 */
bool arbiter_host_rest(struct arbiter_host *host);

/* By when the role holder makes its next step; 0: there is none. */
uint64_t arbiter_host_due_ns(const struct arbiter_host *host);

/* Whether any tenant wanted a device in the last step. */
bool arbiter_host_busy(const struct arbiter_host *host);

/* Wakes the role holder. Any thread. */
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
