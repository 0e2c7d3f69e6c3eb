/* SPDX-License-Identifier: Apache-2.0 */
/* Of a build without AMD GPUs, whose memory is all that a guard counts. */
#include "cli/exec/guarded.h"
#include "cli/say/say.h"

int guarded_launch(struct enrolment *e, const struct dmem_entry *cgroup, char **command, bool report)
{
	int r = say_error("--guard is for AMD GPUs, and this allot is built without them "
			  "(-Damd=false)");

	dmem_leave(cgroup);
	enroll_undo(e);
	return r;
}
