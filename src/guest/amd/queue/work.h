/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether queues have work, which programs give them by a doorbell, without a call. All that
 * tells is memory: how far the ring is filled, how far the GPU is, and of AQL's packets the
 * signals. Where none of it tells, a queue has work.
 */
#ifndef ALLOT_GUEST_AMD_QUEUE_WORK_H
#define ALLOT_GUEST_AMD_QUEUE_WORK_H

#include "guest/amd/queue/queues.h"

/* Whether the ring holds what the GPU has not begun. A copy engine tells what is done. */
bool queue_has_more(const struct queue *queue);

/* Whether any is at work, or was given some since the last look. By one thread. */
bool queues_work(struct queues *queues);

/* Of queues that are off the hardware: whether any was given more than it had begun. */
bool queues_have_more(struct queues *queues);

/*
 * Of the same, by a file of /dev/kfd: whether the kernel keeps waves of any, which go on when it is
 * back. That does not change until then.
 */
bool queues_are_amid(struct queues *queues, int fd);

#endif
