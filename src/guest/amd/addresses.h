/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Notes the GPU addresses of the process's buffers of render nodes, if the kernel does not tell
 * them: for a checkpoint from outside (amd/gem_addresses.h). Memory from mmap alone.
 */
#ifndef ALLOT_GUEST_AMD_ADDRESSES_H
#define ALLOT_GUEST_AMD_ADDRESSES_H

#include <stdbool.h>
#include <stdint.h>

#include "amd/abi/drm.h"
#include "amd/gem_addresses.h"
#include "base/lock.h"

/* All zero is an empty one. */
struct addresses {
	struct lock_amd_addresses lock;
	uint32_t room;
	struct amd_addresses is;
};

/* The kernel has just done this, by the handle with that key (guest/amd/files.h). */
void addresses_note(struct addresses *addresses, uint64_t key, const struct drm_amdgpu_gem_va *done);

/* The handle is about to be closed; or all of the files are that `gone` says so of, by a key. */
void addresses_forget(struct addresses *addresses, uint64_t key);
void addresses_forget_files(struct addresses *addresses,
			    bool (*gone)(uint64_t key, const void *arg), const void *arg);

/* They are what this process says of itself from now on. */
void addresses_publish(const struct addresses *addresses);

#endif
