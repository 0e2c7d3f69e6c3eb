/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory that an open render node has when this process meets it: of the program before exec, or of a
 * process that is gone. It is the file's, and nobody is charged for it any more.
 */
#ifndef ALLOT_GUEST_AMD_MEMORY_INHERIT_H
#define ALLOT_GUEST_AMD_MEMORY_INHERIT_H

#include "guest/amd/call.h"

/* Before a call about memory: charges what files have that no call of this process has met. */
void amd_inherit(struct amd_call *call);

/* The same before ACQUIRE_VM, of the render node that /dev/kfd is given. */
void amd_inherit_vm(const struct amd_call *call);

#endif
