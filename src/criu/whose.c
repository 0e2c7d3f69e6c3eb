/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
#include "criu/whose.h"

#include <errno.h>
#include <linux/kcmp.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/dir.h"

/* Does CRIU, which is this process, hold it to dump it? */
static bool whose_is_held(long pid)
{
	char path[64], line[128];
	long tracer = 0;
	FILE *status;

	snprintf(path, sizeof(path), "/proc/%ld/status", pid);
	status = fopen(path, "re");
	while (status && fgets(line, sizeof(line), status))
		if (!strncmp(line, "TracerPid:", 10))
			tracer = strtol(line + 10, NULL, 10);
	if (status)
		fclose(status);
	return tracer == getpid();
}

bool whose_is_same(long pid, long descriptor, int fd)
{
	return !syscall(SYS_kcmp, (long)getpid(), pid, KCMP_FILE, (long)fd, descriptor);
}

long whose_descriptor(long pid, int fd)
{
	CLEANUP_DIR DIR *list = dir_of_process((pid_t)pid, "fd");
	int other;

	while ((other = dir_next_number(list)) >= 0)
		if (whose_is_same(pid, other, fd))
			break;
	return other;
}

int whose_held(long **ret_pids)
{
	CLEANUP_DIR DIR *list = opendir("/proc");
	long *pids = NULL;
	int n = 0, pid;

	while ((pid = dir_next_number(list)) >= 0) {
		long *longer;

		if (!whose_is_held(pid))
			continue;
		longer = reallocarray(pids, (size_t)n + 1, sizeof(*pids));
		if (!longer) {
			n = -ENOMEM;
			break;
		}
		pids = longer;
		pids[n++] = pid;
	}
	*ret_pids = pids;
	return n;
}

void whose_name(int fd, char *ret, size_t len)
{
	long *pids, descriptor;
	int n = whose_held(&pids);

	snprintf(ret, len, "a process that was not found");
	for (int i = 0; i < n; i++) {
		descriptor = whose_descriptor(pids[i], fd);
		if (descriptor < 0)
			continue;
		snprintf(ret, len, "process %ld, descriptor %ld", pids[i], descriptor);
		break;
	}
	free(pids);
}
