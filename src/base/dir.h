/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/* Names in a directory, one after the other. Not for code of other people's processes: it allocates. */
#ifndef ALLOT_BASE_DIR_H
#define ALLOT_BASE_DIR_H

#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/types.h>

#include "base/cleanup.h"
#include "base/parse.h"

static inline void dir_close(DIR **dir)
{
	if (*dir)
		closedir(*dir);
}

#define CLEANUP_DIR CLEANUP(dir_close)

/* A directory of /proc/PID. */
static inline DIR *dir_of_process(pid_t pid, const char *name)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%ld/%s", (long)pid, name);
	return opendir(path);
}

/* The next name but "." and "..", good until the one after it. NULL: there is none, or no `dir`. */
static inline const char *dir_next(DIR *dir)
{
	const struct dirent *entry;

	while (dir && (entry = readdir(dir)))
		if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
			return entry->d_name;
	return NULL;
}

/* The next name that is a number: a process of /proc, or a descriptor of one. -1: as dir_next. */
static inline int dir_next_number(DIR *dir)
{
	const char *name;
	uint64_t number;

	while ((name = dir_next(dir)))
		if (!parse_u64(name, 0, INT32_MAX, &number))
			return (int)number;
	return -1;
}

#endif
