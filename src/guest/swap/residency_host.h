/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The role of deciding who has its memory on the devices (sched/residency.h), of all tenants of the
 * runtime directory that overcommit. The process that holds a lock of <runtime>/.residency has it.
 * It reads what they hold and wait for from their ledgers, and asks their processes to leave and to
 * come back as `allot suspend` and `allot resume` do (ledger/swap.h): what it has begun is in their
 * policies, and ends as that says when it dies. So it keeps nothing that the next one would need.
 */
#ifndef ALLOT_GUEST_SWAP_RESIDENCY_HOST_H
#define ALLOT_GUEST_SWAP_RESIDENCY_HOST_H

#include <stdbool.h>
#include <stdint.h>

struct residency_file;
struct residency_host;

/* For a tenant's directory. Maps the runtime directory's file; -errno where that cannot be. */
int residency_host_open(const char *tenant_dir, struct residency_host **ret);

/*
 * Tries to take the role; true when it is held. Never waits. Who has it loses it when it has made
 * no step for TUNING_RESIDENCY_SILENT_NS, and finds that out when it goes on: so it is looked at
 * again then.
 */
bool residency_host_take(struct residency_host *host, uint64_t now_ns);
/* Of who does not try again, so that steps before the next time are not missed. */
void residency_host_look_away(struct residency_host *host);
void residency_host_drop(struct residency_host *host);

/* One step of the role: when the next is due; UINT64_MAX: nobody has waited for a while. */
uint64_t residency_host_step(struct residency_host *host, uint64_t now_ns);

/* With the bell that is rung by whoever begins to wait. */
struct residency_file *residency_host_file(struct residency_host *host);

#endif
