/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/tenant/swap_dir.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/host_memory.h"
#include "base/number.h"
#include "base/populate.h"
#include "base/unnamed_file.h"
#include "cli/say/say.h"

/* A file system that gives a little in advance gives more. */
#define TRY_BYTES 4096

const char *swap_dir_words(int error)
{
	static char words[256];
	const char *todo = "name another directory";

	switch (error < 0 ? -error : error) {
	case EMEDIUMTYPE:
		return "it is memory of the host itself (tmpfs); name a directory on a disk";
	case EOPNOTSUPP:
		return "its file system has no files without a name, or gives no room in advance; name a "
		       "directory on ext4, xfs or btrfs";
	case ENOSYS:
		return "this kernel cannot tell of a disk that fails but by a signal; it takes Linux 5.14";
	case ENOENT:
	case ENOTDIR:
		todo = "name another directory, or make this one";
		break;
	case ENOSPC:
	case EDQUOT:
		todo = "make room there, or give more --host-memory";
		break;
	case EFBIG:
		todo = "raise the limit on the size of files (ulimit -f), or give more --host-memory";
		break;
	case EACCES:
	case EPERM:
		todo = "it must be for the tenant's user to write";
		break;
	case EIO:
		todo = "the disk fails; the kernel's log says how";
		break;
	}
	snprintf(words, sizeof(words), "%s; %s", say_errno(error), todo);
	return words;
}

/* Root's own trial of a directory proves nothing about the user: then it must be the user's own. */
static int swap_dir_check_owner(const char *path, uid_t user)
{
	struct stat st;

	if (stat(path, &st) < 0)
		return err_errno();
	if (!S_ISDIR(st.st_mode))
		return -ENOTDIR;
	return !user || (st.st_uid == user && (st.st_mode & S_IWUSR) && (st.st_mode & S_IXUSR))
		       ? 0
		       : -EACCES;
}

int swap_dir_check(const char *dir, uint64_t bytes)
{
	int fd;

	if (!populate_is_known())
		return -ENOSYS;
	fd = unnamed_file_open(dir, max_u64(bytes, TRY_BYTES));
	if (fd < 0)
		return fd;
	close(fd);
	return 0;
}

static int swap_dir_try(const char *path, uid_t user)
{
	int r = swap_dir_check_owner(path, user);

	return r < 0 ? r : swap_dir_check(path, TRY_BYTES);
}

uint64_t swap_dir_host_room(const char *dir, uint64_t said, uint64_t has)
{
	uint64_t free = host_memory_room() + has;

	if (*dir)
		return said ? min_u64(said, free) : free;
	return said ? said : free;
}

int swap_dir_find(const char *text, uid_t user, char ret[static POLICY_DIR_BYTES])
{
	char path[PATH_MAX];
	int r;

	if (*text != '/')
		return say_fail(-EINVAL, "--swap-dir \"%s\": not a path from the root; write it "
				"like --swap-dir /var/tmp", text);
	r = realpath(text, path) ? swap_dir_try(path, user) : err_errno();
	if (!r && strlen(path) >= POLICY_DIR_BYTES)
		r = -ENAMETOOLONG;
	if (r < 0)
		return say_fail(-EINVAL, "--swap-dir %s: %s", text, swap_dir_words(r));
	memcpy(ret, path, strlen(path) + 1);
	return 0;
}
