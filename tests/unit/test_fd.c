/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "tests/check.h"

static char dir[] = "/tmp/allot-fd-XXXXXX";

static void check_open(void)
{
	int dirfd = open(dir, O_RDONLY | O_DIRECTORY), out = dup(1), fd;

	/* With standard output closed, our file must not become it. */
	close(1);
	fd = fd_openat(dirfd, "file", O_RDWR | O_CREAT, 0600);
	CHECK_EQ(dup2(out, 1), 1);
	CHECK(fd > 2);
	CHECK_EQ(fcntl(fd, F_GETFD), FD_CLOEXEC);
	close(fd);
	CHECK_EQ(symlinkat("file", dirfd, "link"), 0);
	CHECK_EQ(fd_openat(dirfd, "link", O_RDONLY, 0), -ELOOP);
	CHECK_EQ(fd_openat(dirfd, "nothing", O_RDONLY, 0), -ENOENT);
	close(dirfd);
	close(out);
}

static void check_whole(void)
{
	CLEANUP_CLOSE int dirfd = open(dir, O_RDONLY | O_DIRECTORY);
	CLEANUP_CLOSE int fd = fd_openat(dirfd, "file", O_RDWR, 0);
	char buf[16];

	CHECK_EQ(fd_pwrite_all(fd, "0123456789", 10, 5), 0);
	CHECK_EQ(fd_pread_all(fd, buf, 10, 5), 0);
	CHECK(!memcmp(buf, "0123456789", 10));
	CHECK_EQ(fd_pread_all(fd, buf, 11, 5), -ENODATA);
	CHECK_EQ(fd_pread_all(-1, buf, 1, 0), -EBADF);
	CHECK_EQ(fd_pwrite_all(-1, buf, 1, 0), -EBADF);
	CHECK_EQ(fd_pwrite_all(fd, "abcdefghijklmnopqrst", 20, 0), 0);
	CHECK_EQ(fd_read_text(dirfd, "file", buf, sizeof(buf)), 15);
	CHECK(!strcmp(buf, "abcdefghijklmno"));
	CHECK_EQ(fd_read_text(dirfd, "nothing", buf, sizeof(buf)), -ENOENT);
	/* Nobody writes to it: that is no reason to wait. */
	CHECK_EQ(mkfifoat(dirfd, "fifo", 0600), 0);
	CHECK_EQ(fd_read_text(dirfd, "fifo", buf, sizeof(buf)), 0);
	CHECK_EQ(unlinkat(dirfd, "fifo", 0), 0);
}

int main(void)
{
	char path[64];

	CHECK(mkdtemp(dir));
	check_open();
	check_whole();
	snprintf(path, sizeof(path), "%s/link", dir);
	CHECK_EQ(unlink(path), 0);
	snprintf(path, sizeof(path), "%s/file", dir);
	CHECK_EQ(unlink(path), 0);
	CHECK_EQ(rmdir(dir), 0);
	return 0;
}
