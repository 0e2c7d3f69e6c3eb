/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The mapping of a ledger's file, which everything in src/ledger reads and nothing else sees:
 * descriptor, disk space, and how far the tables are used.
 */
#ifndef ALLOT_LEDGER_MAP_H
#define ALLOT_LEDGER_MAP_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/lock.h"
#include "base/number.h"
#include "base/word.h"
#include "ledger/layout.h"

#define LEDGER_FILE "ledger" /* in the tenant's directory */

struct slot {
	struct ledger *ledger;
	int index; /* -1 not claimed */
	uint64_t generation;
	struct lock_spare spare_lock; /* of this process's words there, see spare.h */
	unsigned int asks;	/* its threads that do */
};

struct ledger {
	struct ledger_file *map;
	bool is_copy;   /* not LEDGER_GUEST: anonymous memory, filled by the kernel */
	struct ledger_file *watched; /* LEDGER_WATCH: the file, for the kernel to read; else NULL */
	int fd;         /* of a copy only: the host program may close any descriptor */
	unsigned int most_slots, most_shared, most_devices; /* that a copy ever had */
	uint64_t ready; /* bit per device whose rows this process knows to be on disk (or copied) */
	struct slot slot;
	dev_t dev;
	ino_t ino;
	char dir[]; /* absolute or as given */
};

/* The file of a tenant's directory. Descriptor, or an error of shared_file_open. */
int map_open(const char *dir, int flags);

/* The same by the ledger's directory, which may lead to another file than before: that one is noted. */
int map_open_noted(struct ledger *ledger, int flags);

/*
 * The ledger's own descriptor if it has one, else the file opened again, as *ret_own, too, which is
 * the caller's to close. -ESTALE if the path leads to another file by now.
 */
int map_fd(struct ledger *ledger, int *ret_own);

/* True if a process holds a lock of these bytes. True if it cannot be found out; false without a file. */
bool map_is_held(const char *dir, int64_t at, int64_t len);

/*
 * Maps the file through `fd`, over the mapping there is: other threads keep reading the same bytes
 * at the same address.
 */
int map_file(struct ledger *ledger, int fd);

/* The rows of `device` are on disk and may be touched. */
static inline bool map_ready(const struct ledger *ledger, int device)
{
	return (unsigned int)device < LEDGER_DEVICES &&
	       (word_acquire(&ledger->ready) >> device & 1);
}

/*
 * Disk space for a range: after this, touching it cannot raise SIGBUS for want of space. (On
 * tmpfs even reading a hole through a mapping allocates.) Idempotent, keeps content.
 */
int map_allocate(int fd, uint64_t at, uint64_t len);

/* Puts the rows of a device on disk. 0 or -ENOSPC and the like. */
int map_allocate_rows(struct ledger *ledger, int fd, int device);

/* The process's own slot; -1: not claimed, while another of its threads may be about to. */
static inline int map_own_slot(const struct ledger *ledger)
{
	return word_read(&ledger->slot.index);
}

/* Both marks, as far as this library's tables go. */
static inline unsigned int map_slot_high(const struct ledger *ledger)
{
	uint32_t high = word_check(&ledger->map->header.slot_high);

	return min_u64(high, LEDGER_SLOTS);
}

static inline unsigned int map_shared_high(const struct ledger *ledger)
{
	uint32_t high = word_check(&ledger->map->header.shared_high);

	return min_u64(high, LEDGER_SHARED);
}

#endif
