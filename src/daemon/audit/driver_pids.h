/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The numbers by which drivers list processes of tenants in containers. These processes do not know
 * them, and could not tell their own figures from others'. allotd writes them into their slots,
 * where each process compares them with the driver's list.
 */
#ifndef ALLOT_DAEMON_AUDIT_DRIVER_PIDS_H
#define ALLOT_DAEMON_AUDIT_DRIVER_PIDS_H

#include "node/tenants.h"
#include "node/usage.h"

/* For those that the driver lists by now. */
void driver_pids_tell(const struct usage_list *usage, const struct tenants *tenants);

#endif
