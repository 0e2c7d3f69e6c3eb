/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bytes of a tenant's `ledger` and `policy` files. Only src/ledger includes this; all others use
 * its functions. Native endianness: a file never leaves its machine.
 *
 * Every word of the ledger is written by processes that do not trust each other's correctness: load
 * once, check, use. Offsets depend on nothing in the file, so that no forged count can lead outside
 * the mapping.
 */
#ifndef ALLOT_LEDGER_LAYOUT_H
#define ALLOT_LEDGER_LAYOUT_H

#include <stddef.h>
#include <stdint.h>

#include "ledger/records.h"
#include "ledger/timeline.h"

#define LEDGER_MAGIC   UINT64_C(0x31474c544f4c4c41) /* "ALLOTLG1" */
#define LEDGER_VERSION 3u
#define LEDGER_SLOTS   1024
#define LEDGER_DEVICES 64
#define LEDGER_SHARED  1024
/* The last entry is the machine's own memory, beyond where a look for devices ends: see ledger_host. */
#define LEDGER_HOST (LEDGER_DEVICES - 1)

/* A cache line of its own for the words that every process writes when it joins. */
struct ledger_header {
	uint64_t magic;
	uint32_t version;
	uint32_t header_bytes;
	uint64_t file_bytes;
	uint32_t nslots;
	uint32_t ndevices;
	uint32_t nshared;
	uint32_t pad0[7];
	uint32_t slot_high;   /* slots at and above this were never claimed; only ever grows */
	uint32_t shared_high; /* likewise of shared objects */
	uint32_t bell;	      /* a futex, see ledger_bell */
	uint32_t pad1[13];
	/* All zero where no process does so: libraries from before this know nothing of it. */
	uint32_t spare_question; /* the number of the last; see spare.h */
	uint32_t pad2[15];
	uint64_t spare_asks[LEDGER_SLOTS / 64]; /* a bit by slot */
	uint64_t spare_keeps[LEDGER_SLOTS / 64];
	uint16_t spare_answered[LEDGER_SLOTS]; /* the number of a question */
	/* Of each device_time: the longest unit of work of late, see device_time_unit_ns. */
	uint64_t unit[LEDGER_DEVICES];
	uint64_t guesses[LEDGER_SLOTS / 64]; /* a bit by slot, see quota_say_guess */
	uint64_t power[LEDGER_DEVICES];	     /* see device_time_add_energy */
	uint8_t reserved[4096 - 448 - 2 * LEDGER_SLOTS - 16 * LEDGER_DEVICES - LEDGER_SLOTS / 8];
};

/*
 * A device is named by two words, lo first, by the holder of LEDGER_LOCK_DEVICES: an entry whose hi
 * is still 0 is free for the next name. Neither half of a real UUID is 0.
 */
struct ledger_device {
	uint64_t uuid_lo;
	uint64_t uuid_hi;
	uint64_t total_bytes;
	uint64_t context_bytes; /* the last measured size of a context */
	uint64_t refusals;
	uint64_t peak_bytes; /* most that was held at once; only ever grows */
	uint64_t context_mps_bytes; /* context_bytes of processes under MPS */
	uint64_t energy_uj;	    /* see device_time_add_energy */
};

/* Slot states, in the low byte of the state word; its upper 56 bits are the generation. */
enum slot_state {
	SLOT_FREE,
	SLOT_SCRUBBING, /* being cleared or described by the holder of its lock */
	SLOT_LIVE,
	SLOT_AWAITED, /* of a process that will return from an image: nobody else takes it */
};

struct ledger_slot {
	uint64_t state;
	uint32_t pid; /* in the namespace below */
	/* as the driver lists it, once a process that knows has written it; else 0 */
	uint32_t driver_pid;
	uint64_t pidns; /* inode of /proc/self/ns/pid; 0 unknown */
	uint64_t start_ns; /* CLOCK_BOOTTIME of the claim */
	char comm[16];
	char command[144]; /* arguments joined by spaces, cut */
	struct swap_report swap; /* see swap.h */
	struct swap_use use;	 /* likewise */
};

/* One process's use of one device: one cache line, written by that process alone. */
struct ledger_row {
	uint64_t pending;
	uint64_t used[CAT_N];
};

/* The driver's figure for that process, and when (CLOCK_BOOTTIME) it was read. */
struct ledger_info {
	uint64_t driver_bytes;
	uint64_t driver_ns;
	uint64_t active_until_ns; /* it launches, or waits to; see device_time.h */
	uint64_t host_bytes;	  /* the machine's memory that it has pinned for the device */
	uint64_t queues; /* that it has, below the claim that they are of; see cu_grant.h */
	uint64_t out_bytes; /* of the device's memory that left it, in host memory; see swap.h */
	struct swap_wish wish; /* likewise */
};

#define SHARED_HOLDER_WORDS (LEDGER_SLOTS / 64)

/* An object that several processes of the tenant may hold. Free when no holder bit is set. */
struct ledger_shared {
	uint64_t key[2];
	uint64_t bytes;
	uint32_t device;
	uint32_t category;
	uint32_t flags;
	uint32_t owner;            /* slot */
	uint64_t owner_generation; /* the claim of that slot */
	uint64_t shed_bytes; /* with SHARED_SHED alone: libraries from before know nothing of it */
	uint64_t reserved;
	uint64_t holders[SHARED_HOLDER_WORDS];
};

/*
 * Rows are [device][slot], so that the scan of an admission is contiguous. Everything up to `rows`
 * is allocated when the file is created, the rows of a device when its first process comes: until
 * then they are a hole, and touching a hole on a full disk is SIGBUS.
 */
struct ledger_file {
	struct ledger_header header;
	struct ledger_device devices[LEDGER_DEVICES];
	struct ledger_slot slots[LEDGER_SLOTS];
	struct ledger_shared shared[LEDGER_SHARED];
	struct device_time device_time[LEDGER_DEVICES];
	struct ledger_row rows[LEDGER_DEVICES][LEDGER_SLOTS];
	struct ledger_info info[LEDGER_DEVICES][LEDGER_SLOTS];
	struct timeline timeline[LEDGER_DEVICES];
};

/* Locks are byte ranges far beyond the end of the file, where no data can be. */
#define LEDGER_LOCK_QUOTA (INT64_C(1) << 40)
#define LEDGER_LOCK_DEVICES (LEDGER_LOCK_QUOTA + 1) /* of a process that names a device */
#define LEDGER_LOCK_LISTEN  (LEDGER_LOCK_QUOTA + 2) /* shared, see swap_listen */
#define LEDGER_LOCK_SLOTS (INT64_C(1) << 41) /* + slot */
/* Right behind the slots, so that one lock has all of them; shared, see life.h. */
#define LEDGER_LOCK_LIFE  (LEDGER_LOCK_SLOTS + LEDGER_SLOTS)

_Static_assert(sizeof(struct ledger_header) == 4096, "layout");
_Static_assert(offsetof(struct ledger_header, slot_high) == 64, "layout");
_Static_assert(offsetof(struct ledger_header, spare_question) == 128, "layout");
_Static_assert(offsetof(struct ledger_header, spare_asks) == 192, "layout");
_Static_assert(offsetof(struct ledger_header, spare_answered) == 448, "layout");
_Static_assert(sizeof(struct ledger_device) == 64, "layout");
_Static_assert(sizeof(struct ledger_slot) == 256, "layout");
_Static_assert(offsetof(struct ledger_slot, pid) == 8, "layout"); /* one word with driver_pid */
_Static_assert(offsetof(struct ledger_slot, comm) == 32, "layout");
_Static_assert(sizeof(struct swap_report) == 40, "layout");
_Static_assert(offsetof(struct ledger_slot, swap) == 192, "layout");
_Static_assert(sizeof(struct swap_use) == 24, "layout");
_Static_assert(offsetof(struct ledger_slot, use) == 232, "layout");
_Static_assert(sizeof(struct ledger_row) == 64, "layout");
_Static_assert(sizeof(struct ledger_info) == 64, "layout");
_Static_assert(sizeof(struct ledger_shared) == 192, "layout");
_Static_assert(offsetof(struct ledger_shared, holders) == 64, "layout");
_Static_assert(offsetof(struct ledger_file, devices) == 4096, "layout");
_Static_assert(offsetof(struct ledger_file, slots) == 8192, "layout");
_Static_assert(offsetof(struct ledger_file, shared) == 270336, "layout");
_Static_assert(sizeof(struct device_time) == 1024, "layout");
_Static_assert(offsetof(struct device_time, busy_ns) == 64, "layout");
_Static_assert(offsetof(struct device_time, second) == 192, "layout");
_Static_assert(offsetof(struct device_time, cu_grant) == 704, "layout");
_Static_assert(offsetof(struct ledger_file, device_time) == 466944, "layout");
_Static_assert(offsetof(struct ledger_file, rows) == 532480, "layout");
_Static_assert(offsetof(struct ledger_file, info) == 4726784, "layout");
_Static_assert(sizeof(struct timeline) == 65536, "layout");
_Static_assert(offsetof(struct ledger_file, timeline) == 8921088, "layout");
_Static_assert(sizeof(struct ledger_file) == 13115392, "layout");
_Static_assert(offsetof(struct ledger_file, rows) % 4096 == 0, "layout");
_Static_assert(sizeof(((struct ledger_file *)0)->rows[0]) % 4096 == 0, "layout");

#define POLICY_MAGIC   UINT64_C(0x314f504f4c4c41) /* "ALLOPO1" */
#define POLICY_VERSION 2u

struct policy_copy {
	uint64_t generation;
	uint64_t checksum; /* of generation and policy, but for its swap_dir */
	struct policy policy;
	uint8_t reserved[8192 - 16 - sizeof(struct policy)];
};

/*
 * The current copy is copy[generation & 1]. The writer fills the other one and then stores
 * generation + 1: killed before that store it leaves the old copy current and whole.
 */
struct policy_file {
	uint64_t magic;
	uint32_t version;
	uint32_t file_bytes;
	uint32_t pad0[12];
	uint64_t generation; /* own cache line: the word that guests poll; its low half a futex */
	uint32_t gate;       /* enum policy_gate; a futex word */
	uint32_t swap;       /* see swap.h; a futex word */
	uint64_t swap_split; /* likewise */
	uint32_t desk;	     /* likewise: the number of the lock that requesters hold */
	uint32_t pad1[9];
	struct turn turn;
	uint64_t stranded_bytes[TURN_DEVICES]; /* see turn.h */
	struct turn_waits waits; /* likewise; zero: the arbiter is of an older allot */
	uint64_t notice_until_ns; /* see swap.h; zero: nobody gave notice */
	uint32_t notice;	  /* likewise; a futex word */
	uint32_t pad2;
	uint8_t reserved[4096 - 192 - 8 * TURN_DEVICES - sizeof(struct turn_waits) - 16];
	struct policy_copy copy[2];
};

_Static_assert(sizeof(struct policy_device) == 64, "layout");
_Static_assert(sizeof(struct policy) == 128 + 64 * POLICY_DEVICES + POLICY_DIR_BYTES, "layout");
_Static_assert(sizeof(struct policy_copy) == 8192, "layout");
_Static_assert(offsetof(struct policy_file, generation) == 64, "layout");
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the low half comes first");
_Static_assert(offsetof(struct policy_file, gate) == 72, "layout");
_Static_assert(offsetof(struct policy_file, swap) == 76, "layout");
_Static_assert(offsetof(struct policy_file, swap_split) == 80, "layout");
_Static_assert(sizeof(struct turn) == 64, "layout");
_Static_assert(offsetof(struct policy_file, turn) == 128, "layout");
_Static_assert(offsetof(struct policy_file, stranded_bytes) == 192, "layout");
_Static_assert(sizeof(struct turn_waits) == 128, "layout");
_Static_assert(offsetof(struct policy_file, waits) == 704, "layout");
_Static_assert(offsetof(struct policy_file, notice_until_ns) == 832, "layout");
_Static_assert(offsetof(struct policy_file, notice) == 840, "layout");
_Static_assert(offsetof(struct policy_file, copy) == 4096, "layout");
_Static_assert(sizeof(struct policy_file) == 4096 + 2 * 8192, "layout");

#endif
