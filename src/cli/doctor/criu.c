/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/doctor/criu.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "amd/topology_read.h"
#include "base/cleanup.h"
#include "cli/checkpoint/breakpoint.h"
#include "cli/checkpoint/criu.h"
#include "cli/doctor/finding.h"
#include "cli/say/say.h"
#include "node/library.h"

#define KERNEL_MAJOR 6
#define KERNEL_MINOR 13

static bool criu_kernel_is_new(const char *release)
{
	unsigned int major = 0, minor = 0;

	return sscanf(release, "%u.%u", &major, &minor) == 2 &&
	       (major > KERNEL_MAJOR || (major == KERNEL_MAJOR && minor >= KERNEL_MINOR));
}

/* Opens the criu on PATH; it may be a script, which does not tell what it runs. */
static int criu_open(void)
{
	const char *path = getenv("PATH");
	char file[PATH_MAX];

	for (size_t n; path && *path; path += n + (path[n] == ':')) {
		n = strcspn(path, ":");
		if (snprintf(file, sizeof(file), "%.*s/criu", (int)n, path) < (int)sizeof(file) &&
		    !access(file, X_OK))
			return open(file, O_RDONLY | O_CLOEXEC);
	}
	return -ENOENT;
}

/*
 * Finds the build of the plugin for AMD GPUs that fits it. CRIU after 4.2 has a hook that older
 * ones lack; its name tells them apart, since development versions call themselves 4.2, too.
 */
static const char *criu_plugin(void)
{
	static const char hook[] = "cr_plugin_dump_devices_late";
	CLEANUP_CLOSE int fd = criu_open();
	const char *plugin = "criu-10, or criu-15 if it is newer than 4.2";
	struct stat st;
	char *text;

	if (fd < 0 || fstat(fd, &st) < 0 || st.st_size < SELFMAG)
		return plugin;
	text = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
	if (text == MAP_FAILED)
		return plugin;
	if (!memcmp(text, ELFMAG, SELFMAG))
		plugin = memmem(text, (size_t)st.st_size, hook, strlen(hook)) ? "criu-15" : "criu-10";
	munmap(text, (size_t)st.st_size);
	return plugin;
}

/* Where there are AMD GPUs. */
static void criu_report_plugin(void)
{
	char path[PATH_MAX];

	if (access(TOPOLOGY_DIR, F_OK) < 0)
		return;
	if (library_criu_plugin(CRIU_OLDER_HOOKS, path) < 0 ||
	    library_criu_plugin(CRIU_NEWER_HOOKS, path) < 0) {
		finding_say(FINDING_OK, CRIU_PLUGIN_TODO,
			    "CRIU's plugin for AMD GPUs is not here: only checkpoints to disk "
			    "of tenants on them need it");
		return;
	}
	finding_say(FINDING_OK, NULL, "CRIU's plugin for AMD GPUs: %s (man allot-criu)",
		    criu_plugin());
}

void criu_report(void)
{
	char said[512], version[CRIU_VERSION_BYTES];
	unsigned int major = 0;
	struct utsname kernel;
	int r = criu_find(&major, version, said);

	if (r == -ENOENT) {
		finding_say(FINDING_OK, CRIU_TODO,
			    "no CRIU here: only checkpoints to disk need it");
		return;
	}
	if (r < 0) {
		finding_say(FINDING_WARN, CRIU_TODO,
			    "criu --version does not tell its version: %.128s",
			    r == -EPROTO ? said : say_errno(r));
		return;
	}
	if (uname(&kernel) < 0)
		kernel.release[0] = 0;
	criu_report_plugin();
	if (major >= CRIU_MAJOR) {
		finding_say(FINDING_OK, NULL, "CRIU %s%s", version,
			    breakpoint_fires()
				    ? ""
				    : "; breakpoints never fire here, so it goes without");
	} else if (criu_kernel_is_new(kernel.release)) {
		finding_say(FINDING_WARN, CRIU_TODO, "CRIU %s does not work on this kernel (%.64s)",
			    version, kernel.release);
	} else {
		finding_say(
			FINDING_OK, NULL,
			"CRIU %s, which this kernel (%.64s) takes; those of 2025 and later do not",
			version, kernel.release);
	}
}
