/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Descriptors of the tree's device files. They are plain files there; what is asked of them by
 * name or by descriptor is answered as for the device.
 */

/* Both names of a function are defined here; with this one would stand for the other. */
#undef _FILE_OFFSET_BITS

#include <errno.h>
#include <fcntl.h>
#include <linux/seccomp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "amd/abi/drm.h"
#include "amd/abi/kfd.h"
#include "base/cleanup.h"
#include "sim/kfd/emu.h"
#include "sim/kfd/gem.h"

static int device_do_stat(int dirfd, const char *path, struct stat *st, int flags)
{
	char buffer[PATH_MAX];
	int minor;

	if (syscall(SYS_newfstatat, dirfd, emu_path(path, buffer), st, flags) < 0)
		return -1;
	minor = emu_minor_of_stat(st);
	if (minor != EMU_FILE_NONE) {
		st->st_mode = S_IFCHR | 0666;
		st->st_rdev = minor == EMU_FILE_KFD ? makedev(EMU_MAJOR_KFD, 0)
						    : makedev(EMU_MAJOR_DRM, minor);
		st->st_size = 0;
	}
	return 0;
}

/* Where files have 64 bits, both structs are the same. */
_Static_assert(sizeof(struct stat) == sizeof(struct stat64), "struct stat64");

#define STAT(name, type, param, dirfd, path, flags)                                                \
	EMU_EXPORT int name(param, struct type *st)                                                \
	{                                                                                          \
		return device_do_stat(dirfd, path, (struct stat *)st, flags);                      \
	}

STAT(stat, stat, const char *path, AT_FDCWD, path, 0)
STAT(stat64, stat64, const char *path, AT_FDCWD, path, 0)
STAT(lstat, stat, const char *path, AT_FDCWD, path, AT_SYMLINK_NOFOLLOW)
STAT(lstat64, stat64, const char *path, AT_FDCWD, path, AT_SYMLINK_NOFOLLOW)
STAT(fstat, stat, int fd, fd, "", AT_EMPTY_PATH)
STAT(fstat64, stat64, int fd, fd, "", AT_EMPTY_PATH)

EMU_EXPORT int fstatat(int fd, const char *path, struct stat *st, int flags)
{
	return device_do_stat(fd, path, st, flags);
}

EMU_EXPORT int fstatat64(int fd, const char *path, struct stat64 *st, int flags)
{
	return device_do_stat(fd, path, (struct stat *)st, flags);
}

EMU_EXPORT int statx(int fd, const char *restrict path, int flags, unsigned int mask,
		     struct statx *restrict stx)
{
	char buffer[PATH_MAX];
	struct stat st;

	path = emu_path(path, buffer);
	if (syscall(SYS_statx, fd, path, flags, mask, stx) < 0)
		return -1;
	if (device_do_stat(fd, path, &st, flags & (AT_EMPTY_PATH | AT_SYMLINK_NOFOLLOW)) == 0 &&
	    S_ISCHR(st.st_mode) && S_ISREG(stx->stx_mode)) {
		stx->stx_mode = (uint16_t)st.st_mode;
		stx->stx_rdev_major = major(st.st_rdev);
		stx->stx_rdev_minor = minor(st.st_rdev);
		stx->stx_size = 0;
	}
	return 0;
}

EMU_EXPORT int ioctl(int fd, unsigned long request, ...)
{
	unsigned int type = _IOC_TYPE(request);
	va_list ap;
	void *arg;
	long r;
	int minor;

	va_start(ap, request);
	arg = va_arg(ap, void *);
	va_end(ap);
	if (type == SECCOMP_IOC_MAGIC)
		return emu_remote_ioctl(fd, request, arg);
	if (type != AMDKFD_IOCTL_BASE && type != DRM_IOCTL_BASE)
		return (int)syscall(SYS_ioctl, fd, request, arg);
	minor = emu_minor_of(fd);
	if (minor == EMU_FILE_NONE)
		return (int)syscall(SYS_ioctl, fd, request, arg);
	r = minor == EMU_FILE_KFD ? emu_kfd_ioctl(fd, request, (uintptr_t)arg)
				  : emu_drm_ioctl(minor, fd, request, (uintptr_t)arg);
	if (r >= 0)
		return (int)r;
	errno = (int)-r;
	return -1;
}

static void *device_map_memory(struct emu_machine *m, void *addr, size_t len, int prot, int flags,
			       int fd, uint64_t offset)
{
	CLEANUP_CLOSE int memory = emu_memory_at(m, fd, offset, len);

	if (memory == -EINVAL)
		memory = emu_gem_at(m, fd, offset, len);
	if (memory >= 0)
		return (void *)syscall(SYS_mmap, addr, len, prot, flags, memory, 0L);
	errno = -memory;
	return MAP_FAILED;
}

/* Beside doorbells there are the page of events and registers, at which nobody looks. */
static void *device_map_file(struct emu_machine *m, void *addr, size_t len, int prot, int flags,
			     uint64_t offset)
{
	if ((offset & EMU_OFFSET_DOORBELL) == EMU_OFFSET_DOORBELL)
		return emu_map_doorbells(m, offset, addr, len, flags & MAP_FIXED);
	return (void *)syscall(SYS_mmap, addr, len, prot, flags | MAP_ANONYMOUS, -1, 0L);
}

/* A dma-buf of what the CPU has no access to: told by its name before anything is locked. */
static bool device_is_closed(int fd)
{
	char path[32], name[PATH_MAX];
	struct bank_piece piece = {.flags = 0};
	struct emu_machine *m;
	ssize_t n;

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	n = readlink(path, name, sizeof(name));
	if (n < (ssize_t)strlen(BANK_DMABUF) ||
	    memcmp(name + n - strlen(BANK_DMABUF), BANK_DMABUF, strlen(BANK_DMABUF)))
		return false;
	m = emu_lock();
	if (!m)
		return false;
	bank_find(m->bank, fd, &piece);
	emu_unlock();
	return piece.flags & BANK_NO_CPU;
}

static void *device_do_mmap(void *addr, size_t len, int prot, int flags, int fd, off_t offset)
{
	bool is_device = fd >= 0 && !(flags & MAP_ANONYMOUS) && *emu_root();
	int minor = is_device ? emu_minor_of(fd) : EMU_FILE_NONE;
	struct emu_machine *m;
	void *mapped;

	if (is_device && minor == EMU_FILE_NONE && device_is_closed(fd)) {
		errno = EPERM;
		return MAP_FAILED;
	}
	if (minor == EMU_FILE_NONE)
		return (void *)syscall(SYS_mmap, addr, len, prot, flags, fd, offset);
	m = minor == EMU_FILE_KFD ? emu_lock() : emu_lock_with(fd);
	if (!m) {
		errno = EBADF;
		return MAP_FAILED;
	}
	if (minor == EMU_FILE_KFD)
		mapped = device_map_file(m, addr, len, prot, flags, (uint64_t)offset);
	else
		mapped = device_map_memory(m, addr, len, prot, flags, fd, (uint64_t)offset);
	emu_unlock();
	return mapped;
}

/* What was there before is gone, though libc, as in free(), may not have told. */
static void *device_mmap_anew(void *addr, size_t len, int prot, int flags, int fd, off_t offset)
{
	void *mapped = device_do_mmap(addr, len, prot, flags, fd, offset);

	if (mapped != MAP_FAILED)
		emu_svm_unmapped((uintptr_t)mapped, len);
	return mapped;
}

EMU_EXPORT void *mmap(void *addr, size_t len, int prot, int flags, int fd, off_t offset)
{
	return device_mmap_anew(addr, len, prot, flags, fd, offset);
}

EMU_EXPORT void *mmap64(void *addr, size_t len, int prot, int flags, int fd, off64_t offset)
{
	return device_mmap_anew(addr, len, prot, flags, fd, offset);
}

/*
 * The last descriptor of a render node takes its buffers along. One that goes by another way than
 * close() (dup2, a child's end) is missed at the next ioctl.
 */
EMU_EXPORT int close(int fd)
{
	bool is_node = *emu_root() && emu_minor_of(fd) > EMU_FILE_KFD;
	int r = (int)syscall(SYS_close, fd), saved = errno;
	struct emu_machine *m = is_node ? emu_lock() : NULL;

	if (m) {
		emu_gem_reap(m);
		emu_unlock();
	}
	errno = saved;
	return r;
}

EMU_EXPORT int munmap(void *addr, size_t len)
{
	emu_svm_unmapped((uintptr_t)addr, len);
	return (int)syscall(SYS_munmap, addr, len);
}
