/* SPDX-License-Identifier: Apache-2.0 */
/* What the modules of src/ledger share and nobody else sees. */
#ifndef ALLOT_LEDGER_PRIV_H
#define ALLOT_LEDGER_PRIV_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/atomic.h"
#include "ledger/layout.h"
#include "ledger/ledger.h"

#define LEDGER_FILE "ledger" /* in the tenant's directory */

struct slot {
	struct ledger *ledger;
	int index; /* -1 not claimed */
	uint64_t generation;
};

struct ledger {
	struct ledger_file *map; /* LEDGER_READ: anonymous memory, filled by read(2) */
	enum ledger_mode mode;
	int fd;         /* LEDGER_READ only: the host program may close what it did not open */
	uint64_t ready; /* bit per device whose rows this process knows to be on disk (or copied) */
	struct slot slot;
	dev_t dev;
	ino_t ino;
	char dir[]; /* absolute or as given */
};

/*
 * The ledger's own descriptor where it has one, else the file opened anew: *ret_close says which.
 * -ESTALE when the path leads to another file by now.
 */
int ledger_fd(struct ledger *ledger, bool *ret_close);

/*
 * Maps the file through `fd`, over the mapping there is: other threads keep reading the same bytes
 * at the same address.
 */
int ledger_map(struct ledger *ledger, int fd);

/* The rows of `device` are on disk and may be touched. */
static inline bool ledger_ready(const struct ledger *ledger, int device)
{
	return (unsigned int)device < LEDGER_DEVICES &&
	       (atomic_acquire(&ledger->ready) >> device & 1);
}

/* Puts the rows of a device on disk. 0 or -ENOSPC and the like. */
int ledger_allocate_rows(struct ledger *ledger, int fd, int device);

/* The process's own slot; -1: not claimed, while another of its threads may be about to. */
static inline int ledger_own_slot(const struct ledger *ledger)
{
	return atomic_peek(&ledger->slot.index);
}

/* Both marks, as far as this library's tables go. */
static inline unsigned int ledger_slot_high(const struct ledger *ledger)
{
	uint32_t high = atomic_check(&ledger->map->header.slot_high);

	return high < LEDGER_SLOTS ? high : LEDGER_SLOTS;
}

static inline unsigned int ledger_shared_high(const struct ledger *ledger)
{
	uint32_t high = atomic_check(&ledger->map->header.shared_high);

	return high < LEDGER_SHARED ? high : LEDGER_SHARED;
}

/* With the slot's lock held through `fd`: clears everything its last owner left. */
void slot_scrub(struct ledger *ledger, unsigned int index);
/* Scrubs every slot whose lock can be had. Answers how many needed it. */
int slot_reclaim_dead(struct ledger *ledger, int fd);
bool slot_alive_fd(struct ledger *ledger, int fd, int index);
void slot_done(struct slot *slot);

/* Clears a holder bit wherever it is set. */
void shared_forget(struct ledger *ledger, unsigned int index);
/* The part of shared_used that an admission adds up; `alive` NULL counts every holder. */
uint64_t shared_sum(struct ledger *ledger, int device, const uint64_t *alive);

/* The second try, with the tenant's lock held or not: publish, check, wait for peers to settle. */
int quota_settle(struct slot *slot, int device, uint64_t bytes, uint64_t limit);

#endif
