/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files that meet calls about memory have in common (hook_memory.c, hook_map.c,
 * hook_sharing.c): handles, and the objects of the guest's table that are charged for them.
 */
#ifndef ALLOT_GUEST_AMD_MEMORY_MEMORY_H
#define ALLOT_GUEST_AMD_MEMORY_MEMORY_H

#include "guest/amd/call.h"
#include "guest/amd/memory/reserve.h"

/* Gives a handle back that the kernel has just given: it has no reason to refuse. */
void amd_memory_undo(struct amd_call *call, uint64_t handle);

/* What a handle of the call's file is in the table: OBJECT_KFD or OBJECT_GEM, and its key. */
enum object_kind amd_memory_kind(const struct amd_call *call);
uint64_t amd_memory_key(struct amd_call *call, uint64_t handle);

/*
 * Puts down what is charged for `handle`, with kind, key and refs filled in. What was there before
 * is counted off, unless files share the key: then both count. -ENOMEM.
 */
int amd_memory_put(struct amd_call *call, uint64_t handle, struct object *object);

/* Whether an object of the call's render node is of a GPU's own memory, and how much. */
bool amd_memory_in_vram(struct amd_call *call, uint32_t handle, uint64_t *ret_bytes);

/* SVM: takes memory of GPUs, or gives it back, by addresses. */
int amd_memory_svm(struct amd_call *call, const struct demand *demand);

int amd_memory_map(struct amd_call *call);   /* MAP */
int amd_memory_share(struct amd_call *call); /* SHARE */

#endif
