/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Residency, a role (roles/role.h) with the file .residency: the role holder decides which
 * overcommitting tenant of the runtime directory has its memory on the devices (sched/residency.h).
 * It reads what they hold and wait for from their ledgers, and asks their processes to leave and to
 * come back as `allot suspend` and `allot resume` do (ledger/swap.h). What it has begun is in their
 * policies, and ends as that says when it dies. So it keeps nothing that the next one would need.
 */
#ifndef ALLOT_ROLES_RESIDENCY_HOST_H
#define ALLOT_ROLES_RESIDENCY_HOST_H

#include <stdbool.h>
#include <stdint.h>

struct residency_file;
struct residency_host;

/* For a tenant's directory. Maps the runtime directory's file; -errno where that cannot be. */
int residency_host_open(const char *tenant_dir, struct residency_host **ret);

/* For a daemon: the same with a claim to the role. -EAGAIN: another one has it. */
int residency_host_claim(const char *runtime, struct residency_host **ret);
/* Gives up role and claim. Takes NULL. */
void residency_host_close(struct residency_host *host);
/*
 * As role_take. The role holder loses the role if it makes no step for TUNING_RESIDENCY_SILENT_NS
 * while others try.
 */
bool residency_host_take(struct residency_host *host, uint64_t now_ns);
/* As role_look_away. */
void residency_host_look_away(struct residency_host *host);
/* True if a daemon has claimed the role, and the caller must drop it now. */
bool residency_host_gives_way(struct residency_host *host);
void residency_host_drop(struct residency_host *host);

/* One step of the role: when the next is due; UINT64_MAX: nobody has waited for a while. */
uint64_t residency_host_step(struct residency_host *host, uint64_t now_ns);

/* With the bell that is rung by whoever begins to wait. */
struct residency_file *residency_host_file(struct residency_host *host);

#endif
