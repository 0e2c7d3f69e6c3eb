/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/now.h"
#include "ledger/shared_file.h"

#define LOCK_WAIT_NS	NS_PER_S
#define LOCK_PROBE      (INT64_C(1) << 42) /* a byte that nobody else locks */
#define LOCK_NAP_MIN_US 20
#define LOCK_NAP_MAX_US 1000

static bool shared_file_owner_ok(const struct stat *st)
{
	return st->st_uid == geteuid() || st->st_uid == 0;
}

/* Root made it and gave it to a user (tenant_create), who cannot replace it. */
static bool shared_file_is_users(mode_t dir_mode, const struct stat *st)
{
	return geteuid() == 0 && (dir_mode & SHARED_FILE_FOR_ALL) &&
	       !(st->st_mode & (S_IRWXG | S_IRWXO));
}

/*
 * In a container's user namespace the files of its tenant may be anybody's: root outside is nobody there, and
 * a user outside is one of many. In a directory that others cannot write (fd_is_guarded) a file of another
 * file system than the directory's was mounted, which its owner could not do there (cdi/mount.c).
 */
static bool shared_file_is_mounted(const struct stat *dir, const struct stat *st)
{
	return (dir->st_mode & SHARED_FILE_FOR_ALL) && st->st_dev != dir->st_dev;
}

static int shared_file_check_dir(const char *path, struct stat *ret)
{
	CLEANUP_CLOSE int fd = -EBADF;
	struct stat st;

	fd = fd_openat(AT_FDCWD, path, O_PATH | O_DIRECTORY, 0);
	if (fd < 0)
		return fd;
	if (fstat(fd, &st) < 0)
		return err_errno();
	if (!fd_is_guarded(&st))
		return -EPERM;
	*ret = st;
	return TAKE_FD(fd);
}

int shared_file_open_dir(const char *path)
{
	struct stat st;

	return shared_file_check_dir(path, &st);
}

int shared_file_let_in(int dirfd, mode_t bits, uid_t uid, uint16_t may)
{
	enum { OWNER = 0x01, USER = 0x02, GROUP = 0x04, MASK = 0x10, OTHER = 0x20 };
	/* As the kernel takes it: these five entries, in this order. */
	const struct {
		uint32_t version;
		struct {
			uint16_t tag, perm;
			uint32_t id;
		} entry[5];
	} list = {
		.version = 2,
		.entry = {{OWNER, 7, UINT32_MAX},
			  {USER, may, uid},
			  {GROUP, 0, UINT32_MAX},
			  {MASK, may, UINT32_MAX},
			  {OTHER, 0, UINT32_MAX}},
	};

	if (fchmod(dirfd, bits | 0700) < 0 ||
	    fsetxattr(dirfd, "system.posix_acl_access", &list, sizeof(list), 0) < 0)
		return err_errno();
	return 0;
}

int shared_file_open(const char *dir, const char *name, int flags, uint64_t bytes)
{
	CLEANUP_CLOSE int dirfd = -EBADF;
	CLEANUP_CLOSE int fd = -EBADF;
	struct stat dir_st, st;

	dirfd = shared_file_check_dir(dir, &dir_st);
	if (dirfd < 0)
		return dirfd;
	/* O_NONBLOCK: a fifo may be there. */
	fd = fd_openat(dirfd, name, flags | O_NONBLOCK, 0);
	if (fd < 0)
		return fd;
	if (fstat(fd, &st) < 0)
		return err_errno();
	if (!S_ISREG(st.st_mode) ||
	    !(shared_file_owner_ok(&st) || shared_file_is_users(dir_st.st_mode, &st) ||
	      shared_file_is_mounted(&dir_st, &st)) ||
	    ((st.st_mode & (S_IRWXG | S_IRWXO)) && !(dir_st.st_mode & SHARED_FILE_FOR_ALL)))
		return -EPERM;
	if (st.st_size < 0 || (uint64_t)st.st_size != bytes)
		return -EPROTO;
	return TAKE_FD(fd);
}

int shared_file_check(int fd, uint64_t bytes)
{
	struct stat st;

	if (fstat(fd, &st) < 0)
		return err_errno();
	if (!S_ISREG(st.st_mode))
		return -EPERM;
	return st.st_size < 0 || (uint64_t)st.st_size != bytes ? -EPROTO : 0;
}

int shared_file_create(const char *dir, const char *name)
{
	CLEANUP_CLOSE int dirfd = -EBADF;
	CLEANUP_CLOSE int fd = -EBADF;

	dirfd = shared_file_open_dir(dir);
	if (dirfd < 0)
		return dirfd;
	fd = fd_openat(dirfd, name, O_RDWR | O_CREAT | O_EXCL, 0600);
	if (fd < 0)
		return fd;
	if (fchmod(fd, 0600) < 0)
		return err_errno();
	return TAKE_FD(fd);
}

int shared_file_may_have(uint64_t bytes)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_FSIZE, &limit) < 0 || limit.rlim_cur == RLIM_INFINITY)
		return 0;
	return limit.rlim_cur < bytes ? -EFBIG : 0;
}

int shared_file_join(const char *dir, const char *name, uint64_t bytes)
{
	int fd = shared_file_create(dir, name), r;

	if (fd == -EEXIST)
		fd = shared_file_open(dir, name, O_RDWR, 0);
	if (fd == -EPROTO)
		return shared_file_open(dir, name, O_RDWR, bytes);
	if (fd < 0)
		return fd;
	r = shared_file_may_have(bytes);
	if (r == 0 && ftruncate(fd, (off_t)bytes) < 0)
		r = -ENOSPC;
	if (r < 0)
		close(fd);
	return r < 0 ? r : fd;
}

static struct flock shared_file_range(short type, int64_t at, int64_t len)
{
	return (struct flock){
		.l_type = type, .l_whence = SEEK_SET, .l_start = at, .l_len = len,
	};
}

static int shared_file_take(int fd, short type, int64_t at, int64_t len)
{
	struct flock lock = shared_file_range(type, at, len);

	if (fcntl(fd, F_OFD_SETLK, &lock) == 0)
		return 0;
	return errno == EACCES ? -EAGAIN : err_errno();
}

int shared_file_lock(int fd, int64_t at, int64_t len)
{
	return shared_file_take(fd, F_WRLCK, at, len);
}

int shared_file_await(int fd, int64_t at, int64_t len)
{
	struct flock lock = shared_file_range(F_WRLCK, at, len);
	int r;

	do {
		r = fcntl(fd, F_OFD_SETLKW, &lock);
	} while (r < 0 && errno == EINTR);
	return r < 0 ? err_errno() : 0;
}

int shared_file_share(int fd, int64_t at, int64_t len)
{
	return shared_file_take(fd, F_RDLCK, at, len);
}

void shared_file_unlock(int fd, int64_t at, int64_t len)
{
	struct flock lock = shared_file_range(F_UNLCK, at, len);
	int saved = errno;

	fcntl(fd, F_OFD_SETLK, &lock);
	errno = saved;
}

int shared_file_locked(int fd, int64_t at, int64_t len)
{
	struct flock lock = shared_file_range(F_WRLCK, at, len);

	if (fcntl(fd, F_OFD_GETLK, &lock) < 0)
		return err_errno();
	return lock.l_type != F_UNLCK;
}

int shared_file_keeps_locks(const char *dir, const char *name)
{
	CLEANUP_CLOSE int dirfd = shared_file_open_dir(dir);
	CLEANUP_CLOSE int owner = -EBADF;
	CLEANUP_CLOSE int other = -EBADF;
	void *map;
	int r;

	if (dirfd < 0)
		return dirfd;
	owner = fd_openat(dirfd, name, O_RDWR, 0);
	if (owner < 0)
		return owner;
	other = fd_openat(dirfd, name, O_RDWR, 0);
	if (other < 0)
		return other;
	r = shared_file_lock(owner, LOCK_PROBE, 1);
	if (r < 0)
		return r;
	map = mmap(NULL, 1, PROT_READ, MAP_SHARED, owner, 0);
	if (map == MAP_FAILED)
		return err_errno();
	close(TAKE_FD(owner));
	r = shared_file_locked(other, LOCK_PROBE, 1);
	munmap(map, 1);
	if (r < 0)
		return r;
	return r ? 0 : -ENOLCK;
}

void shared_file_nap(unsigned int *us, unsigned int max_us)
{
	nap_ns((long)*us * 1000);
	*us = *us * 2 < max_us ? *us * 2 : max_us;
}

/*
 * Polled, because F_OFD_SETLKW can be ended early by a signal only, and the guest takes none. A
 * holder that is stopped (SIGSTOP, debugger) must not stop the tenant.
 */
int shared_file_lock_wait(int fd, int64_t at, int64_t len)
{
	unsigned int us = LOCK_NAP_MIN_US;
	uint64_t start = 0;
	int r;

	while ((r = shared_file_lock(fd, at, len)) == -EAGAIN) {
		uint64_t now = now_monotonic_ns();

		if (!start)
			start = now;
		else if (now - start > LOCK_WAIT_NS)
			return -ETIMEDOUT;
		shared_file_nap(&us, LOCK_NAP_MAX_US);
	}
	return r;
}
