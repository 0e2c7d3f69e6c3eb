/* SPDX-License-Identifier: Apache-2.0 */
/* Lines of /proc/PID/maps, a slice of them at a time. */
#ifndef ALLOT_NODE_PROCESS_MAPPED_PRIV_H
#define ALLOT_NODE_PROCESS_MAPPED_PRIV_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* A mapping of a file that is shared, as a line has it. */
struct mapping {
	uint64_t begin, end;
	dev_t dev;
	ino_t ino;
	const char *path; /* as the process sees it */
};

/* A read returns whole lines: a page of them, or one that is longer (at most four times a path). */
#define MAPPED_SLICE_BYTES (64 << 10)

/*
 * Opens a process's mappings, or, if its first thread has ended, those of the first living one, and
 * reads the first lines. Returns their bytes; -ESRCH: there are none; -EACCES.
 */
ssize_t mapped_open(pid_t pid, char slice[static MAPPED_SLICE_BYTES], int *ret);

/* Returns true if `is` does so of a shared mapping among these lines; slice[n] is written. */
bool mapped_search(char *slice, size_t n, bool (*is)(const struct mapping *mapping, void *arg), void *arg);

/* `arg`: a struct stat, of which the device and the number count. */
bool mapped_is_of(const struct mapping *mapping, void *arg);

/* Returns the length of the path if the mapping is of a file of that name; 0: it is not. */
size_t mapped_is_called(const struct mapping *mapping, const char *name, bool *ret_deleted);

#endif
