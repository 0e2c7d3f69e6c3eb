/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The thread of ours that keeps the queues of this process to the tenant's share: it sees that the
 * policy changes and that tenants come and go, tells the kernel the masks that follow from it, and
 * takes queues off the hardware and puts them back where no mask holds them. There is one while
 * the process has queues on a limited GPU and for a moment after. For queues without a limit that
 * may get one it stays, but sleeps until the policy changes; what is limited by then has another
 * thread, for nothing but the policy wakes this one.
 */
#ifndef ALLOT_GUEST_AMD_QUEUE_KEEPER_H
#define ALLOT_GUEST_AMD_QUEUE_KEEPER_H

#include "guest/amd/queue/queues.h"

/*
 * Sees to it that there is one, if the queues of this device have a limit or may get one. 0, or
 * -errno where none can be made.
 */
int queue_keeper_need(struct queues *queues, int device);

#endif
