/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The keeper: a thread of ours that keeps the queues of this process to the tenant's share. It sees
 * that the policy changes and that tenants come and go, and tells the kernel the masks that follow.
 * Where no mask binds a queue, it takes the queue off the hardware and puts it back.
 *
 *	the process has			a thread
 *	a queue on a limited GPU	keeps it: looks every few milliseconds
 *	no such queue for 200 ms	ends,
 *	but queues without a limit	or watches: sleeps until the policy changes
 *
 * Only the policy wakes a thread that watches. A queue with a limit that is made meanwhile gets
 * another keeper.
 */
#ifndef ALLOT_GUEST_AMD_QUEUE_KEEPER_H
#define ALLOT_GUEST_AMD_QUEUE_KEEPER_H

#include "guest/amd/queue/queues.h"

/*
 * Makes the keeper where there is none and the queues of this device have a limit or may get one.
 * 0, or -errno where no thread can be made.
 */
int queue_keeper_need(struct queues *queues, int device);

#endif
