/* SPDX-License-Identifier: Apache-2.0 */
/* Calls about memory, and those that hook_memory.c hands on, each to the file that is about them. */
#ifndef ALLOT_GUEST_AMD_MEMORY_MEMORY_H
#define ALLOT_GUEST_AMD_MEMORY_MEMORY_H

#include "amd/demand.h"
#include "guest/amd/call.h"

/*
 * As the families of guest/amd/call.h: COUNT, RELEASE, MAP, NOTE, SHARE, MOVE, LEFT of
 * amd/kfd_decision.def.
 */
int amd_memory_call(struct amd_call *call);
/* True if NOTE is of any use on this machine. */
bool amd_memory_notes(struct amd *amd, int fd);

/* SVM: takes memory of GPUs, or gives it back, by addresses. */
int amd_memory_svm(struct amd_call *call, const struct demand *demand);

int amd_memory_map(struct amd_call *call);   /* MAP */
int amd_memory_address(struct amd_call *call); /* NOTE */
int amd_memory_share(struct amd_call *call); /* SHARE */

#endif
