/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The guest's part for AMD's GPUs: what liballot knows of them in one process. Their driver is the
 * kernel, so what is hooked are the C library's ways to it, and a call is ours by the file that its
 * descriptor is of: /dev/kfd, or a GPU's render node.
 */
#ifndef ALLOT_GUEST_AMD_AMD_H
#define ALLOT_GUEST_AMD_AMD_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "amd/kfd_view.h"
#include "amd/topology.h"
#include "base/lock.h"
#include "guest/amd/addresses.h"
#include "guest/amd/ranges.h"
#include "guest/core/guest.h"

struct queues;

struct amd_device {
	const struct topology_node *node;
	uint8_t uuid[16]; /* amd/identity.h */
	int card_minor;	  /* of its primary node, which takes what a render node takes; -1: none */
	uint64_t total_bytes; /* as the kernel's topology has it; see amd_total */
	_Atomic uint64_t pool_bytes; /* beside that, the kernel's GTT, if unified */
	uint64_t visible_bytes; /* of these, what the CPU reaches; UINT64_MAX: not known */
	bool ours;  /* the tenant has it; others are as if they were not there */
	int ledger; /* index in the tenant's ledger, if ours */
	_Atomic int unified; /* enum amd_unified: see amd_is_unified */

	/* Of a swappable tenant: what the kernel has as the GPU's address space, as a key of files.h. */
	_Atomic uint64_t vm_file;

	_Atomic uint64_t limit; /* cached for limit_generation, see amd_limit */
	_Atomic uint64_t limit_generation;
};

/* Does not change once it is published, but for what is atomic. */
struct amd {
	int error; /* why AMD's GPUs are refused to this process for good, -errno; 0 */
	char complaint[220];
	struct topology *topology; /* the machine's, with what the tenant does not have */
	struct slot *slot;
	/* Index in the tenant's ledger of what GPUs have pinned of the machine's memory; < 0: none. */
	int host;
	_Atomic uint64_t gtt_bytes; /* the policy's limit on that; cached as a device's */
	_Atomic uint64_t gtt_generation;
	bool hides; /* a GPU that the tenant does not have: else names of GPUs need no look */
	uint32_t ndevices;
	struct amd_device device[GUEST_DEVICES];
	_Atomic uint32_t rings; /* work was given to the kernel's own, which no queue of ours sees */
	_Atomic(struct queues *) queues; /* from the first queue on, see guest/amd/queue/queues.h */

	struct amd_ranges ranges; /* the program's own memory that is on GPUs: memory/svm.h */
	_Atomic uint64_t svm_begun, svm_ended; /* calls that say where it is to be */
	_Atomic int tells; /* whether the kernel does, of addresses: memory/hook_address.c */
	struct addresses addresses; /* of buffers of render nodes, where it does not */
	struct lock_amd_files file_lock; /* see files.c */
	_Atomic uint64_t file_marks;
	uint32_t file_given[64]; /* how often each mark was; under the lock, as the next */
	int16_t file_minor[64];	 /* of the node that it was given to, plus one */
	_Atomic bool file_marks_found; /* those that are from before exec */
};

/* Which of the devices' files: no other file is of interest. */
enum amd_file {
	AMD_FILE_NONE = -2,
	AMD_FILE_KFD = -1, /* else the minor of a DRM device, render node or not, of any vendor */
};

/*
 * The number of /dev/kfd, as stat says it, plus one, or one of these; 0: not looked for yet. It is
 * asked of sysfs first: the node may have another name in a container. It stays what it is as long
 * as the driver is loaded, and one that is loaded later is for programs that start later.
 */
#define AMD_KFD_NOT_HERE  UINT64_MAX
#define AMD_KFD_NO_DEVICE (UINT64_MAX - 1) /* a container may have render nodes and not /dev/kfd */
#define AMD_KFD_UNTOLD	  (UINT64_MAX - 2) /* sysfs is hidden, so each render node is asked */
extern _Atomic uint64_t amd_kfd_rdev;

/* True if there can be a file of AMD's driver. Keeps errno. */
bool amd_is_here(void);

/* True if it was found that there can be none. */
static inline bool amd_is_absent(void)
{
	return atomic_load_explicit(&amd_kfd_rdev, memory_order_relaxed) == AMD_KFD_NOT_HERE;
}

/*
 * True if a request can be taken as one to /dev/kfd without checking its descriptor: it is one of
 * the driver's, and the descriptor was of /dev/kfd at the last check. If it was closed and is
 * another file now, that file gets the request as it would without us. Most files answer that they
 * know no such request. A render node goes by the number alone, so numbers that are decided on
 * there are never taken so.
 */
bool amd_is_kfd_request(int fd, unsigned long request);

/* It may have another number from now on. */
void amd_forget_kfd(void);

/*
 * Returns the kind of file of a descriptor. One load on a machine without AMD's driver, a call of
 * fstat elsewhere. Keeps errno.
 */
int amd_file(int fd);

/*
 * The limited guest's part of a call for one of these files, made by the first that asks. NULL: the
 * call is to be passed on, for nothing is limited or it is our own; or, with -ENODEV in *ret_error,
 * the GPU is refused, for now or for good.
 */
struct amd *amd_limited(struct guest **ret_guest, int *ret_error);

/* By what ioctls call it, and by the minor of one of its nodes. NULL: none that was seen here. */
struct amd_device *amd_device(struct amd *amd, uint32_t gpu_id);
struct amd_device *amd_device_of_minor(struct amd *amd, int minor);

/* True if the tenant has the GPU; no other is named to the kernel. */
bool amd_is_ours(struct amd *amd, uint32_t gpu_id);

/*
 * True if the GPU works on the machine's memory: it has none of its own, or is one chip with the CPU
 * (APUs, MI300A). The kernel says the second by a render node. The first that the program uses, or hands
 * to /dev/kfd, is asked.
 */
enum amd_unified { AMD_UNIFIED_UNASKED, AMD_UNIFIED_NOT, AMD_UNIFIED };


static inline bool amd_is_unified(const struct amd_device *device)
{
	return !device->total_bytes ||
	       atomic_load_explicit(&device->unified, memory_order_relaxed) == AMD_UNIFIED;
}
void amd_learn_unified(struct guest *guest, struct amd_device *device, int fd);

/*
 * All the memory that the GPU has. Where it works on the machine's: what the firmware carved out
 * for it and the kernel's GTT. The carve-out of an MI300A is all of the machine's memory, GTT
 * included.
 */
uint64_t amd_total(const struct amd_device *device);

/* The tenant's limit on one of its devices, now. */
uint64_t amd_limit(struct guest *guest, struct amd_device *device);

/* The memory of one of its devices as the tenant is to see it, now. */
struct kfd_view amd_view(struct guest *guest, struct amd_device *device);

#endif
