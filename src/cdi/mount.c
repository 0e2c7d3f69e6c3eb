/* SPDX-License-Identifier: Apache-2.0 */
#include "cdi/mount.h"

#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "cdi/spec.h"
#include "node/process/lookup.h"

/* More than these may be locked where the container has a user namespace, but no fewer. */
#define FLAGS (MS_NOSUID | MS_NODEV | MS_NOEXEC)

struct fd_path {
	char s[32];
};

static struct fd_path mount_fd_path(int fd)
{
	struct fd_path path;

	snprintf(path.s, sizeof(path.s), "/proc/self/fd/%d", fd);
	return path;
}

int cdi_mount_enter(const struct container *container)
{
	CLEANUP_CLOSE int ns = -EBADF;
	char path[64];

	snprintf(path, sizeof(path), "/proc/%ld/ns/mnt", (long)container->pid);
	ns = open(path, O_RDONLY | O_CLOEXEC);
	if (ns < 0 || setns(ns, CLONE_NEWNS) < 0)
		return err_errno();
	return 0;
}

/* A directory of the image: links in its path are the image's, and end in it. */
static int mount_open_within(int root, const char *path)
{
	return lookup_open(root, path, O_DIRECTORY | O_NOFOLLOW, LOOKUP_IN_ROOT);
}

static int mount_make_place(int root)
{
	CLEANUP_CLOSE int home = mount_open_within(root, CDI_HOME);

	if (home < 0)
		return home;
	return mkdirat(home, "tenant", 0755) < 0 && errno != EEXIST ? err_errno() : 0;
}

/* An earlier hook of the same container has mounted a tenant there. */
static bool mount_is_taken(int place)
{
	struct statx st;

	return statx(place, "", AT_EMPTY_PATH, 0, &st) == 0 && st.stx_attributes & STATX_ATTR_MOUNT_ROOT;
}

/* The container's root, and in it the place for the tenant. -EEXIST: it has one. */
static int mount_find_place(const struct container *container, int *ret_root)
{
	CLEANUP_CLOSE int root = open(container->root, O_PATH | O_DIRECTORY | O_CLOEXEC);
	int place, r;

	if (root < 0)
		return err_errno();
	r = mount_make_place(root);
	if (r < 0)
		return r;
	place = mount_open_within(root, CDI_TENANT);
	if (place >= 0 && mount_is_taken(place)) {
		close(place);
		return -EEXIST;
	}
	if (place >= 0)
		*ret_root = TAKE_FD(root);
	return place;
}

int cdi_mount_tenant(const struct container *container, const char *tenant_dir)
{
	CLEANUP_CLOSE int root = -EBADF;
	CLEANUP_CLOSE int place = mount_find_place(container, &root);
	CLEANUP_CLOSE int mounted = -EBADF;
	char from[PATH_MAX + 8], to[64], lock[64];

	if (place < 0)
		return place;
	if (mount(tenant_dir, mount_fd_path(place).s, NULL, MS_BIND, NULL) < 0)
		return err_errno();
	/* Opens the path again, which is now the mount. */
	mounted = mount_open_within(root, CDI_TENANT);
	if (mounted < 0)
		return mounted;
	snprintf(from, sizeof(from), "%s/ledger", tenant_dir);
	snprintf(to, sizeof(to), "%s/ledger", mount_fd_path(mounted).s);
	snprintf(lock, sizeof(lock), "%s/lock", mount_fd_path(mounted).s);
	/*
	 * A process that could open the policy's lock could block its writers, and its owner is
	 * root there.
	 */
	if (mount(from, to, NULL, MS_BIND, NULL) < 0 ||
	    mount("/dev/null", lock, NULL, MS_BIND, NULL) < 0 ||
	    mount(NULL, mount_fd_path(mounted).s, NULL, MS_REMOUNT | MS_BIND | MS_RDONLY | FLAGS,
		  NULL) < 0)
		return err_errno();
	return 0;
}

/* Over an empty file of that name. */
static int mount_file(int dirfd, const char *tenant_dir, const char *name)
{
	CLEANUP_CLOSE int empty =
		openat(dirfd, name, O_RDONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
	char from[PATH_MAX + 8], to[64];

	if (empty < 0)
		return err_errno();
	snprintf(from, sizeof(from), "%s/%s", tenant_dir, name);
	snprintf(to, sizeof(to), "%s/%s", mount_fd_path(dirfd).s, name);
	return mount(from, to, NULL, MS_BIND, NULL) < 0 ? err_errno() : 0;
}

int cdi_mount_files(const struct container *container, const char *tenant_dir)
{
	CLEANUP_CLOSE int root = -EBADF;
	CLEANUP_CLOSE int place = mount_find_place(container, &root);
	CLEANUP_CLOSE int mounted = -EBADF;
	char policy[64];
	int r;

	if (place < 0)
		return place;
	if (mount("allot", mount_fd_path(place).s, "tmpfs", FLAGS, "mode=1755,size=64k") < 0)
		return err_errno();
	mounted = mount_open_within(root, CDI_TENANT);
	if (mounted < 0)
		return mounted;
	r = mount_file(mounted, tenant_dir, "policy");
	if (r == 0)
		r = mount_file(mounted, tenant_dir, "ledger");
	if (r < 0)
		return r;
	if (fchownat(mounted, "", container->owner, (gid_t)-1, AT_EMPTY_PATH) < 0)
		return err_errno();
	snprintf(policy, sizeof(policy), "%s/policy", mount_fd_path(mounted).s);
	if (mount(NULL, policy, NULL, MS_REMOUNT | MS_BIND | MS_RDONLY | FLAGS, NULL) < 0 ||
	    mount(NULL, mount_fd_path(mounted).s, NULL, MS_REMOUNT | MS_BIND | MS_RDONLY | FLAGS,
		  NULL) < 0)
		return err_errno();
	return 0;
}
