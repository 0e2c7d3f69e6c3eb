/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
#include <fcntl.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/fd.h"

int fd_openat(int dirfd, const char *path, int flags, mode_t mode)
{
	int fd, high;

	fd = openat(dirfd, path, flags | O_CLOEXEC | O_NOCTTY | O_NOFOLLOW, mode);
	if (fd < 0)
		return err_errno();
	if (fd > STDERR_FILENO)
		return fd;
	high = fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
	if (high < 0)
		high = err_errno();
	close(fd);
	return high;
}

bool fd_is_guarded(const struct stat *st)
{
	return (st->st_uid == 0 || st->st_uid == geteuid()) && !(st->st_mode & (S_IWGRP | S_IWOTH));
}

int fd_pread_all(int fd, void *buf, size_t len, uint64_t offset)
{
	char *at = buf;

	while (len) {
		ssize_t n = pread(fd, at, len, (off_t)offset);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return err_errno();
		if (n == 0)
			return -ENODATA;
		at += n;
		len -= (size_t)n;
		offset += (uint64_t)n;
	}
	return 0;
}

int fd_pwrite_all(int fd, const void *buf, size_t len, uint64_t offset)
{
	const char *at = buf;

	while (len) {
		ssize_t n = pwrite(fd, at, len, (off_t)offset);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return err_errno();
		at += n;
		len -= (size_t)n;
		offset += (uint64_t)n;
	}
	return 0;
}

ssize_t fd_read_text(int dirfd, const char *path, char *buf, size_t len)
{
	CLEANUP_CLOSE int fd = -EBADF;
	size_t used = 0;

	/*
	 * Links in /proc (self) are in the middle of the path, which O_NOFOLLOW allows. Not to
	 * block: a FIFO in the place of the file would be waited for.
	 */
	fd = fd_openat(dirfd, path, O_RDONLY | O_NONBLOCK, 0);
	if (fd < 0)
		return fd;
	while (used < len - 1) {
		ssize_t n = read(fd, buf + used, len - 1 - used);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return err_errno();
		if (n == 0)
			break;
		used += (size_t)n;
	}
	buf[used] = '\0';
	return (ssize_t)used;
}

ssize_t fd_read_link(int dirfd, const char *path, char *buf, size_t len)
{
	ssize_t n = readlinkat(dirfd, path, buf, len - 1);

	if (n < 0)
		return err_errno();
	buf[n] = '\0';
	return n;
}
