/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/* File descriptors: whole reads and writes, and opening without surprises for the host program. */
#ifndef ALLOT_BASE_FD_H
#define ALLOT_BASE_FD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/types.h>

/*
 * openat(2) with O_CLOEXEC, O_NOCTTY and O_NOFOLLOW added, never answering 0, 1 or 2: a program
 * that runs with stdout closed must not write its output into our file. Answers a descriptor or
 * -errno (-ELOOP for a symbolic link).
 */
int fd_openat(int dirfd, const char *path, int flags, mode_t mode);

/* Exactly `len` bytes at `offset`, or -errno; -ENODATA where the file ends before. */
int fd_pread_all(int fd, void *buf, size_t len, uint64_t offset);
int fd_pwrite_all(int fd, const void *buf, size_t len, uint64_t offset);

/*
 * Reads a small text file (as in /proc) into buf, always terminated, cut at `len` - 1 bytes.
 * Answers the length or -errno.
 */
ssize_t fd_read_text(int dirfd, const char *path, char *buf, size_t len);

/* The same of the text of a symbolic link. */
ssize_t fd_read_link(int dirfd, const char *path, char *buf, size_t len);

/* Returns true if two results of stat(2) are of the same file. */
static inline bool fd_is_same(const struct stat *a, const struct stat *b)
{
	return a->st_dev == b->st_dev && a->st_ino == b->st_ino;
}

/* Returns true if root and this process's user alone can write the file, or let others do so. */
bool fd_is_guarded(const struct stat *st);

#endif
