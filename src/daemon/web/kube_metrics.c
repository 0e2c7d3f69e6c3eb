/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/web/kube_metrics.h"

#include <inttypes.h>
#include <stdlib.h>

#include "daemon/audit/unenforced.h"
#include "daemon/web/exposition.h"
#include "text/units.h"

static const struct {
	const char *name, *help;
} calls[COUNTS_CALLS] = {
	[COUNTS_ALLOCATE] = {"allot_allocate_seconds", "How long the kubelet's calls of Allocate took."},
	[COUNTS_PRESTART] = {"allot_prestart_seconds",
			     "How long the kubelet's calls of PreStartContainer took."},
	[COUNTS_PREPARE] = {"allot_prepare_seconds",
			    "How long the kubelet's calls of NodePrepareResources took."},
};

static void kube_metrics_put_bucket(FILE *out, const char *name, const char *bound, uint64_t n)
{
	char bucket[64];

	snprintf(bucket, sizeof(bucket), "%s_bucket", name);
	exposition_put(out, bucket, LABELS("le", bound), n);
}

static void kube_metrics_put_times(FILE *out, enum counts_call call, const struct counts_times *times)
{
	const char *name = calls[call].name;
	char bound[32];

	exposition_head(out, name, "histogram", calls[call].help);
	for (size_t i = 0; i < COUNTS_BOUNDS; i++) {
		snprintf(bound, sizeof(bound), "%g", (double)counts_bound_ns[i] / 1e9);
		kube_metrics_put_bucket(out, name, bound, times->within[i]);
	}
	kube_metrics_put_bucket(out, name, "+Inf", times->n);
	fprintf(out, "%s_sum ", name);
	exposition_put_ns(out, times->sum_ns);
	fprintf(out, "\n%s_count %" PRIu64 "\n", name, times->n);
}

static void kube_metrics_put_registrations(FILE *out, const struct counts *counts)
{
	static const char name[] = "allot_registration_state";

	exposition_head(out, name, "gauge", "1: the kubelet has registered the resource, or the driver.");
	for (size_t i = 0; i < counts->nresources; i++)
		exposition_put(out, name, LABELS("resource", counts->resource[i].name),
			       counts->resource[i].registered);
}

static void kube_metrics_put_health(FILE *out, const struct node_devices *devices)
{
	static const char name[] = "allot_device_health";

	exposition_head(out, name, "gauge",
			"1: Kubernetes is told that the device is well; 0: nothing new is to come there.");
	for (unsigned int i = 0; i < devices->n; i++)
		exposition_put(out, name,
			       LABELS("device_uuid", units_uuid(devices->list[i].device.uuid).s),
			       !devices->list[i].sick);
}

/* Without an audit of the devices' processes there are no metrics. */
static void kube_metrics_put_unenforced(FILE *out, const struct counts *counts,
					const struct tenants *tenants, const struct audit_report *audit)
{
	static const char name[] = "allot_unenforced_containers";
	struct pod *list = calloc(audit->n + 1, sizeof(*list));
	size_t n = list ? unenforced_find(counts, tenants, audit, list) : 0;

	exposition_head(out, name, "gauge",
			"1; a container that uses a device of which Kubernetes gave it a part, and is not limited.");
	for (size_t i = 0; i < n; i++)
		exposition_put(out, name,
			       LABELS("namespace", list[i].space, "pod", list[i].name, "container",
				      list[i].container, "uid", list[i].uid),
			       1);
	free(list);
}

void kube_metrics_write(const struct counts *counts, const struct tenants *tenants,
			const struct audit_report *audit, FILE *out)
{
	if (!counts->devices)
		return;
	kube_metrics_put_registrations(out, counts);
	kube_metrics_put_health(out, counts->devices);
	for (int call = 0; call < COUNTS_CALLS; call++)
		kube_metrics_put_times(out, (enum counts_call)call, &counts->times[call]);
	if (audit)
		kube_metrics_put_unenforced(out, counts, tenants, audit);
}
