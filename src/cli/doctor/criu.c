/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/doctor/criu.h"

#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "amd/topology_read.h"
#include "cli/checkpoint/breakpoint.h"
#include "cli/checkpoint/criu.h"
#include "cli/doctor/finding.h"
#include "cli/out/say.h"
#include "node/library.h"

#define KERNEL_MAJOR 6
#define KERNEL_MINOR 13

static bool criu_kernel_is_new(const char *release)
{
	unsigned int major = 0, minor = 0;

	return sscanf(release, "%u.%u", &major, &minor) == 2 &&
	       (major > KERNEL_MAJOR || (major == KERNEL_MAJOR && minor >= KERNEL_MINOR));
}

/* Where there are AMD's GPUs: one build for older CRIUs, and one for newer ones. */
static void criu_report_plugin(void)
{
	char path[PATH_MAX];

	if (access(TOPOLOGY_DIR, F_OK) < 0)
		return;
	if (library_criu_plugin(CRIU_OLDER_HOOKS, path) < 0 ||
	    library_criu_plugin(CRIU_NEWER_HOOKS, path) < 0)
		finding_say(FINDING_OK, "CRIU's plugin for AMD GPUs is not here: only checkpoints to disk "
					"of tenants on them need it",
			    CRIU_PLUGIN_TODO);
	else
		finding_say(FINDING_OK, "CRIU's plugin for AMD GPUs", NULL);
}

void criu_report(void)
{
	char said[512], version[CRIU_VERSION_BYTES], what[256];
	unsigned int major = 0;
	struct utsname kernel;
	int r = criu_find(&major, version, said);

	if (r == -ENOENT) {
		finding_say(FINDING_OK, "no CRIU here: only checkpoints to disk need it", CRIU_TODO);
		return;
	}
	if (r < 0) {
		snprintf(what, sizeof(what), "criu --version does not tell its version: %.128s",
			 r == -EPROTO ? said : say_errno(r));
		finding_say(FINDING_WARN, what, CRIU_TODO);
		return;
	}
	if (uname(&kernel) < 0)
		kernel.release[0] = 0;
	if (major >= CRIU_MAJOR) {
		snprintf(what, sizeof(what), "CRIU %s%s", version,
			 breakpoint_fires() ? "" : "; breakpoints never fire here, so it goes without");
		finding_say(FINDING_OK, what, NULL);
		criu_report_plugin();
	} else if (criu_kernel_is_new(kernel.release)) {
		snprintf(what, sizeof(what), "CRIU %s does not work on this kernel (%.64s)", version,
			 kernel.release);
		finding_say(FINDING_WARN, what, CRIU_TODO);
	} else {
		snprintf(what, sizeof(what),
			 "CRIU %s, which this kernel (%.64s) takes; those of 2025 and later do not",
			 version, kernel.release);
		finding_say(FINDING_OK, what, NULL);
	}
}
