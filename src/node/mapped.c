/* SPDX-License-Identifier: Apache-2.0 */
#include "node/mapped.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/sysmacros.h>

#include "base/err.h"

int mapped_by(pid_t pid, const struct stat *file)
{
	char path[64], *line = NULL;
	unsigned int major, minor;
	int r = -ESRCH; /* who ends has no memory any more */
	size_t size = 0;
	uint64_t inode;
	FILE *maps;

	snprintf(path, sizeof(path), "/proc/%ld/maps", (long)pid);
	maps = fopen(path, "re");
	if (!maps)
		return errno == EACCES || errno == EPERM ? -EACCES : -ESRCH;
	while (r && getline(&line, &size, maps) > 0) {
		bool same = sscanf(line, "%*s %*s %*s %x:%x %" SCNu64, &major, &minor, &inode) == 3 &&
			    inode == file->st_ino && makedev(major, minor) == file->st_dev;

		r = same ? 0 : -ENOENT;
	}
	free(line);
	fclose(maps);
	return r;
}

int mapped_find_ledger(const char *dir, struct stat *ret)
{
	char path[PATH_MAX + sizeof("/ledger")];

	snprintf(path, sizeof(path), "%s/ledger", dir);
	return lstat(path, ret) < 0 ? err_errno() : 0;
}

int mapped_ledger(pid_t pid, const char *dir)
{
	struct stat file;

	return mapped_find_ledger(dir, &file) < 0 ? -ENOENT : mapped_by(pid, &file);
}
