/* SPDX-License-Identifier: Apache-2.0 */
/* Prometheus metrics of this node's exchange with Kubernetes. */
#ifndef ALLOT_DAEMON_WEB_KUBE_METRICS_H
#define ALLOT_DAEMON_WEB_KUBE_METRICS_H

#include <stdio.h>

#include "daemon/audit/audit.h"
#include "kube/state/counts.h"
#include "node/tenants.h"

/* Nothing where Kubernetes is told of no devices. `audit` is NULL where there is none. */
void kube_metrics_write(const struct counts *counts, const struct tenants *tenants,
			const struct audit_report *audit, FILE *out);

#endif
