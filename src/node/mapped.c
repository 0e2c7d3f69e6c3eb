/* SPDX-License-Identifier: Apache-2.0 */
#include "node/mapped.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysmacros.h>

#include "base/err.h"
#include "base/parse.h"

/* A mapping of a file, as a line of /proc/PID/maps has it. */
struct mapping {
	bool shared;
	dev_t dev;
	ino_t ino;
	const char *path; /* as the process sees it, to the end of the line */
};

static int mapped_parse(const char *line, struct mapping *ret)
{
	unsigned int major, minor;
	uint64_t inode;
	char may[5];
	int at = 0;

	if (sscanf(line, "%*s %4s %*s %x:%x %" SCNu64 " %n", may, &major, &minor, &inode, &at) != 4 ||
	    !at)
		return -EINVAL;
	ret->shared = may[3] == 's';
	ret->dev = makedev(major, minor);
	ret->ino = (ino_t)inode;
	ret->path = line + at;
	return 0;
}

/* -ESRCH: it has no memory, as a thread that ends; -EACCES. */
static int mapped_open_thread(const char *path, FILE **ret)
{
	FILE *maps = fopen(path, "re");
	int c;

	if (!maps)
		return errno == EACCES || errno == EPERM ? -EACCES : -ESRCH;
	c = getc(maps);
	if (c == EOF) {
		fclose(maps);
		return -ESRCH;
	}
	ungetc(c, maps);
	*ret = maps;
	return 0;
}

/* Of the process, or of the first thread of it that goes on where its first one has ended. */
static int mapped_open(pid_t pid, bool any_thread, FILE **ret)
{
	char path[64 + NAME_MAX];
	struct dirent *entry;
	DIR *tasks;
	int r;

	snprintf(path, sizeof(path), "/proc/%ld/maps", (long)pid);
	r = mapped_open_thread(path, ret);
	if (r != -ESRCH || !any_thread)
		return r;
	snprintf(path, sizeof(path), "/proc/%ld/task", (long)pid);
	tasks = opendir(path);
	while (r == -ESRCH && tasks && (entry = readdir(tasks))) {
		snprintf(path, sizeof(path), "/proc/%ld/task/%s/maps", (long)pid, entry->d_name);
		r = mapped_open_thread(path, ret);
	}
	if (tasks)
		closedir(tasks);
	return r;
}

bool mapped_is_ending(pid_t pid)
{
	FILE *maps;
	int r = mapped_open(pid, true, &maps);

	if (!r)
		fclose(maps);
	return r == -ESRCH;
}

/* 0: `is` is true of a mapping of the process. */
static int mapped_search(pid_t pid, bool any_thread,
			 bool (*is)(const struct mapping *mapping, void *arg), void *arg)
{
	struct mapping mapping;
	char *line = NULL;
	size_t size = 0;
	FILE *maps;
	int r = mapped_open(pid, any_thread, &maps);

	if (r < 0)
		return r;
	r = -ENOENT;
	while (r && getline(&line, &size, maps) > 0)
		r = !mapped_parse(line, &mapping) && is(&mapping, arg) ? 0 : -ENOENT;
	free(line);
	fclose(maps);
	return r;
}

static bool mapped_is_of(const struct mapping *mapping, void *arg)
{
	const struct stat *file = arg;

	return mapping->ino == file->st_ino && mapping->dev == file->st_dev;
}

int mapped_by(pid_t pid, const struct stat *file)
{
	return mapped_search(pid, false, mapped_is_of, (void *)(uintptr_t)file);
}

bool mapped_by_any(const struct stat *file)
{
	DIR *proc = opendir("/proc");
	struct dirent *entry;
	bool any = !proc;
	uint64_t pid;

	while (!any && (entry = readdir(proc)))
		any = !parse_u64(entry->d_name, 1, INT32_MAX, &pid) &&
		      !mapped_by((pid_t)pid, file);
	if (proc)
		closedir(proc);
	return any;
}

static bool mapped_is_ledger(const struct mapping *mapping, void *arg)
{
	static const char *const names[] = {"/ledger", "/ledger (deleted)"};
	size_t length = strcspn(mapping->path, "\n");
	struct stat *ret = arg;

	if (!mapping->shared)
		return false;
	ret->st_dev = mapping->dev;
	ret->st_ino = mapping->ino;
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		size_t n = strlen(names[i]);

		if (length >= n && !strncmp(mapping->path + length - n, names[i], n))
			return true;
	}
	return false;
}

int mapped_any_ledger(pid_t pid, struct stat *ret)
{
	return mapped_search(pid, true, mapped_is_ledger, ret);
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

	return mapped_find_ledger(dir, &file) < 0 ? -ENOENT
						   : mapped_search(pid, true, mapped_is_of, &file);
}
