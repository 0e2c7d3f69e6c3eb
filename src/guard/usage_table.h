/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Guarded processes' use of the tenant's GPUs: one account for each process and GPU, and one slot
 * in the tenant's ledger for all of them together. A process with liballot.so counts its memory in
 * a slot of its own. The guard does not count that again: its figure is only the excess.
 *
 * All of it is for one thread.
 */
#ifndef ALLOT_GUARD_USAGE_TABLE_H
#define ALLOT_GUARD_USAGE_TABLE_H

#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "amd/demand.h"
#include "amd/topology.h"

struct usage_table;
struct usage_table_process;

/*
 * Opens the tenant's directory and takes a slot, in the name of the calling process. Keeps the
 * topology, which must outlive it. Errors of policy_open, ledger_open and slot_claim.
 */
int usage_table_open(const char *dir, const struct topology *topology, struct usage_table **ret);
void usage_table_close(struct usage_table *table);

/*
 * The process, noted when it is new; `files`: it takes memory by render nodes. NULL: no memory, or
 * it is gone.
 */
struct usage_table_process *usage_table_process(struct usage_table *table, pid_t process,
						bool files);

/*
 * The kernel will keep a file that the process has open (ACQUIRE_VM): a descriptor of it is kept
 * here as long, through which the kernel tells its memory after the process has closed it. 0;
 * -EBUSY: it has too many such; -errno.
 */
int usage_table_keep(struct usage_table_process *process, int fd);

/* The process if it is noted, else NULL. */
struct usage_table_process *usage_table_find(const struct usage_table *table, pid_t process);

/*
 * Admits the demand of a thread of the process: all of it, or nothing. The thread was just seen
 * (usage_table_seen). 0; -ENOMEM above the limit; -ENODEV for a GPU that is not the tenant's.
 */
int usage_table_take(struct usage_table *table, struct usage_table_process *process, pid_t thread,
		     uint32_t request, const struct demand *demand);

/* The thread asks something else, so its last call is over. */
void usage_table_seen(struct usage_table_process *process, pid_t thread);

/* The call that was admitted last for the thread did not get to the kernel. */
void usage_table_cancel(struct usage_table *table, struct usage_table_process *process,
			pid_t thread);

/* True if the process counts in its own slot all that the kernel shows for it. */
bool usage_table_counts_itself(struct usage_table *table, struct usage_table_process *process,
			       uint32_t gpu_id);

/*
 * Asks the kernel about the processes that something may have changed for, or about all; and
 * forgets those that have nothing, unless they have asked since the last time.
 */
void usage_table_refresh(struct usage_table *table, bool all);

/*
 * usage_table_is_open: true if figures may change soon, since something is under way.
 * usage_table_is_empty: true if there are no processes.
 */
bool usage_table_is_open(const struct usage_table *table);
bool usage_table_is_empty(const struct usage_table *table);

/*
 * Adds entries for poll(), from `ret` on, which has room for `room`: readable when a process ended.
 * usage_table_ended takes their results, and returns true if any did.
 */
nfds_t usage_table_watch(const struct usage_table *table, struct pollfd *ret, nfds_t room);
bool usage_table_ended(struct usage_table *table, const struct pollfd *polled, nfds_t n);

#endif
