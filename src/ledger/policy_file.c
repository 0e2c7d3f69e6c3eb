/* SPDX-License-Identifier: Apache-2.0 */
#include "ledger/policy_file.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "ledger/shared_file.h"

/* A writer needs another try only where one of the others guards the file again just then. */
#define OPEN_TRIES 100

bool policy_file_ok(const struct policy_file *file)
{
	return file->magic == POLICY_MAGIC && file->version == POLICY_VERSION &&
	       file->file_bytes == sizeof(*file);
}

int policy_file_map(int fd, int prot, struct policy_file **ret)
{
	struct policy_file *file;

	file = mmap(NULL, sizeof(*file), prot, MAP_SHARED, fd, 0);
	if (file == MAP_FAILED)
		return err_errno();
	if (madvise(file, sizeof(*file), MADV_DONTFORK) < 0 || !policy_file_ok(file)) {
		munmap(file, sizeof(*file));
		return -EPROTO;
	}
	*ret = file;
	return 0;
}

void policy_file_guard(int fd)
{
	struct stat st;

	/* Best effort: a kill before this leaves an unguarded file until the next writer. */
	if (fstat(fd, &st) < 0 || fchmod(fd, st.st_mode & (S_IRUSR | S_IRGRP | S_IROTH)) < 0)
		return;
}

static int policy_file_unguard(const char *dir)
{
	CLEANUP_CLOSE int fd = -EBADF;
	struct stat st;

	fd = shared_file_open(dir, POLICY_FILE, O_RDONLY, sizeof(struct policy_file));
	if (fd < 0)
		return fd;
	if (fstat(fd, &st) < 0)
		return err_errno();
	return fchmod(fd, (st.st_mode & ALLPERMS) | S_IWUSR) < 0 ? -EACCES : 0;
}

int policy_file_open(const char *dir)
{
	int fd = -EACCES, r = 0;

	for (int i = 0; i < OPEN_TRIES && fd == -EACCES && r == 0; i++) {
		fd = shared_file_open(dir, POLICY_FILE, O_RDWR, sizeof(struct policy_file));
		if (fd == -EACCES)
			r = policy_file_unguard(dir);
	}
	if (fd >= 0)
		policy_file_guard(fd);
	return r < 0 ? r : fd;
}

int policy_file_open_lock(const char *dir)
{
	return shared_file_open(dir, POLICY_LOCK_FILE, O_RDWR, 0);
}

void policy_file_unmap(struct policy_file **file)
{
	if (*file)
		munmap(*file, sizeof(**file));
}
