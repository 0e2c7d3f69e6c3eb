/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The state that all processes of one set of simulated GPUs share: a sparse file `region` in
 * ALLOT_SIM_DIR, mapped by each. It holds the devices, a row a process, and the memory objects that
 * several processes hold. Processes of a simulator trust each other; what must hold is that any of
 * them may be killed at any instruction:
 *
 * - A row is alive while its process holds an open-file-description lock on the row's byte. The
 *   lock is taken through the descriptor that the region was mapped through, and that descriptor
 *   is closed: the mapping keeps the lock, nothing inherits it, and the kernel drops it at death.
 * - Nothing is kept twice. What a device has given is the sum over rows and shared objects; each
 *   change is one store, so that there is nothing to repair when the lock's owner dies.
 * - All fields change under the region's robust mutex, but those marked atomic.
 */
#ifndef ALLOT_SIM_REGION_H
#define ALLOT_SIM_REGION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sim/config.h"
#include "sim/engine_shared.h"
#include "sim/mutex.h"

#define SIM_REGION_FILE "region"
#define SIM_MAGIC 0x314d4953544f4c41ull /* "ALOTSIM1" */
#define SIM_VERSION 6u
#define SIM_MAX_PROCESSES 1024
#define SIM_MAX_OBJECTS 8192
#define SIM_MAX_ACCOUNTS 2048 /* twice as many as processes at once */
#define SIM_CHECKPOINT_BYTES (4ull << 20) /* of a process that was checkpointed: as on an H200 */
/* Far behind the contents, so that no read or write ever meets the lock. */
#define SIM_EXPORT_LOCK (1ll << 60)

_Static_assert(SIM_ENGINE_ROWS >= SIM_MAX_PROCESSES, "the engine must know every row");
_Static_assert(SIM_ENGINE_ACCOUNTS == SIM_MAX_ACCOUNTS, "and every account");

struct sim_device_row {
	uint8_t uuid[16];
	char name[SIM_NAME_MAX];
	uint64_t total_bytes;
	uint64_t context_bytes; /* what an idle context takes */
	uint64_t peak_bytes;	/* most that was ever given at once, since the last reset */
	uint32_t pci_domain, pci_bus, pci_device;
	uint32_t sm_count;
	/* The engine's own: which seat runs, and how long the device worked for each row. */
	_Alignas(64) struct sim_engine_shared engine;
};

/* Bytes that were given back, and that a process's figure has for a while longer. */
struct sim_late {
	uint64_t bytes, until_ns; /* by CLOCK_MONOTONIC */
};
#define SIM_LATE 256 /* so many at once; what comes then is not late */

/* One process's use of one device. */
struct sim_use {
	_Alignas(64) uint64_t private_bytes; /* all but the shared objects that it owns */
	_Atomic uint64_t managed_bytes;	     /* of these, what a process's figure leaves out */
	_Atomic uint32_t contexts;	     /* alive, no green ones: NVML lists who has any */
	_Atomic uint32_t graphics;	     /* Vulkan devices: NVML's other list */
	struct sim_late late[SIM_LATE];
};

/*
 * GONE: its process was once checkpointed and is dead, and may come back from an image of CRIU's by
 * its old pid. It counts for nothing, and is used for another process when all others are in use.
 */
enum sim_row_state { SIM_ROW_FREE, SIM_ROW_LIVE, SIM_ROW_GONE };

/* By cuCheckpointProcess*, in their order: CUprocessState. */
enum sim_checkpoint { SIM_RUNNING, SIM_LOCKED, SIM_CHECKPOINTED, SIM_LOST };

struct sim_process_row {
	/* Changes under the lock. The engine has a lock of its own and reads this without. */
	_Alignas(64) _Atomic uint32_t state;
	int32_t pid;	       /* in its own namespace */
	uint64_t pid_ns;       /* inode of that namespace */
	uint32_t driver_pid;   /* in the driver's namespace; 0: not found out yet */
	uint64_t generation;   /* counts the row's users: (row, generation) names one process */
	uint32_t account;
	uint64_t start_ns;     /* CLOCK_BOOTTIME at its cuInit */
	char command[32];
	/*
	 * The checkpoint of a process is this one word: while it says so, nothing of the process's
	 * private memory is on its devices but SIM_CHECKPOINT_BYTES. Its threads sleep on it.
	 */
	_Atomic uint32_t checkpoint;
	_Atomic uint32_t calls; /* of the driver, that have begun and not returned */
	_Atomic uint32_t works; /* in its streams */
	uint32_t under_mps;
	uint32_t restore_error; /* what its restore will answer: CUresult, judged at the checkpoint */
	/*
	 * What it had when it was last checkpointed, if it ever was. One that has come back from an
	 * image lives as long as its pid is that of the process that began then: a mapping that CRIU
	 * makes anew has no lock.
	 */
	uint32_t imaged;
	uint64_t back_since; /* its start, as /proc has it; 0: not from an image */
	uint64_t image_bytes[SIM_MAX_DEVICES];
	uint32_t image_contexts[SIM_MAX_DEVICES];
	struct sim_use use[SIM_MAX_DEVICES];
};

/*
 * The account of a process's device time. Rows are used again soon, so accounts are claimed in
 * turn: the time of a process that ended can be read until a thousand others began.
 */
struct sim_account {
	int32_t pid;  /* 0: never used */
	uint32_t row; /* in use while that row lives and names this account */
};

/*
 * Device memory that can outlive the process that took it: exported handles, IPC. It counts once,
 * for its owner; when the owner lets go, another holder becomes the owner, one whose figure may
 * have it if there is one.
 */
struct sim_object {
	uint64_t key[2]; /* as the exporter chose; (0, 0) is a free entry */
	uint64_t bytes;
	uint32_t device;
	int32_t owner; /* row */
	/*
	 * A descriptor that was exported holds the memory too, wherever it is, even on its way
	 * through a socket. It is an open file description of its own with a lock on byte
	 * SIM_EXPORT_LOCK, which anyone sees through the descriptor that the exporter keeps.
	 */
	int32_t export_row; /* -1: none */
	int32_t export_pid, export_fd;
	uint64_t export_generation; /* of the row */
	uint64_t reserved;
	/*
	 * Of the holders, those whose figure may have it. The driver's figure leaves out what a
	 * process keeps by imported handles alone, its own ones included, by an imported pool, or by
	 * a mapping of external memory that it has destroyed.
	 */
	uint64_t holders[SIM_MAX_PROCESSES / 64];
	uint64_t shown[SIM_MAX_PROCESSES / 64];
};

struct sim_region {
	uint64_t magic;
	uint32_t version;
	uint32_t ndevices;
	uint64_t bytes;
	struct sim_mutex lock;
	uint32_t nrows;	   /* rows ever used: scans end here */
	uint32_t nobjects; /* likewise */
	uint32_t naccounts; /* likewise */
	uint32_t next_account;
	uint64_t next_key;
	uint64_t pid_ns; /* the driver's: where the devices were made */
	struct sim_device_row device[SIM_MAX_DEVICES];
	struct sim_process_row row[SIM_MAX_PROCESSES];
	struct sim_object object[SIM_MAX_OBJECTS];
	struct sim_account account[SIM_MAX_ACCOUNTS];
};

/*
 * Where the region is: ALLOT_SIM_DIR, else /dev/shm/allot-sim-<uid>. Writes at most `len` bytes.
 * Returns 0 or -ENAMETOOLONG.
 */
int sim_region_dir(char *buf, size_t len);

/*
 * Map the region in `dir` (NULL: sim_region_dir()), which is made from the environment if there is
 * none and `create` is set. `ret_row`, when not NULL, asks for a row of one's own, alive until the
 * process dies or the region is unmapped; -1 stays there otherwise. The mapping is not inherited by
 * fork. Returns 0, -EPROTO for something that is not a region of this version, -ENOSPC without a
 * free row, -EINVAL for a malformed variable (one line on stderr names it), or -errno.
 */
int sim_region_open(const char *dir, bool create, struct sim_region **ret_region, int *ret_row);
void sim_region_close(struct sim_region *region);

/* Any number of threads and processes; a dead owner is no obstacle. */
void sim_region_lock(struct sim_region *region);
void sim_region_unlock(struct sim_region *region);

/* Whether the row's process lives. Costs a file lock query; unknown counts as alive. */
bool sim_row_alive(struct sim_region *region, int row);

/*
 * The number by which the driver lists the row's process: that of the driver's namespace, which nobody
 * in another one knows, and then one that no process has until somebody there has asked. With the lock
 * held.
 */
uint32_t sim_row_driver_pid(struct sim_region *region, int row);

/* The row keeps what it would take to come back from an image. With the lock held. */
void sim_row_note_image(struct sim_region *region, int row);

/*
 * The row of a living process that came back from an image, checkpointed as it was: -1, there is
 * none. Takes the lock.
 */
int sim_row_revive(struct sim_region *region, int pid, uint64_t pid_ns);

/*
 * Forget what dead processes held and pass shared objects on. With the lock held. The region's own
 * directory must be reachable; else nothing is found dead.
 */
void sim_region_reap(struct sim_region *region);

/*
 * To be called after an object's holders changed. Gives the object to one that is left, or frees
 * it. With the lock held.
 */
void sim_object_settle(struct sim_region *region, struct sim_object *object);

/* Bytes given on a device, and to one row: with the lock held. The dead count until reaped. */
uint64_t sim_region_used(const struct sim_region *region, int device);
uint64_t sim_row_used(const struct sim_region *region, int row, int device);
/* The driver's figure for the row's process: what NVML shows of these bytes. */
uint64_t sim_row_figure(const struct sim_region *region, int row, int device);

/*
 * A process has a row for each library that opened the region, CUDA's and Vulkan's. The figure of all
 * of them is that of its pid; `row` is any of them.
 */
uint64_t sim_process_figure(const struct sim_region *region, int row, int device);
/* True if both rows live and are of one process. */
bool sim_row_is_sibling(const struct sim_region *region, int row, int other);

/* How much more of a device the row's process takes than it does while it is checkpointed. */
uint64_t sim_row_away(const struct sim_region *region, int row, int device);

/*
 * Take `bytes` of a device for a row, or give them back; these take the lock. -ENOMEM when the
 * device is full, the dead not counted.
 */
int sim_charge(struct sim_region *region, int row, int device, uint64_t bytes);
/* `late_ns`: so long the process's figure still has them. */
void sim_uncharge(struct sim_region *region, int row, int device, uint64_t bytes,
		  uint64_t late_ns);

/*
 * Turn `bytes` that the row was charged with into an object others may hold. Returns its index in
 * ret_key[1], or -ENOSPC.
 */
int sim_object_share(struct sim_region *region, int row, int device, uint64_t bytes,
		     uint64_t ret_key[2]);
/* Become a holder, not shown: -ENOENT when it is gone; the size and the device come back. */
int sim_object_hold(struct sim_region *region, int row, const uint64_t key[2],
		    uint64_t *ret_bytes, int *ret_device);
/* A holder's figure may have the object from now on, or no more. */
void sim_object_show(struct sim_region *region, int row, const uint64_t key[2], bool shown);
/* The caller has exported descriptors of the memory; `fd` is the one that it keeps. */
void sim_object_exported(struct sim_region *region, int row, const uint64_t key[2], int fd);
bool sim_object_exists(struct sim_region *region, const uint64_t key[2]);
/* Stop being one: the last one to go frees the memory, unless a descriptor holds it. */
void sim_object_drop(struct sim_region *region, int row, const uint64_t key[2]);

#endif
