/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A guarded process's memory on one GPU. The guard lets the kernel do what it admitted and does not
 * see the result; the kernel's figure for the process tells later. Pure.
 *
 * An admitted call is under way until its thread is known to have left it. Meanwhile the figure may
 * contain the call's memory or not. So the larger of two counts: the figure, and the settled bytes
 * plus all that was admitted since. That is never less than what the process has or is about to
 * get, and counts no memory twice. Once nothing is under way the figure alone counts.
 *
 *	settled 10, the guard admits a call for 4	counts max(10, 10 + 4) = 14
 *	the kernel's figure is 14 by now		counts max(14, 10 + 4) = 14
 *	the thread has left the call, figure 14		settled 14, counts 14
 */
#ifndef ALLOT_GUARD_ACCOUNT_H
#define ALLOT_GUARD_ACCOUNT_H

#include <stdbool.h>
#include <stdint.h>

struct account {
	uint64_t settled_bytes;	  /* the figure when nothing was under way */
	uint64_t under_way_bytes; /* admitted, in calls that may not be over */
	uint64_t over_bytes;	  /* in calls that are, but the figure was not read since */
	uint64_t figure_bytes;	  /* the kernel's, when last read */
	uint32_t calls;		  /* under way */
};

/* A call for `bytes` bytes is admitted; account_cancel if it never got to the kernel. */
void account_begin(struct account *account, uint64_t bytes);
void account_cancel(struct account *account, uint64_t bytes);

/* Its thread has left it. */
void account_end(struct account *account, uint64_t bytes);

/*
 * The figure, read after the calls that are over were. True: it has room for all that is under
 * way, so nothing is any more.
 */
bool account_read(struct account *account, uint64_t figure_bytes);

/* True if another figure would tell more. */
bool account_open(const struct account *account);

uint64_t account_bytes(const struct account *account);

#endif
