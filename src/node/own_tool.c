/* SPDX-License-Identifier: Apache-2.0 */
#include "node/own_tool.h"

#include <fcntl.h>
#include <inttypes.h>
#include <linux/capability.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "node/library.h"

static const char *const tools[] = {"allot-load", "allot-links"};

static bool own_tool_runs(pid_t pid)
{
	char path[64], file[PATH_MAX];
	struct stat runs, tool;

	snprintf(path, sizeof(path), "/proc/%ld/exe", (long)pid);
	if (stat(path, &runs) < 0)
		return false;
	for (size_t i = 0; i < sizeof(tools) / sizeof(tools[0]); i++)
		if (!library_program(tools[i], file) && !stat(file, &tool) &&
		    fd_is_same(&runs, &tool))
			return true;
	return false;
}

/* The line of /proc/PID/status that begins so; names of processes have no line's end there. */
static const char *own_tool_line(const char *status, const char *key)
{
	const char *at = strstr(status, key);

	return at ? at + strlen(key) : "";
}

/* Root of another user namespace is root only there. */
static bool own_tool_shares_users(pid_t pid)
{
	char path[64];
	struct stat other, own;

	snprintf(path, sizeof(path), "/proc/%ld/ns/user", (long)pid);
	return !stat(path, &other) && !stat("/proc/self/ns/user", &own) && fd_is_same(&other, &own);
}

static bool own_tool_is_ours(pid_t pid)
{
	char path[64], status[8192];
	unsigned int uid[4];
	uint64_t can = 0;

	snprintf(path, sizeof(path), "/proc/%ld/status", (long)pid);
	if (fd_read_text(AT_FDCWD, path, status, sizeof(status)) < 0 ||
	    sscanf(own_tool_line(status, "\nUid:"), "%u %u %u %u", &uid[0], &uid[1], &uid[2],
		   &uid[3]) != 4)
		return false;
	for (int i = 0; i < 4; i++)
		if (uid[i] != geteuid())
			return false;
	return geteuid() != 0 ||
	       (sscanf(own_tool_line(status, "\nCapEff:"), "%" SCNx64, &can) == 1 &&
		(can >> CAP_SYS_ADMIN & 1) && own_tool_shares_users(pid));
}

bool own_tool_is(pid_t pid)
{
	return own_tool_is_ours(pid) && own_tool_runs(pid);
}
