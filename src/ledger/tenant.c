/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A tenant's directory appears and disappears in one step: it is built and taken apart under a name
 * that nobody looks for (".tmp-..."). A builder holds a lock on it, so the leavings of a killed
 * builder can be told from a directory under construction.
 */
#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/dir.h"
#include "base/err.h"
#include "base/fault.h"
#include "base/fd.h"
#include "base/parse.h"
#include "ledger/layout.h"
#include "ledger/ledger.h"
#include "ledger/policy_file.h"
#include "ledger/shared_file.h"
#include "ledger/tenant.h"

#define HIDDEN_PREFIX ".tmp-"

bool tenant_container(const char *runtime, char ret[static TENANT_CONTAINER_BYTES])
{
	static const char shm[] = "/dev/shm/";
	struct statfs fs;
	struct stat st;

	if (strncmp(runtime, shm, sizeof(shm) - 1) != 0 || statfs("/", &fs) < 0 ||
	    fs.f_type != OVERLAYFS_SUPER_MAGIC || stat("/", &st) < 0)
		return false;
	snprintf(ret, TENANT_CONTAINER_BYTES, "%u.%u", major(st.st_dev), minor(st.st_dev));
	return true;
}

/*
 * /run is a tmpfs on a host, but part of the overlay in most containers, and an overlay does not
 * keep a lock with a mapping (shared_file_keeps_locks).
 */
static const char *tenant_root_dir(void)
{
	struct statfs fs;

	if ((statfs("/run/allot", &fs) == 0 || statfs("/run", &fs) == 0) &&
	    fs.f_type == OVERLAYFS_SUPER_MAGIC)
		return "/dev/shm/allot";
	return "/run/allot";
}

/*
 * If XDG_RUNTIME_DIR is not set, as under su, cron and in containers: the directory that it would
 * name, else one of our own in memory. Their owner is checked before they are used.
 */
static const char *tenant_user_dir(uid_t uid, char buf[static 64])
{
	struct stat st;

	snprintf(buf, 64, "/run/user/%u/allot", (unsigned int)uid);
	*strrchr(buf, '/') = '\0';
	if (stat(buf, &st) == 0 && S_ISDIR(st.st_mode) && st.st_uid == geteuid() &&
	    access(buf, W_OK) == 0) {
		strcat(buf, "/allot");
		return buf;
	}
	snprintf(buf, 64, "/dev/shm/allot-%u", (unsigned int)uid);
	return buf;
}

static int tenant_usual_dir_of(uid_t uid, char *buf, size_t len)
{
	char user[64];
	int n = snprintf(buf, len, "%s", uid ? tenant_user_dir(uid, user) : tenant_root_dir());

	return n < 0 || (size_t)n >= len ? -ENAMETOOLONG : 0;
}

int tenant_usual_dir(char *buf, size_t len)
{
	return tenant_usual_dir_of(geteuid(), buf, len);
}

int tenant_runtime_dir_of(uid_t uid, char *buf, size_t len)
{
	const char *dir = getenv("ALLOT_RUNTIME_DIR"), *tail = "";
	int n;

	if ((!dir || !*dir) && uid) {
		dir = getenv("XDG_RUNTIME_DIR");
		tail = "/allot";
	}
	if (!dir || !*dir)
		return tenant_usual_dir_of(uid, buf, len);
	if (*dir != '/')
		return -EINVAL;
	n = snprintf(buf, len, "%s%s", dir, tail);
	return n < 0 || (size_t)n >= len ? -ENAMETOOLONG : 0;
}

int tenant_runtime_dir(char *buf, size_t len)
{
	return tenant_runtime_dir_of(geteuid(), buf, len);
}

static bool tenant_name_char(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

int tenant_runtime_of(const char *tenant_dir, char *buf, size_t len)
{
	const char *slash = strrchr(tenant_dir, '/');
	size_t n = slash ? (size_t)(slash - tenant_dir) : 0;

	if (!n)
		return -EINVAL;
	if (n >= len)
		return -ENAMETOOLONG;
	memcpy(buf, tenant_dir, n);
	buf[n] = '\0';
	return 0;
}

bool tenant_name_valid(const char *name)
{
	uid_t owner;
	size_t i;

	if (!tenant_name_char(name[0]))
		return false;
	for (i = 1; i < POLICY_NAME_BYTES && name[i] && name[i] != '@'; i++)
		if (!tenant_name_char(name[i]) && !strchr("._-", name[i]))
			return false;
	return i < POLICY_NAME_BYTES && strnlen(name, POLICY_NAME_BYTES) < POLICY_NAME_BYTES &&
	       (!name[i] || tenant_name_owner(name, &owner));
}

bool tenant_name_owner(const char *name, uid_t *ret)
{
	const char *at = strchr(name, '@');
	uint64_t uid;

	/* One user has one spelling, and root's tenants have none. */
	if (!at || at[1] == '0' || parse_u64(at + 1, 1, (uid_t)-2, &uid) < 0)
		return false;
	*ret = (uid_t)uid;
	return true;
}

int tenant_name_of(const char *plain, uid_t uid, char buf[static POLICY_NAME_BYTES])
{
	char name[POLICY_NAME_BYTES];
	int n;

	if (!tenant_name_valid(plain) || strchr(plain, '@') || !uid)
		return -EINVAL;
	n = snprintf(name, sizeof(name), "%s@%u", plain, (unsigned int)uid);
	if (n < 0 || n >= POLICY_NAME_BYTES)
		return -ENAMETOOLONG;
	memcpy(buf, name, sizeof(name));
	return 0;
}

int tenant_users_dir(const char *runtime, char *buf, size_t len)
{
	int n = snprintf(buf, len, "%s-users", runtime);

	return n < 0 || (size_t)n >= len ? -ENAMETOOLONG : 0;
}

int tenant_path(const char *runtime, const char *name, char *buf, size_t len)
{
	int n;

	if (!tenant_name_valid(name))
		return -EINVAL;
	n = snprintf(buf, len, "%s%s/%s", runtime, strchr(name, '@') ? "-users" : "", name);
	return n < 0 || (size_t)n >= len ? -ENAMETOOLONG : 0;
}

/* 0700 whatever the umask. 0, or -EEXIST and so on. */
static int tenant_make_dir(const char *path)
{
	if (mkdir(path, 0700) < 0)
		return err_errno();
	return chmod(path, 0700) < 0 ? err_errno() : 0;
}

int tenant_make_runtime(const char *runtime)
{
	int r = tenant_make_dir(runtime);

	return r == -EEXIST ? 0 : r;
}

/* In a directory that all may write, like /dev/shm, somebody else may have put something there. */
int tenant_make_users(const char *runtime)
{
	CLEANUP_CLOSE int fd = -EBADF;
	char users[PATH_MAX];
	struct stat st;
	int r = tenant_users_dir(runtime, users, sizeof(users));

	if (r == 0)
		r = tenant_make_runtime(runtime);
	if (r == 0)
		r = tenant_make_runtime(users);
	if (r < 0)
		return r;
	fd = fd_openat(AT_FDCWD, users, O_RDONLY | O_DIRECTORY, 0);
	if (fd < 0)
		return fd;
	if (fstat(fd, &st) < 0)
		return err_errno();
	if (st.st_uid != geteuid())
		return -EPERM;
	return fchmod(fd, 0755) < 0 ? err_errno() : 0;
}

static int tenant_hidden_path(const char *runtime, char *buf, size_t len)
{
	uint64_t random;
	int n;

	if (getrandom(&random, sizeof(random), 0) != (ssize_t)sizeof(random))
		return err_errno();
	n = snprintf(buf, len, "%s/" HIDDEN_PREFIX "%016" PRIx64, runtime, random);
	return n < 0 || (size_t)n >= len ? -ENAMETOOLONG : 0;
}

/*
 * A directory's own lock. Descriptor, -EWOULDBLOCK when somebody works in it, -ENOENT when it is
 * no longer of that name (renamed or removed by the last holder of the lock), or -errno.
 */
static int tenant_lock_dir(const char *path)
{
	CLEANUP_CLOSE int fd = -EBADF;
	struct stat locked, named;

	fd = fd_openat(AT_FDCWD, path, O_RDONLY | O_DIRECTORY, 0);
	if (fd < 0)
		return fd;
	if (flock(fd, LOCK_EX | LOCK_NB) < 0)
		return err_errno();
	if (fstat(fd, &locked) < 0 || lstat(path, &named) < 0)
		return err_errno();
	if (!fd_is_same(&locked, &named))
		return -ENOENT;
	return TAKE_FD(fd);
}

void tenant_ring_name(unsigned int number, char ret[static 16])
{
	if (number == TENANT_RING_ROLES)
		snprintf(ret, 16, "trace.roles");
	else
		snprintf(ret, 16, "trace.%u", number);
}

/* One that stays is an error of rmdir. */
static void tenant_delete_rings(int dirfd)
{
	char name[16];

	for (unsigned int i = 0; i < TENANT_RINGS; i++) {
		tenant_ring_name(i, name);
		unlinkat(dirfd, name, 0);
	}
}

static int tenant_delete_dir(int dirfd, const char *path)
{
	/*
	 * From TENANT_NOTE on these are the command's notes: the user who began the tenant, where its
	 * content is, the library of its processes, and its Pod and grant.
	 */
	static const char *const files[] = {"ledger", "policy",	 "lock", TENANT_NOTE,
					    "image",  "library", "pod",	 "grant"};

	for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++)
		if (unlinkat(dirfd, files[i], 0) < 0 && errno != ENOENT)
			return err_errno();
	tenant_delete_rings(dirfd);
	return rmdir(path) < 0 ? err_errno() : 0;
}

/*
 * Locks all slots at once, and the byte behind them (life.h): proves that no process of the tenant
 * lives, and keeps others from joining while the descriptor is open. The lock is on the file,
 * whatever its user did to the ledger's mode and length. -ENOENT if there is no ledger: nobody can
 * be in it.
 */
static int tenant_lock_all_slots(int dirfd)
{
	CLEANUP_CLOSE int fd = -EBADF;
	struct stat st;
	int r;

	/* O_NONBLOCK: somebody may have put a fifo there. */
	fd = fd_openat(dirfd, "ledger", O_RDWR | O_NONBLOCK, 0);
	if (fd < 0)
		return fd == -ELOOP ? -ENOENT : fd;
	if (fstat(fd, &st) < 0)
		return err_errno();
	if (!S_ISREG(st.st_mode))
		return -ENOENT;
	r = shared_file_lock(fd, LEDGER_LOCK_SLOTS, LEDGER_SLOTS + 1);
	if (r < 0)
		return r == -EAGAIN ? -EBUSY : r;
	return TAKE_FD(fd);
}

/* Removes the leavings of a killed builder or remover, if nobody works in it. */
static void tenant_sweep_one(const char *path)
{
	CLEANUP_CLOSE int dirfd = tenant_lock_dir(path);
	CLEANUP_CLOSE int slots = -EBADF;

	if (dirfd < 0)
		return;
	slots = tenant_lock_all_slots(dirfd);
	if (slots >= 0 || slots == -ENOENT)
		tenant_delete_dir(dirfd, path);
}

static void tenant_sweep_hidden(const char *runtime)
{
	CLEANUP_DIR DIR *dir = opendir(runtime);
	char path[PATH_MAX];
	const char *name;

	while ((name = dir_next(dir)))
		if (!strncmp(name, HIDDEN_PREFIX, strlen(HIDDEN_PREFIX)) &&
		    snprintf(path, sizeof(path), "%s/%s", runtime, name) < (int)sizeof(path))
			tenant_sweep_one(path);
}

/* For writers of a policy that others can read. */
static int tenant_make_lock(const char *dir)
{
	CLEANUP_CLOSE int fd = shared_file_create(dir, POLICY_LOCK_FILE);

	return fd < 0 ? fd : 0;
}

/*
 * The user's processes write the ledger, and nobody else's reach it. Nobody but root opens the
 * directory itself, so that nobody else can keep its lock.
 */
static int tenant_give(const char *dir, int dirfd, uid_t uid)
{
	int r = tenant_make_lock(dir);

	if (r < 0)
		return r;
	if (fchmodat(dirfd, "policy", 0444, 0) < 0 ||
	    fchownat(dirfd, "ledger", uid, (gid_t)-1, AT_SYMLINK_NOFOLLOW) < 0)
		return err_errno();
	return fchmod(dirfd, SHARED_FILE_FOR_ALL | 0711) < 0 ? err_errno() : 0;
}

static int tenant_build(const char *runtime, const struct policy *policy, const char *path)
{
	CLEANUP_CLOSE int dirfd = -EBADF;
	char hidden[PATH_MAX];
	uid_t owner;
	int r;

	r = tenant_hidden_path(runtime, hidden, sizeof(hidden));
	if (r < 0)
		return r;
	r = tenant_make_dir(hidden);
	if (r < 0)
		return r;
	dirfd = tenant_lock_dir(hidden);
	if (dirfd < 0)
		return dirfd == -EWOULDBLOCK ? -EAGAIN : dirfd;
	r = policy_create(hidden, policy);
	if (r == 0)
		r = ledger_create(hidden);
	if (r == 0)
		r = shared_file_keeps_locks(hidden, "ledger");
	if (r == 0 && tenant_name_owner(strrchr(path, '/') + 1, &owner))
		r = tenant_give(hidden, dirfd, owner);
	FAULT_POINT(TENANT_BUILT);
	/* Fails on a directory with something in it, as every tenant's has. */
	if (r == 0 && rename(hidden, path) < 0)
		r = errno == ENOTEMPTY ? -EEXIST : err_errno();
	if (r < 0)
		tenant_delete_dir(dirfd, hidden);
	return r;
}

int tenant_create(const char *runtime, const char *name, const struct policy *policy, char *buf,
		  size_t len)
{
	CLEANUP_CLOSE int dirfd = -EBADF;
	char place[PATH_MAX];
	int r;

	r = tenant_path(runtime, name, buf, len);
	if (r == 0)
		r = tenant_runtime_of(buf, place, sizeof(place));
	if (r < 0)
		return r;
	r = policy_check(policy);
	if (r < 0)
		return r;
	r = shared_file_may_have(sizeof(struct ledger_file)); /* the largest of them */
	if (r < 0)
		return r;
	r = strchr(name, '@') ? tenant_make_users(runtime) : tenant_make_runtime(runtime);
	if (r < 0)
		return r;
	dirfd = shared_file_open_dir(place);
	if (dirfd < 0)
		return dirfd;
	if (faccessat(dirfd, name, F_OK, AT_SYMLINK_NOFOLLOW) == 0)
		return -EEXIST;
	tenant_sweep_hidden(place);
	for (int tries = 0; tries < 10; tries++) {
		r = tenant_build(place, policy, buf);
		/* Until it is locked a sweeper may take a new directory for a dead builder's. */
		if (r != -EAGAIN && r != -ENOENT)
			break;
	}
	if (r == 0)
		FAULT_POINT(TENANT_NAMED);
	return r;
}

int tenant_open_to_all(const char *runtime, const char *name)
{
	static const struct {
		const char *name;
		mode_t mode;
	} files[] = {{"policy", 0444}, {"ledger", 0666}};
	CLEANUP_CLOSE int dirfd = -EBADF;
	char path[PATH_MAX];
	struct stat st;
	int r;

	r = tenant_path(runtime, name, path, sizeof(path));
	if (r < 0)
		return r;
	if (stat(runtime, &st) < 0)
		return err_errno();
	if (st.st_mode & (S_IRWXG | S_IRWXO))
		return -EPERM;
	dirfd = fd_openat(AT_FDCWD, path, O_RDONLY | O_DIRECTORY, 0);
	if (dirfd < 0)
		return dirfd;
	r = tenant_make_lock(path);
	if (r < 0 && r != -EEXIST)
		return r;
	for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++)
		if (fchmodat(dirfd, files[i].name, files[i].mode, 0) < 0)
			return err_errno();
	return fchmod(dirfd, SHARED_FILE_FOR_ALL | 0755) < 0 ? err_errno() : 0;
}

int tenant_open_to_user(const char *runtime, const char *name)
{
	CLEANUP_CLOSE int dirfd = -EBADF;
	char path[PATH_MAX];
	uid_t uid;
	int r = tenant_path(runtime, name, path, sizeof(path));

	if (r < 0)
		return r;
	if (!tenant_name_owner(name, &uid))
		return -EINVAL;
	dirfd = fd_openat(AT_FDCWD, path, O_RDONLY | O_DIRECTORY, 0);
	if (dirfd < 0)
		return dirfd;
	r = shared_file_let_in(dirfd, SHARED_FILE_FOR_ALL, uid, SHARED_FILE_ENTER);
	if (r < 0)
		return r;
	/* The container's users have numbers that the machine gives to nobody. */
	if (fchownat(dirfd, "ledger", geteuid(), (gid_t)-1, AT_SYMLINK_NOFOLLOW) < 0 ||
	    fchmodat(dirfd, "ledger", 0666, 0) < 0)
		return err_errno();
	return 0;
}

bool tenant_is_open_to_all(const char *dir)
{
	struct stat st;

	return !stat(dir, &st) && S_ISDIR(st.st_mode) && (st.st_mode & SHARED_FILE_FOR_ALL);
}

static int tenant_is_wanted(const struct dirent *entry)
{
	return tenant_name_valid(entry->d_name);
}

static int tenant_list_place(const char *place, bool users,
			     int (*fn)(const char *name, const char *dir, void *arg), void *arg)
{
	struct dirent **names = NULL;
	char path[PATH_MAX];
	struct stat st;
	int n, r = 0;

	n = scandir(place, &names, tenant_is_wanted, alphasort);
	if (n < 0)
		return errno == ENOENT ? 0 : err_errno();
	for (int i = 0; i < n; i++) {
		const char *name = names[i]->d_name;

		if (!r && !!strchr(name, '@') == users &&
		    snprintf(path, sizeof(path), "%s/%s", place, name) < (int)sizeof(path) &&
		    lstat(path, &st) == 0 && S_ISDIR(st.st_mode))
			r = fn(name, path, arg);
		free(names[i]);
	}
	free(names);
	return r;
}

int tenant_list_users(const char *runtime,
		      int (*fn)(const char *name, const char *dir, void *arg), void *arg)
{
	char users[PATH_MAX];
	int r = tenant_users_dir(runtime, users, sizeof(users));

	return r < 0 ? r : tenant_list_place(users, true, fn, arg);
}

int tenant_list(const char *runtime, int (*fn)(const char *name, const char *dir, void *arg),
		void *arg)
{
	int r = tenant_list_place(runtime, false, fn, arg);

	return r ? r : tenant_list_users(runtime, fn, arg);
}

int tenant_remove(const char *runtime, const char *name)
{
	CLEANUP_CLOSE int dirfd = -EBADF;
	CLEANUP_CLOSE int slots = -EBADF;
	char path[PATH_MAX], place[PATH_MAX], hidden[PATH_MAX];
	int r;

	r = tenant_path(runtime, name, path, sizeof(path));
	if (r == 0)
		r = tenant_runtime_of(path, place, sizeof(place));
	if (r < 0)
		return r;
	dirfd = tenant_lock_dir(path);
	if (dirfd < 0)
		return dirfd == -EWOULDBLOCK ? -EBUSY : dirfd;
	slots = tenant_lock_all_slots(dirfd);
	if (slots < 0 && slots != -ENOENT)
		return slots;
	r = tenant_hidden_path(place, hidden, sizeof(hidden));
	if (r < 0)
		return r;
	if (rename(path, hidden) < 0)
		return err_errno();
	FAULT_POINT(TENANT_HIDDEN);
	return tenant_delete_dir(dirfd, hidden);
}
