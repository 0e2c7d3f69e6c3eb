/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/exec/guarded.h"

#include "cli/exec/launch.h"
#include "cli/exec/report.h"
#include "cli/say/say.h"
#include "guard/guard.h"

static int guarded_enter(void *guard)
{
	struct guard_complaint complaint = {""};

	return guard_enter(guard, &complaint) < 0 ? say_error("%s", complaint.text) : 0;
}

int guarded_launch(struct enrolment *e, const struct dmem_entry *cgroup, char **command,
		   bool report)
{
	struct guard_complaint complaint = {""};
	struct guard *guard = NULL;
	int r, status = 0;

	if (guard_open(e->dir, &guard, &complaint) < 0 || guard_start(guard, &complaint) < 0) {
		r = say_error("%s", complaint.text);
		guard_close(guard);
		dmem_leave(cgroup);
		enroll_undo(e);
		return r;
	}
	if (!guard_knows_kernel(guard, &complaint))
		say_note("%s", complaint.text);
	r = launch_supervised(command, guarded_enter, guard, &status);
	guard_close(guard);
	dmem_leave(cgroup);
	if (report && !r)
		report_print(e);
	if (r)
		enroll_undo(e);
	else
		enroll_end(e);
	return r ? r : launch_end_as(status);
}
