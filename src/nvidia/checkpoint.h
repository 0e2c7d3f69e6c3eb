/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The driver's own checkpoint of another process (cuCheckpointProcess*): all of its memory on the
 * devices, contexts too, moves to its own host memory, and back. For the command; never used inside
 * a tenant's process. The driver itself knows each process's state, so a command that is killed
 * between two of these calls leaves nothing that the next one does not find.
 *
 * Errors: -EPERM not allowed, -ENOTSUP not with this process (managed memory, MPS) or not with this
 * driver, -ESRCH no such process or the driver has nothing of it, -ETIMEDOUT, -ENOMEM the device is
 * full, -EBUSY it is in another state, -EIO anything else.
 */
#ifndef ALLOT_NVIDIA_CHECKPOINT_H
#define ALLOT_NVIDIA_CHECKPOINT_H

#include <sys/types.h>

#include "nvidia/abi/cuda.h"

/*
 * Loads the driver, once. -ENOENT: there is none; -ENOTSUP: it is older than 570; -ENODEV: it does
 * not work.
 */
int checkpoint_open(void);

int checkpoint_state(pid_t pid, CUprocessState *ret);

/* RUNNING to LOCKED: lets no more work begin, and waits up to `timeout_ms` for work under way. */
int checkpoint_lock(pid_t pid, unsigned int timeout_ms);
/* LOCKED to CHECKPOINTED, and back. */
int checkpoint_take(pid_t pid);
int checkpoint_return(pid_t pid);
/* LOCKED to RUNNING. */
int checkpoint_unlock(pid_t pid);

#endif
