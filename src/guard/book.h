/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What guarded processes have of the tenant's GPUs: one account for each process and GPU, and one
 * slot in the tenant's ledger for all of them together. What a process counts by itself, with
 * liballot.so, in a slot of its own, is not counted again: the guard's figure is what goes beyond.
 *
 * All of it is for one thread.
 */
#ifndef ALLOT_GUARD_BOOK_H
#define ALLOT_GUARD_BOOK_H

#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "amd/demand.h"
#include "amd/topology.h"

struct book;
struct book_process;

/*
 * Opens the tenant's directory and takes a slot, in the name of the calling process. Keeps the
 * topology, which must outlive it. Errors of policy_open, ledger_open and slot_claim.
 */
int book_open(const char *dir, const struct topology *topology, struct book **ret);
void book_close(struct book *book);

/*
 * The process, noted when it is new; `files`: it takes memory by render nodes. NULL: no memory, or
 * it is gone.
 */
struct book_process *book_process(struct book *book, pid_t process, bool files);

/* The same, if it is noted; else NULL. */
struct book_process *book_find(const struct book *book, pid_t process);

/*
 * Admits what a thread of the process, which was just seen, demands with this request, or does not,
 * all of it or nothing: 0; -ENOMEM above the limit; -ENODEV for a GPU that is not the tenant's.
 */
int book_take(struct book *book, struct book_process *process, pid_t thread, uint32_t request,
	      const struct demand *demand);

/* The thread asks something else, so it has left what it was in. */
void book_seen(struct book_process *process, pid_t thread);

/* What was admitted last for the thread did not get to the kernel. */
void book_cancel(struct book *book, struct book_process *process, pid_t thread);

/* Whether the process counts in a slot of its own, and all that the kernel shows of it. */
bool book_counts_itself(struct book *book, struct book_process *process, uint32_t gpu_id);

/*
 * Asks the kernel about the processes that something may have changed for, or about all; and
 * forgets those that have nothing, unless they have asked since the last time.
 */
void book_refresh(struct book *book, bool all);

/* Whether figures may change soon (something is under way); whether there are processes at all. */
bool book_is_open(const struct book *book);
bool book_is_empty(const struct book *book);

/*
 * Entries for poll(), from `ret` on, which has room for `room`: readable where a process ended.
 * And what came of them: whether any did.
 */
nfds_t book_watch(const struct book *book, struct pollfd *ret, nfds_t room);
bool book_ended(struct book *book, const struct pollfd *polled, nfds_t n);

#endif
