/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Paths of the driver lead into the tree. What libc does inside itself (realpath, glob, scandir)
 * does not pass here.
 */

/* Both names of a function are defined here; with this one would stand for the other. */
#undef _FILE_OFFSET_BITS

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "sim/kfd/bank.h"
#include "sim/kfd/caches.h"
#include "sim/kfd/emu.h"
#include "sim/kfd/user.h"

/* The machine's own devices are hidden with it. */
static const char *const taken[] = {
	"/dev/kfd",	  "/dev/dri",	   "/sys/devices/virtual/kfd", "/sys/class/kfd",
	"/sys/class/drm", "/proc/modules", "/sys/module/amdgpu"};

/* The folder of every DRM device; its minor follows. */
#define CHAR_DEVICES "/sys/dev/char/226:"

static bool paths_is_taken(const char *path)
{
	for (size_t i = 0; i < sizeof(taken) / sizeof(taken[0]); i++) {
		size_t n = strlen(taken[i]);

		if (!strncmp(path, taken[i], n) && (!path[n] || path[n] == '/'))
			return true;
	}
	return !strncmp(path, CHAR_DEVICES, strlen(CHAR_DEVICES));
}

/* The folder of a CPU's caches, or below. */
static bool paths_is_of_caches(const char *path)
{
	static const char *const before[] = {CACHES_CPUS "/cpu", CACHES_NODE_CPUS "/cpu"};

	for (size_t i = 0; i < sizeof(before) / sizeof(before[0]); i++) {
		size_t n = strlen(before[i]);

		if (strncmp(path, before[i], n) != 0)
			continue;
		n += strspn(path + n, "0123456789");
		return !strncmp(path + n, "/cache", 6) && (!path[n + 6] || path[n + 6] == '/');
	}
	return false;
}

const char *emu_path(const char *path, char buffer[static PATH_MAX])
{
	bool caches;

	/* A null pointer is the kernel's to refuse; libc's declarations promise there is none. */
	if (!path || path[0] != '/')
		return path;
	caches = paths_is_of_caches(path);
	if ((!caches && !paths_is_taken(path)) || !*emu_root())
		return path;
	if (snprintf(buffer, PATH_MAX, "%s%s", emu_root(), path) >= PATH_MAX)
		return path;
	/* The tree has caches only where the machine's own kernel tells of none. */
	if (caches && syscall(SYS_faccessat, AT_FDCWD, buffer, F_OK) < 0)
		return path;
	if (emu_sysfs_is_of_processes(buffer))
		emu_remote_reap();
	emu_sysfs_refresh(buffer);
	return buffer;
}

/* As emu_path(), for an address where no memory may be: the kernel refuses that itself. */
static const char *paths_any(const char *path, char buffer[static PATH_MAX])
{
	char first;

	return user_copy_in(&first, (uintptr_t)path, 1) < 0 ? path : emu_path(path, buffer);
}

static int paths_do_openat(int dirfd, const char *path, int flags, mode_t mode)
{
	char buffer[PATH_MAX];
	const char *real = paths_any(path, buffer);
	int fd, r = 0;

	if (real != path)
		flags &= ~(O_CREAT | O_TRUNC);
	fd = (int)syscall(SYS_openat, dirfd, real, flags, mode);
	if (fd >= 0 && real == path) {
		emu_maps_opened(fd, path, flags);
		emu_fdinfo_opened(fd, path, flags);
	}
	if (fd >= 0 && real != path && emu_minor_of(fd) != EMU_FILE_NONE)
		r = emu_open(fd);
	if (r < 0) {
		close(fd);
		errno = -r;
		return -1;
	}
	return fd;
}

static mode_t paths_mode_of(int flags, va_list ap)
{
	return flags & O_CREAT || (flags & O_TMPFILE) == O_TMPFILE ? va_arg(ap, mode_t) : 0;
}

#define OPEN(name, dirfd_param, dirfd, more)                                                       \
	EMU_EXPORT int name(dirfd_param const char *path, int flags, ...);                         \
	int name(dirfd_param const char *path, int flags, ...)                                     \
	{                                                                                          \
		va_list ap;                                                                        \
		mode_t mode;                                                                       \
                                                                                                   \
		va_start(ap, flags);                                                               \
		mode = paths_mode_of(flags, ap);                                                   \
		va_end(ap);                                                                        \
		return paths_do_openat(dirfd, path, flags | (more), mode);                         \
	}
#define NOTHING
#define COMMA_FD int fd,

OPEN(open, NOTHING, AT_FDCWD, 0)
OPEN(open64, NOTHING, AT_FDCWD, O_LARGEFILE)
OPEN(openat, COMMA_FD, fd, 0)
OPEN(openat64, COMMA_FD, fd, O_LARGEFILE)

/* The compiler calls these in place of open() when it checks arguments (_FORTIFY_SOURCE). */
EMU_EXPORT int __open_2(const char *path, int flags);
EMU_EXPORT int __open64_2(const char *path, int flags);
EMU_EXPORT int __openat_2(int dirfd, const char *path, int flags);
EMU_EXPORT int __openat64_2(int dirfd, const char *path, int flags);

int __open_2(const char *path, int flags)
{
	return paths_do_openat(AT_FDCWD, path, flags, 0);
}

int __open64_2(const char *path, int flags)
{
	return paths_do_openat(AT_FDCWD, path, flags | O_LARGEFILE, 0);
}

int __openat_2(int dirfd, const char *path, int flags)
{
	return paths_do_openat(dirfd, path, flags, 0);
}

int __openat64_2(int dirfd, const char *path, int flags)
{
	return paths_do_openat(dirfd, path, flags | O_LARGEFILE, 0);
}

/* The next library's function of that name, asked for once. */
#define NEXT(name)                                                                                 \
	({                                                                                         \
		static __typeof__(&name) next_;                                                    \
		if (!next_)                                                                        \
			next_ = (__typeof__(&name))dlsym(RTLD_NEXT, #name);                        \
		next_;                                                                             \
	})

EMU_EXPORT FILE *fopen(const char *path, const char *mode)
{
	char buffer[PATH_MAX];

	return NEXT(fopen)(paths_any(path, buffer), mode);
}

EMU_EXPORT FILE *fopen64(const char *path, const char *mode)
{
	char buffer[PATH_MAX];

	return NEXT(fopen64)(paths_any(path, buffer), mode);
}

EMU_EXPORT DIR *opendir(const char *path)
{
	char buffer[PATH_MAX];

	return NEXT(opendir)(emu_path(path, buffer));
}

/* A descriptor of a dma-buf is called so in /proc. */
static ssize_t paths_read_link(int dirfd, const char *path, char *link, size_t len)
{
	char buffer[PATH_MAX], is[PATH_MAX];
	const char *root = emu_root(), *real = emu_path(path, buffer);
	ssize_t n = syscall(SYS_readlinkat, dirfd, real, link, len);
	size_t nroot = strlen(root);

	if (n <= 0 || !nroot || strncmp(path, "/proc/", 6))
		return n;
	n = syscall(SYS_readlinkat, dirfd, real, is, sizeof(is) - 1);
	if (n > 0)
		is[n] = 0;
	if (n > 0 && !strncmp(is, root, nroot) && strstr(is + nroot, BANK_DMABUF))
		n = snprintf(is, sizeof(is), "/dmabuf:");
	n = n < (ssize_t)len ? n : (ssize_t)len;
	memcpy(link, is, n > 0 ? (size_t)n : 0);
	return n;
}

EMU_EXPORT ssize_t readlink(const char *path, char *link, size_t len)
{
	return paths_read_link(AT_FDCWD, path, link, len);
}

EMU_EXPORT ssize_t readlinkat(int fd, const char *path, char *link, size_t len)
{
	return paths_read_link(fd, path, link, len);
}

EMU_EXPORT int access(const char *path, int mode)
{
	char buffer[PATH_MAX];

	return NEXT(access)(emu_path(path, buffer), mode);
}

EMU_EXPORT int faccessat(int fd, const char *path, int mode, int flags)
{
	char buffer[PATH_MAX];

	return NEXT(faccessat)(fd, emu_path(path, buffer), mode, flags);
}
