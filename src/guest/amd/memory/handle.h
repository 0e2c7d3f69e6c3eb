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

/* What a handle of the call's file is in the table: OBJECT_KFD or OBJECT_GEM, and its key. */
enum object_kind amd_handle_kind(const struct amd_call *call);
uint64_t amd_handle_key(struct amd_call *call, uint64_t handle);

/*
 * Puts down what is charged for `handle`, with kind, key and refs filled in. What was there before
 * is counted off, unless files share the key: then both count. -ENOMEM.
 */
int amd_handle_put(struct amd_call *call, uint64_t handle, struct object *object);

/*
 * One of the objects that share the key is gone. Whether it was the last of them: it has left the
 * table, with what they were charged together.
 */
bool amd_handle_take_from_key(struct amd_call *call, uint64_t key, struct object *ret_last);

/* Whether an object of the call's render node is of a GPU's own memory, and how much. */
bool amd_handle_in_vram(struct amd_call *call, uint32_t handle, uint64_t *ret_bytes);

#endif
