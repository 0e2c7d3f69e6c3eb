/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/tenant/cgroup.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/fd.h"

#define ROOT	"/sys/fs/cgroup"
#define SELF	"/proc/self/cgroup"
#define PROCS	"/cgroup.procs"
#define CONTROL "/cgroup.subtree_control"

#define FILE_BYTES 65536

int cgroup_path(const char *cgroup, const char *file, char ret[static PATH_MAX])
{
	const char *chosen = getenv("ALLOT_CGROUP_ROOT");
	int n = snprintf(ret, PATH_MAX, "%s%s%s", chosen && *chosen ? chosen : ROOT, cgroup, file);

	return n < 0 || n >= PATH_MAX ? -ENAMETOOLONG : 0;
}

/* A line for each hierarchy of version 1, and "0::" with the path for that of version 2. */
int cgroup_own(char ret[static PATH_MAX])
{
	char text[PATH_MAX + 1024], *line = text;
	ssize_t n = fd_read_text(AT_FDCWD, SELF, text, sizeof(text));

	if (n < 0)
		return (int)n;
	while (strncmp(line, "0::/", 4)) {
		line = strchr(line, '\n');
		if (!line)
			return -EXDEV;
		line++;
	}
	line += 3;
	line[strcspn(line, "\n")] = '\0';
	if (!strncmp(line, "/..", 3) || strlen(line) >= PATH_MAX)
		return -EXDEV;
	strcpy(ret, strcmp(line, "/") ? line : "");
	return 0;
}

/* All others have a type. */
bool cgroup_is_root(const char *cgroup)
{
	char path[PATH_MAX];

	return !*cgroup && !cgroup_path(cgroup, "/cgroup.type", path) && access(path, F_OK) < 0;
}

int cgroup_read(const char *cgroup, const char *file, char *buf, size_t len)
{
	char path[PATH_MAX];
	ssize_t n;
	int r = cgroup_path(cgroup, file, path);

	if (r < 0)
		return r;
	n = fd_read_text(AT_FDCWD, path, buf, len);
	return n < 0 ? (int)n : 0;
}

int cgroup_write(const char *cgroup, const char *file, const char *text)
{
	CLEANUP_CLOSE int fd = -EBADF;
	char path[PATH_MAX];
	int r = cgroup_path(cgroup, file, path);

	if (r < 0)
		return r;
	fd = fd_openat(AT_FDCWD, path, O_WRONLY, 0);
	if (fd < 0)
		return fd;
	return write(fd, text, strlen(text)) < 0 ? err_errno() : 0;
}

int cgroup_enter(const char *cgroup)
{
	return cgroup_write(cgroup, PROCS, "0");
}

bool cgroup_has_others(const char *cgroup)
{
	CLEANUP_FREE char *text = malloc(FILE_BYTES);

	if (!text || cgroup_read(cgroup, PROCS, text, FILE_BYTES) < 0)
		return false;
	for (char *line = text; *line; line += *line == '\n') {
		if (strtol(line, &line, 10) != (long)getpid())
			return true;
	}
	return false;
}

bool cgroup_passes_on(const char *cgroup, const char *controller)
{
	char text[1024], *rest = text, *word;

	if (cgroup_read(cgroup, CONTROL, text, sizeof(text)) < 0)
		return false;
	while ((word = strsep(&rest, " \n")))
		if (!strcmp(word, controller))
			return true;
	return false;
}

int cgroup_pass_on(const char *cgroup, const char *controller, bool on)
{
	char text[64];

	snprintf(text, sizeof(text), "%c%s", on ? '+' : '-', controller);
	return cgroup_write(cgroup, CONTROL, text);
}
