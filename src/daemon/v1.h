/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the machine and its tenants use, as JSON: docs/json.md has the format, which is stable. Pure:
 * it looks at nothing but what it is given.
 */
#ifndef ALLOT_DAEMON_V1_H
#define ALLOT_DAEMON_V1_H

#include <stdio.h>

#include "daemon/audit.h"
#include "node/devices.h"
#include "node/tenants.h"

#define V1_TYPE "application/json"

/* `audit` is NULL where there is none. */
void v1_write_node(const struct devices *devices, const struct tenants *tenants,
		   const struct audit_report *audit, FILE *out);

#endif
