/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Containers that Kubernetes has given a part of a device, and that are not held to it: a process in
 * the container uses that device and is not limited, and none there has a tenant's ledger. So the
 * limit never came into it, as where its runtime reads no CDI files. A container that does not use the
 * device is not counted: nothing shows yet whether it would be held.
 */
#ifndef ALLOT_DAEMON_AUDIT_UNENFORCED_H
#define ALLOT_DAEMON_AUDIT_UNENFORCED_H

#include "daemon/audit/audit.h"
#include "kube/state/counts.h"
#include "node/tenants.h"

/*
 * Into `ret`, which has room for audit->n: one process of each such container, with its Pod as far as
 * it is known. How many.
 */
size_t unenforced_find(const struct counts *counts, const struct tenants *tenants,
		       const struct audit_report *audit, struct pod *ret);

/* Returns true if that container has a part of the device from here, by the kubelet's list. */
bool unenforced_holds(const struct counts *counts, const struct pod *pod, const uint8_t uuid[static 16]);

#endif
