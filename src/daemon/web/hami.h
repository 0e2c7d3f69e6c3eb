/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The same figures by the names and labels of HAMi's monitor and scheduler, for dashboards that
 * were made for it. HAMi's "ratios" are in percent, except that of memory. Pure.
 */
#ifndef ALLOT_DAEMON_WEB_HAMI_H
#define ALLOT_DAEMON_WEB_HAMI_H

#include <stdio.h>

#include "daemon/audit/audit.h"
#include "node/devices.h"
#include "node/tenants.h"

/* `node` is this machine's name; `audit` is NULL where there is none. */
void hami_write(const char *node, const struct devices *devices, const struct tenants *tenants,
		const struct audit_report *audit, FILE *out);

#endif
