/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ledger of a tenant: a file in the tenant's directory that its processes map and in which
 * each writes its own slot. This module owns the file, its mapping and the device table.
 *
 * Directory and file must belong to the caller or to root and be closed to everybody else; symbolic
 * links are refused. A hostile process of the same user can still truncate the file under a
 * mapping, which the kernel answers with SIGBUS: nothing in user space prevents that
 * (docs/threat-model.md says what was tried), and readers do not map.
 */
#ifndef ALLOT_LEDGER_LEDGER_H
#define ALLOT_LEDGER_LEDGER_H

#include <stdbool.h>
#include <stdint.h>

struct ledger;

enum ledger_mode {
	LEDGER_GUEST, /* mapped, to be written after slot_claim */
	LEDGER_READ,  /* a private copy; ledger_refresh brings it up to date */
	/*
	 * A private copy of the devices, their time, and the bell, which keeps no descriptor. The
	 * file is mapped, and only the kernel touches it: a truncated file is an error and no
	 * signal. For a process that other processes of the user must not be able to end.
	 */
	LEDGER_WATCH,
};

/*
 * Creates <dir>/ledger, with the disk space of all but the devices' rows. -EEXIST when there is
 * one; -ENOSPC, -EDQUOT. A kill leaves a file that ledger_open refuses, which is why tenant_create
 * builds under a temporary name.
 */
int ledger_create(const char *dir);

/* Checks that there is one of this library's version in <dir>: 0, or an error of ledger_open. */
int ledger_check(const char *dir);

/*
 * -ENOENT; -ELOOP (symbolic link); -EPERM (foreign owner, open to others, not a regular file);
 * -EPROTO (magic, version or size are not this library's); -EROFS, -EACCES, -EMFILE.
 * Guests keep the path of `dir`, no descriptor, for what must be locked or allocated later. The
 * mapping is not inherited by fork: a child must not use its parent's ledger in any way (not even
 * close it), but open and claim its own.
 */
int ledger_open(const char *dir, enum ledger_mode mode, struct ledger **ret);

/*
 * LEDGER_READ of a file that is open to be read, wherever it is and whosever. `fd` stays the
 * caller's.
 */
int ledger_open_file(int fd, struct ledger **ret);

/* Frees the slot, if one was claimed, and unmaps. NULL is fine. */
void ledger_close(struct ledger *ledger);

/*
 * Writes the ledger of a tenant whose processes go to an image, unchanged, to `fd`, as large as the
 * file is. Nothing of it may change meanwhile.
 */
int ledger_save(const char *dir, int fd);

/*
 * Puts the file of ledger_save in place of the ledger of a tenant that was just created, and that
 * nobody has opened. Its processes, and nobody else, take their slots again (slot_adopt). `aged`:
 * keys of shared objects are not valid any more (shared_aged). -EPROTO for a file of another kind.
 */
int ledger_await(const char *dir, int fd, bool aged);

/*
 * Not LEDGER_GUEST: copies the file again. -ENODATA when it was truncated. For LEDGER_WATCH it
 * takes a microsecond or two.
 */
int ledger_refresh(struct ledger *ledger);

/* The same for LEDGER_WATCH alone; a mapping that is used is always up to date: 0. */
int ledger_look(struct ledger *ledger);

/*
 * Finds a device or adds it, and makes sure that its rows exist on disk. Answers its index in this
 * tenant (which has nothing to do with CUDA's), -ENOSPC (disk, or 64 devices), -EINVAL for a UUID
 * half of which is zero. With LEDGER_READ it only finds: -ENODEV.
 */
int ledger_device(struct ledger *ledger, const uint8_t uuid[16], uint64_t total_bytes);

/*
 * The index of a device that is in the table, with its rows on disk. Nothing is added: -ENODEV. -ENOSPC.
 */
int ledger_find(struct ledger *ledger, const uint8_t uuid[16]);

/*
 * As ledger_device, for the entry of the machine's memory that AMD's GPUs have pinned for the tenant: rows,
 * categories (enum host_category), entries of shared memory and refusals are as a device's, and no look
 * for devices finds it. -ENOSPC also where 64 devices are known already.
 */
int ledger_host(struct ledger *ledger);

/*
 * Makes sure that the rows of an entry exist on disk: before, they must not be touched. 0, -ENODEV
 * or -ENOSPC. Waits for nobody, whatever the ledger's owner.
 */
int ledger_allocate(struct ledger *ledger, int device);

/* True if the table has an entry `device`; there are no gaps in it but before ledger_host's. */
bool ledger_knows(struct ledger *ledger, int device);

/* Entry `device` of the table. -ENODEV past the end or where the name is not complete. */
struct ledger_device_info {
	uint8_t uuid[16];
	uint64_t total_bytes;
	uint64_t context_bytes;	    /* of one context, as it was last measured; 0: it was not */
	uint64_t context_mps_bytes; /* the same of processes under MPS */
	uint64_t refusals;
	uint64_t peak_bytes; /* most that was held at once */
};
int ledger_device_info(struct ledger *ledger, int device, struct ledger_device_info *ret);
/* The same of ledger_host's entry: its index, or -ENODEV while no process has made it. */
int ledger_host_info(struct ledger *ledger, struct ledger_device_info *ret);

/*
 * A futex that processes in a container ring for the arbiter, since they reach no file that other
 * tenants have, too. See roles/arbiter_host.h.
 */
uint32_t *ledger_bell(struct ledger *ledger);
/* How often it was rung, as of the last ledger_look. The word itself may not be there to be read. */
uint32_t ledger_rung(struct ledger *ledger);

/* Keeps the size of a context on this device, under MPS or without, for later processes. */
void ledger_learn_context(struct ledger *ledger, int device, bool mps, uint64_t bytes);

#endif
