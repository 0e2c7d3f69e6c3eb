/* SPDX-License-Identifier: Apache-2.0 */
/*
 * By which pid the driver lists this process, where nobody outside says so (daemon/audit/driver_pids.h). In a
 * container that is another number than its own, and it sees nobody else's. So it takes some
 * memory of the device, looks in NVML's list whose figure has grown by just as much, and gives it back:
 * several times, a different amount each time. Nobody else does that by chance, and if several
 * processes do it at once their amounts differ. It needs nothing that containers share, as a lock
 * would, and can be done at any time once there is a context: when somebody first needs the
 * figure, and not at the start.
 */
#ifndef ALLOT_GUEST_ACCOUNT_OWN_PID_H
#define ALLOT_GUEST_ACCOUNT_OWN_PID_H

#include <stdbool.h>

#include "guest/core/guest.h"

/*
 * For a process with a context there, when the driver's list does not have it. Found: its slot says it,
 * as if somebody had told. False also where it was tried a moment ago, or is being tried; and in a
 * swappable tenant, whose driver may not be called while it is away. Holds up to 16 MiB of the
 * device, and of the quota, for as long as that takes: some milliseconds.
 */
bool own_pid_find(struct guest *guest, struct guest_device *device);

#endif
