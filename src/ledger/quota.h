/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Admission: publish, then check. A process's use of a device IS the sum of its row, the tenant's
 * IS the sum over all rows (and shared objects, shared.h). Nothing is kept twice, so a process that
 * dies leaves nothing to repair: its row is ignored, then cleared.
 *
 *	r = quota_reserve(slot, device, n, limit);
 *	if (r == -EDQUOT) {
 *		give back what can be given back;
 *		r = quota_reserve_slow(slot, device, n, limit);
 *	}
 *	if (r < 0)
 *		refuse;
 *	call the driver; if it did it, quota_commit(..., n, category, really), else quota_cancel
 *
 * No function here waits for another process on the common path, and none longer than a second.
 */
#ifndef ALLOT_LEDGER_QUOTA_H
#define ALLOT_LEDGER_QUOTA_H

#include <stdbool.h>
#include <stdint.h>

#include "ledger/records.h"

/* "context", "module" and so on: as `allot ps` shows them. */
const char *category_name(enum category category);

/* Most that one reservation may ask for: 2^12 threads may do so at once without a wrap. */
#define QUOTA_RESERVE_MAX (UINT64_C(1) << 48)

struct ledger;
struct slot;

/*
 * Any thread. 0: the bytes are ours, pending. -EDQUOT: they would exceed `limit`, nothing is
 * taken. -EINVAL: not a device that ledger_device answered.
 */
int quota_reserve(struct slot *slot, int device, uint64_t bytes, uint64_t limit);

/*
 * The same, with the tenant's use including these bytes, from the same sum: also when they are
 * refused; `bytes` alone when these exceed `limit` by themselves. -EINVAL writes nothing.
 */
int quota_reserve_sum(struct slot *slot, int device, uint64_t bytes, uint64_t limit,
		      uint64_t *ret_used);

/*
 * Raises the peak to the tenant's present use, without pending bytes. quota_commit and quota_charge
 * do so themselves; other functions that raise a figure do not.
 */
void quota_note_used(struct slot *slot, int device);

/*
 * The exact second try, one at a time in the tenant: dead processes' bytes are reclaimed first,
 * and siblings that are about to take back or to commit are waited for, about a millisecond. Of
 * several processes that compete for a rest, the last to come here gets it if it is still there.
 * Waits at most about a second for others; without the lock (descriptors used up, file gone) it
 * only tries again. Counts a refusal when the answer is -EDQUOT.
 */
int quota_reserve_slow(struct slot *slot, int device, uint64_t bytes, uint64_t limit);

/*
 * For a call that normally takes nothing, and may take up to `bytes` in spite of it. 0 if the limit
 * is kept without them: then they may exceed it until they are committed or cancelled, and no
 * second such call of the tenant is admitted meanwhile. Waits for that, and for siblings under way,
 * at most a second. -EDQUOT, -EINVAL.
 */
int quota_reserve_doubtful(struct slot *slot, int device, uint64_t bytes, uint64_t limit);

/*
 * The driver did it, and took `actual` bytes. A kill in between leaves the bytes counted twice, in
 * a slot that is now dead.
 */
void quota_commit(struct slot *slot, int device, uint64_t reserved, enum category category,
		  uint64_t actual);

/* The driver refused. */
void quota_cancel(struct slot *slot, int device, uint64_t reserved);

/* After the driver took the memory back, never before. Stops at zero. */
void quota_release(struct slot *slot, int device, enum category category, uint64_t bytes);

/* Adds without asking: memory that is gone already (found by reconciling, loaded lazily). */
void quota_charge(struct slot *slot, int device, enum category category, uint64_t bytes);

/*
 * Replaces the figure of a category that the driver is asked for, whatever was added meanwhile: when
 * all of it is gone.
 */
void quota_set(struct slot *slot, int device, enum category category, uint64_t bytes);

/* The same, unless the category is no longer at `from`: false then, and others' changes stay. */
bool quota_exchange(struct slot *slot, int device, enum category category, uint64_t from,
		    uint64_t to);

/* One refusal more on the device, for refusals that quota_reserve_slow did not see. */
void quota_count_refusal(struct slot *slot, int device);

/* Records the driver's own figure for this process; `now_ns` by CLOCK_BOOTTIME. */
void quota_set_driver(struct slot *slot, int device, uint64_t bytes, uint64_t now_ns);

/*
 * A context of this process is charged by a guess of its size, on one device or several, until it has
 * asked the driver. All zero where libraries from before live.
 */
void quota_say_guess(struct slot *slot, bool guesses);
bool quota_guesses(struct ledger *ledger, int slot_index);

/*
 * The machine's own memory that this process has pinned for the device (AMD's GTT). It is no memory
 * of the device, so no sum has it: it is there to be seen. The tenant's limit on it is one for all
 * devices together, which is admitted by the row of ledger_host.
 */
void quota_host_add(struct slot *slot, int device, uint64_t bytes);
void quota_host_sub(struct slot *slot, int device, uint64_t bytes);

/*
 * Bytes that the tenant uses: all rows, dead ones not yet reclaimed included (no system call), or
 * live ones only (asks the kernel about each foreign slot that holds something). UINT64_MAX when
 * a row is absurd. 0 for a device that is not known.
 */
uint64_t quota_used(struct ledger *ledger, int device);
uint64_t quota_used_live(struct ledger *ledger, int device);

/*
 * The same as the parts that it is the sum of: `each` has QUOTA_SLOTS words, a process's by its slot.
 * An object that several processes hold is in the part of one of them.
 */
#define QUOTA_SLOTS 1024
uint64_t quota_used_live_each(struct ledger *ledger, int device, uint64_t *each);

/*
 * True if the tenant is above `limit`. Waits for siblings that are about to retract or to commit,
 * about a millisecond, if they make the difference.
 */
bool quota_over(struct slot *slot, int device, uint64_t limit);

/*
 * Most that the row of `host`, an answer of ledger_host, may have: GTT, which no memory cgroup
 * counts (Linux 6.18), and userptr, which are pages of the program's own. `said_bytes` is the
 * policy's word; where that says nothing (0), GTT may grow by what the machine has free, and by no
 * more at once than this process's cgroups have left, and userptr may be anything. Reads files of
 * /proc and /sys then, for GTT.
 */
uint64_t quota_host_limit(struct ledger *ledger, int host, uint64_t said_bytes,
			  enum host_category category);

/* Of these, the bytes that are reserved and not yet committed. */
uint64_t quota_pending(struct ledger *ledger, int device);

/* The use of one process (slot index), by category, and pending; each word is read by itself. */
struct quota_row {
	uint64_t pending;
	uint64_t used[CAT_N];
	uint64_t driver_bytes;
	uint64_t driver_ns;
	uint64_t host_bytes; /* beside all of these, see quota_host_add */
};
int quota_process(struct ledger *ledger, int slot_index, int device, struct quota_row *ret);

/*
 * The tenant's lock, for admission by the driver's figure (POLICY_ACCOUNTING_DRIVER): take it, ask
 * the driver, compare with quota_pending, quota_publish, drop it. Answers a token for
 * quota_unlock, or -ETIMEDOUT, -EMFILE, -ESTALE (file replaced or gone). Dropped by the kernel
 * when the process dies.
 */
int quota_lock(struct ledger *ledger);
void quota_unlock(int token);

/* Raises pending without asking; undone by quota_cancel. */
void quota_publish(struct slot *slot, int device, uint64_t bytes);

/* Scrubs the slots of dead processes; the lock is not needed. Answers how many. */
int quota_reclaim(struct ledger *ledger);

#endif
