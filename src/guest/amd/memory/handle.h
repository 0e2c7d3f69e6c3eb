/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Handles of memory, of /dev/kfd or of an open render node, and the objects of the guest's table
 * that are charged for them: what all calls about memory have in common.
 */
#ifndef ALLOT_GUEST_AMD_MEMORY_HANDLE_H
#define ALLOT_GUEST_AMD_MEMORY_HANDLE_H

#include <stdbool.h>
#include <stdint.h>

#include "guest/amd/call.h"
#include "guest/core/object.h"

/* Gives a handle back that the kernel has just given: it has no reason to refuse. */
void amd_handle_undo(struct amd_call *call, uint64_t handle);

/*
 * The kind of the handles of the call's file in the table, OBJECT_KFD or OBJECT_GEM, and a handle's
 * key.
 */
enum object_kind amd_handle_kind(const struct amd_call *call);
uint64_t amd_handle_key(struct amd_call *call, uint64_t handle);

/*
 * Records the charge for `handle`, with kind, key and refs filled in. An earlier object of that key
 * is counted off, unless files share the key: then both count. -ENOMEM.
 */
int amd_handle_put(struct amd_call *call, uint64_t handle, struct object *object);

/*
 * One of the objects that share the key is gone. True if it was the last of them: it is then out of
 * the table, and *ret_last has what they were charged together.
 */
bool amd_handle_take_from_key(struct amd_call *call, uint64_t key, struct object *ret_last);

/* How an object of the call's render node was made; false: not told, or there is none. */
struct drm_amdgpu_gem_create_in;
bool amd_handle_made_as(struct amd_call *call, uint32_t handle,
			struct drm_amdgpu_gem_create_in *ret);

/*
 * The kernel's answer about an object of the call's render node: its size, and whether it may be in a
 * GPU's own memory. False: it gives none. The other returns true if the object may be in the machine's.
 */
bool amd_handle_size(struct amd_call *call, uint32_t handle, bool *ret_vram, uint64_t *ret_bytes);
bool amd_handle_may_be_host(struct amd_call *call, uint32_t handle);

#endif
