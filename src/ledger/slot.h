/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Slots: one per process that uses the tenant's quota. A slot belongs to the holder of an
 * open-file-description lock on its byte. The claiming process locks, maps the ledger through the
 * same description and closes the descriptor, so the description (and the lock) lives exactly as
 * long as the mapping: until the process dies, execs or unmaps. fork does not copy the mapping, and
 * there is no descriptor to leak or to be closed by closefrom().
 *
 * Liveness is therefore a question to the kernel that has one right answer in every PID namespace.
 * A slot is cleared only by a process that got its lock, hence after its owner has lost it; no live
 * process is ever robbed of its slot, and keeps no copy of its row.
 *
 * One window remains: a thread that forks while another is inside slot_claim hands its child the
 * descriptor; then the slot outlives the parent until that child ends or execs. It over-counts,
 * never under.
 */
#ifndef ALLOT_LEDGER_SLOT_H
#define ALLOT_LEDGER_SLOT_H

#include <stdbool.h>
#include <stdint.h>

struct ledger;
struct slot;

/*
 * Claims a slot for this process in a ledger opened with LEDGER_GUEST; once a ledger. A dead
 * owner's slot is cleared first. -EUSERS when all 1024 are alive, -ENOSPC when the disk is full,
 * -ESTALE when the tenant was removed meanwhile. The slot is freed by ledger_close.
 */
int slot_claim(struct ledger *ledger, struct slot **ret);

/*
 * For a process that may have come back from an image, with all of its memory and none of its locks:
 * takes its slot again, from ledger_await. 1: it has; 0: it has had it all the time. -ESTALE when the
 * slot is another's by now.
 */
int slot_adopt(struct slot *slot);

struct ledger *slot_ledger(const struct slot *slot);
int slot_index(const struct slot *slot);

/* True if the process of a slot lives. True when that cannot be found out (descriptors used up). */
bool slot_alive(struct ledger *ledger, int index);

/*
 * Returns true if the process of a slot has lost the slot's lock but is still exiting, so that the
 * driver still holds its memory: the slot must not be reclaimed yet. Always false for a process of
 * another PID namespace.
 */
bool slot_ending(struct ledger *ledger, int index);

/*
 * True if any process of the tenant in `dir` lives. Opens no ledger, so many can be asked. True
 * when that cannot be found out; false when there is no ledger.
 */
bool slot_any_alive(const char *dir);

/* How many slots wait for their processes to come back from an image. */
unsigned int slot_awaited(struct ledger *ledger);

/* One more than the highest slot ever claimed. */
int slot_count(struct ledger *ledger);

/*
 * A slot's description of its process. Text is made printable. -ENOENT for a slot that is free or
 * still being claimed.
 */
struct slot_info {
	uint64_t generation;
	uint32_t pid;      /* in the process's own namespace */
	uint32_t driver_pid; /* as the driver lists it: slot_tell_driver_pid; else `pid` */
	uint64_t pidns;    /* inode of that namespace, 0 unknown */
	uint64_t start_ns; /* CLOCK_BOOTTIME */
	char comm[16];
	char command[144];
};
int slot_info(struct ledger *ledger, int index, struct slot_info *ret);

/*
 * Writes the number by which the driver lists the process of a slot. For a process in a container
 * drivers have another number, which only a process outside knows. Nothing is written if the slot
 * is another process's by now than that of `info`.
 */
void slot_tell_driver_pid(struct ledger *ledger, int index, const struct slot_info *info,
			  uint32_t driver_pid);

#endif
