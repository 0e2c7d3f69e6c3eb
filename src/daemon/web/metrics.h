/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The use of the machine and its tenants, in the text that Prometheus reads (exposition format
 * 0.0.4). Pure: it reads nothing but its arguments.
 */
#ifndef ALLOT_DAEMON_WEB_METRICS_H
#define ALLOT_DAEMON_WEB_METRICS_H

#include <stdbool.h>
#include <stdio.h>

#include "daemon/audit/audit.h"
#include "node/devices.h"
#include "node/tenants.h"

#define METRICS_TYPE "text/plain; version=0.0.4; charset=utf-8"

/* `audit` is NULL where there is none. */
void metrics_write(const struct devices *devices, const struct tenants *tenants,
		   const struct audit_report *audit, FILE *out);

/* True if this daemon decides about turns, and has claimed to decide about memory on the devices. */
void metrics_write_roles(bool turns, bool memory, FILE *out);

#endif
