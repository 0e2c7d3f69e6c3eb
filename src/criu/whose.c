/* SPDX-License-Identifier: GPL-2.0-only */
#include "criu/whose.h"

#include <dirent.h>
#include <linux/kcmp.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

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

long whose_descriptor(long pid, int fd)
{
	char path[64];
	struct dirent *entry;
	long found = -1;
	DIR *list;

	snprintf(path, sizeof(path), "/proc/%ld/fd", pid);
	list = opendir(path);
	while (list && found < 0 && (entry = readdir(list))) {
		long other = strtol(entry->d_name, NULL, 10);

		if (*entry->d_name != '.' &&
		    !syscall(SYS_kcmp, (long)getpid(), pid, KCMP_FILE, (long)fd, other))
			found = other;
	}
	if (list)
		closedir(list);
	return found;
}

void whose_name(int fd, char *ret, size_t len)
{
	struct dirent *entry;
	DIR *list = opendir("/proc");

	snprintf(ret, len, "a process that was not found");
	while (list && (entry = readdir(list))) {
		long pid = strtol(entry->d_name, NULL, 10);
		long descriptor = pid && whose_is_held(pid) ? whose_descriptor(pid, fd) : -1;

		if (descriptor >= 0) {
			snprintf(ret, len, "process %ld, descriptor %ld", pid, descriptor);
			break;
		}
	}
	if (list)
		closedir(list);
}
