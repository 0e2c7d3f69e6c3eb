/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tells if queues have work, which programs give them by a doorbell, without a call. The only
 * sources are in memory: the fill of the ring, the GPU's progress, and the signals of AQL's
 * packets. A queue for which none of these tells has work.
 */
#ifndef ALLOT_GUEST_AMD_QUEUE_WORK_H
#define ALLOT_GUEST_AMD_QUEUE_WORK_H

#include "guest/amd/queue/queues.h"

/* True if the ring has work that the GPU has not begun; of a copy engine, work that is not done. */
bool queue_has_more(const struct queue *queue);

/* True if any queue is at work, or was given some since the last look. By one thread. */
bool queues_work(struct queues *queues);

/* Of queues that are off the hardware: whether any was given more than it had begun. */
bool queues_have_more(struct queues *queues);

/*
 * Of the same, by a file of /dev/kfd: whether the kernel keeps waves of any, which go on when it is
 * back. That does not change until then.
 */
bool queues_are_amid(struct queues *queues, int fd);

#endif
