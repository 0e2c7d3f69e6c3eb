/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The use of the machine and its tenants as JSON, in the stable format of docs/json.md. Pure: it
 * reads nothing but its arguments.
 */
#ifndef ALLOT_DAEMON_WEB_V1_H
#define ALLOT_DAEMON_WEB_V1_H

#include <stdio.h>

#include "daemon/audit/audit.h"
#include "node/devices.h"
#include "node/tenants.h"

#define V1_TYPE "application/json"

/* `audit` is NULL where there is none. */
void v1_write_node(const struct devices *devices, const struct tenants *tenants,
		   const struct audit_report *audit, FILE *out);

/* The pages that there are, for programs that look for them. */
void v1_write_index(FILE *out);

#endif
