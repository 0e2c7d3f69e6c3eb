/* SPDX-License-Identifier: Apache-2.0 */
/* Calls about queues: QUEUE of amd/kfd_decision.def. */
#ifndef ALLOT_GUEST_AMD_QUEUE_QUEUE_H
#define ALLOT_GUEST_AMD_QUEUE_QUEUE_H

#include "guest/amd/call.h"

/* As the families of guest/amd/call.h. */
int amd_queue_call(struct amd_call *call);

#endif
