/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A snapshot of policy and ledger for ps, top and exporters. Reads by read(2), never by mapping, so
 * a truncated or forged file gives an error or odd figures, not a signal.
 */
#ifndef ALLOT_LEDGER_READER_SNAPSHOT_H
#define ALLOT_LEDGER_READER_SNAPSHOT_H

#include <stdbool.h>
#include <stdint.h>

#include "ledger/device_time.h"
#include "ledger/ledger.h"
#include "ledger/policy.h"
#include "ledger/quota.h"
#include "ledger/slot.h"

#define SNAPSHOT_SECONDS   60
#define SNAPSHOT_NO_TOKENS UINT64_MAX

/*
 * Parts of the device's time; in hundredths of a percent ("bp") if not in permille. The used time
 * is known if `measured` says so, and then on NVIDIA's devices alone (tenants_measured of
 * node/tenants.h). It is 0 elsewhere, which is not to be shown.
 */
struct snapshot_compute {
	bool measured;
	uint32_t share_permille;  /* asked for; 0 none, or compute is off */
	uint32_t cap_permille;	  /* most of the time, also alone; 0: none, or a part of the SMs */
	uint32_t target_permille; /* what it may count on now; 0: off; in mode space, of the SMs */
	uint32_t units;		  /* of an AMD GPU: that its queues have now; 0: all, or no queue */
	uint32_t achieved_1s_bp, achieved_60s_bp;
	uint32_t history_bp[SNAPSHOT_SECONDS]; /* the oldest first */
	uint64_t busy_ns, launches, graph_launches, throttled_ns, throttles, longest_ns;
	uint64_t unmeasured_ns, host_copy_bytes;
	bool owes;	 /* the next one says something: it has a cap, and pays for time */
	int64_t debt_ns; /* negative: credit */
	uint64_t tokens; /* see controller.h; SNAPSHOT_NO_TOKENS: no cap, or of no such controller */
};

struct snapshot_device {
	int index; /* in the ledger, -1: only the policy knows it */
	uint8_t uuid[16];
	uint64_t total_bytes; /* 0 unknown */
	uint64_t limit_bytes; /* 0 when not given to the tenant or not known */
	uint64_t used_bytes;  /* live processes: sum of used[] and pending */
	uint64_t used[CAT_N]; /* CAT_IMPORTED includes shared objects */
	uint64_t pending;
	uint64_t driver_bytes; /* sum of the live processes' last figures */
	uint64_t host_bytes;   /* of the machine's memory, pinned for it; beside used_bytes */
	uint64_t out_bytes;    /* that left it for the machine's memory; beside used_bytes */
	uint64_t context_bytes; /* of one, as it was last measured; 0: none was */
	uint64_t guessed_bytes; /* of used_bytes: contexts that are charged by a guess, as none was measured */
	uint64_t peak_bytes; /* most of used_bytes without pending, at least as much as now */
	uint64_t refusals;
	uint64_t energy_uj; /* that it took for the tenant, while an allotd was there to measure it */
	uint32_t milliwatt; /* of now, likewise; DEVICE_TIME_NO_POWER: not known */
	struct snapshot_compute compute;
	bool absurd; /* a row holds an impossible figure: counted as full */
};

/* Of the machine's memory that AMD's GPUs have pinned for live processes: see quota_host_limit. */
struct snapshot_host {
	bool known;	      /* a process of it used an AMD GPU */
	uint64_t limit_bytes; /* 0: what is free */
	uint64_t used_bytes;  /* the next two, and what is pending */
	uint64_t gtt_bytes, userptr_bytes;
	uint64_t peak_bytes, refusals;
};

struct snapshot_process_device {
	uint64_t used_bytes; /* its own row; shared objects are the tenant's */
	uint64_t used[CAT_N];
	uint64_t pending;
	uint64_t shared_bytes; /* shared objects that it holds */
	uint64_t driver_bytes;
	uint64_t driver_ns;
	uint64_t host_bytes;
	uint64_t out_bytes;
};

struct snapshot_process {
	int slot;
	bool live; /* false: dead, not yet reclaimed; counted nowhere */
	struct slot_info info;
	enum swap_state swap; /* SWAP_NONE where the tenant is not swappable */
	uint64_t filed_bytes; /* of the evicted bytes, in a file */
	uint32_t waiting;     /* threads of it that wait for memory to come back, or for more */
	uint64_t out_ns, back_ns; /* how long its memory last took to move; 0: it has not */
	uint32_t host_pid; /* in the reader's namespace, 0 when it cannot be seen from there */
	struct snapshot_process_device *device; /* [ndevices], in the order of snapshot.device */
};

struct snapshot {
	struct policy policy;
	enum swap_phase swap; /* what it was asked for last */
	uint64_t now_ns; /* CLOCK_BOOTTIME of the snapshot */
	struct turn_waits waits; /* at_ns 0: not known */
	uint32_t turns;	 /* of it on its devices that began; goes round */
	int ndevices;
	struct snapshot_device *device;
	struct snapshot_host host;
	int nslots; /* of the ledger, that were ever in use */
	int nprocesses;
	struct snapshot_process *process;
};

/* How long all of a tenant's memory takes to leave or to come back, by the last time; 0: not known. */
uint64_t snapshot_swap_ns(const struct snapshot *snapshot, bool out);

/* Errors of policy_open, policy_read and ledger_open; -ENOMEM. */
int snapshot_read(const char *dir, struct snapshot **ret);
void snapshot_free(struct snapshot *snapshot);

/* The tenant's device of that name. NULL: it has none, or `snapshot` is NULL. */
struct snapshot_device *snapshot_device_of(const struct snapshot *snapshot,
					   const uint8_t uuid[static 16]);

/*
 * The size of what pages say of it, in units of 100 bytes, which is also a measure of the time that
 * takes: 8 for each process on each device, 10 for a process, 50 for a device. Each slot of a
 * device, which is copied whether it is in use or not, counts 1.
 */
size_t snapshot_weight(const struct snapshot *snapshot);

/* Limits for a reader of many ledgers, whose writers may have forged them. */
struct snapshot_bound {
	size_t weight;	   /* the largest snapshot_weight */
	uint64_t until_ns; /* by now_thread_ns; a file with 60,000 locks takes 2 ms for each slot (Linux 6.18) */
};

/*
 * Reads within a bound; -E2BIG if there is more. It leaves host_pid to snapshot_find_host_pids,
 * which walks /proc once for all snapshots of a list and skips NULLs. -ENOMEM.
 */
int snapshot_read_within(const char *dir, struct snapshot_bound bound, struct snapshot **ret);
/*
 * The same of files that are open to be read, wherever they are and whosever. -EPROTO and -EPERM: they
 * are no such files.
 */
int snapshot_read_files(int policy_fd, int ledger_fd, struct snapshot_bound bound,
			struct snapshot **ret);
int snapshot_find_host_pids(struct snapshot *const *list, size_t n);

#endif
