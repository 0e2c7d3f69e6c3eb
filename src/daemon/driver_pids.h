/* SPDX-License-Identifier: Apache-2.0 */
/*
 * By which numbers drivers list the processes of tenants in containers. Those do not know them, and
 * could not tell their own figures from others'. Written into their slots, where each compares what it
 * reads there with what the driver lists.
 */
#ifndef ALLOT_DAEMON_DRIVER_PIDS_H
#define ALLOT_DAEMON_DRIVER_PIDS_H

#include "node/tenants.h"
#include "node/usage.h"

/* For those that the driver lists by now. */
void driver_pids_tell(const struct usage_list *usage, const struct tenants *tenants);

#endif
