/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/exec/report.h"

#include <inttypes.h>
#include <stdio.h>

#include "cli/exec/launch.h"
#include "cli/say/say.h"
#include "ledger/reader/snapshot.h"
#include "node/tenants.h"
#include "text/units.h"

/* Time is measured where compute is limited or shared, and there on NVIDIA's devices. */
static void report_device(const struct snapshot_device *d)
{
	struct units_text quota = d->limit_bytes ? units_bytes(d->limit_bytes)
						 : (struct units_text){"no limit"};
	char time[128] = "";

	if (d->compute.busy_ns)
		snprintf(time, sizeof(time), ", %s of its time (held for %s)",
			 units_duration(d->compute.busy_ns).s,
			 units_duration(d->compute.throttled_ns).s);
	say_note("  %s: peak %s of %s, %" PRIu64 " refused%s", units_uuid_short(d->uuid).s,
		 units_bytes(d->peak_bytes).s, quota.s, d->refusals, time);
}

void report_print(const struct enrolment *e)
{
	struct snapshot *snapshot;
	unsigned int used = 0;
	int r = snapshot_read(e->dir, &snapshot);

	if (r < 0) {
		say_note("no report of tenant %s: %s", e->name, tenants_error_words(r));
		return;
	}
	for (int i = 0; i < snapshot->ndevices; i++)
		used += snapshot->device[i].index >= 0;
	say_note("tenant %s%s", e->name, used ? ", since it began:" : " used no GPU");
	for (int i = 0; i < snapshot->ndevices; i++)
		if (snapshot->device[i].index >= 0)
			report_device(&snapshot->device[i]);
	snapshot_free(snapshot);
}

int report_launch(struct enrolment *e, const struct dmem_entry *cgroup, char **command)
{
	int status = 0, r = launch_supervised(command, NULL, NULL, &status);

	dmem_leave(cgroup);
	if (r) {
		enroll_undo(e);
		return r;
	}
	report_print(e);
	enroll_end(e);
	return launch_end_as(status);
}
