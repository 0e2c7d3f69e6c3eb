/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Functions of the C library that glibc 2.17 does not have, or has elsewhere or by another name,
 * for liballot.so alone: in an image with an older glibc than that of this build the loader would
 * refuse to preload it. Nothing here leaves the library; the declarations are the C library's.
 *
 * Each is looked up first, as the loader would bind it, so that a function that a program (or the
 * emulated KFD) puts before the C library is called. If there is none, a system call is made.
 * Functions that moved from libdl and libpthread into libc.so.6 are in one of the three: a program
 * that gets as far as to need them has them loaded, since the driver does.
 */

/* Both names of each are meant as they stand. */
#undef _FILE_OFFSET_BITS

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "guest/process/lookup_libc.h"

/* Found once; NOBODY: there is none. Threads that look at the same time find the same. */
#define NOBODY ((void *)-1)

static void *glibc_find(_Atomic(void *) *cache, const char *name)
{
	void *found = atomic_load_explicit(cache, memory_order_relaxed);

	if (!found) {
		found = lookup_libc_symbol(name);
		atomic_store_explicit(cache, found ? found : NOBODY, memory_order_relaxed);
	}
	return found == NOBODY ? NULL : found;
}

/* The function of that name and of the type of the one in which this stands, or NULL. */
#define GLIBC_FIND(name)                                         \
	({                                                       \
		static _Atomic(void *) cache_;                   \
		(__typeof__(&name))glibc_find(&cache_, #name); \
	})

/* 2.33: an alias of __xstat64 and so on before. The kernel's structure is this one. */
int stat64(const char *path, struct stat64 *ret)
{
	int (*real)(const char *, struct stat64 *) = GLIBC_FIND(stat64);

	return real ? real(path, ret) : (int)syscall(SYS_newfstatat, AT_FDCWD, path, ret, 0);
}

int lstat64(const char *path, struct stat64 *ret)
{
	int (*real)(const char *, struct stat64 *) = GLIBC_FIND(lstat64);

	return real ? real(path, ret)
		    : (int)syscall(SYS_newfstatat, AT_FDCWD, path, ret, AT_SYMLINK_NOFOLLOW);
}

int fstat64(int fd, struct stat64 *ret)
{
	int (*real)(int, struct stat64 *) = GLIBC_FIND(fstat64);

	return real ? real(fd, ret) : (int)syscall(SYS_fstat, fd, ret);
}

int fstatat64(int dirfd, const char *path, struct stat64 *ret, int flags)
{
	int (*real)(int, const char *, struct stat64 *, int) = GLIBC_FIND(fstatat64);

	return real ? real(dirfd, path, ret, flags)
		    : (int)syscall(SYS_newfstatat, dirfd, path, ret, flags);
}

/* 2.28: fcntl before. */
int fcntl64(int fd, int command, ...)
{
	int (*real)(int, int, ...) = GLIBC_FIND(fcntl64);
	va_list ap;
	void *arg;

	va_start(ap, command);
	arg = va_arg(ap, void *);
	va_end(ap);
	return real ? real(fd, command, arg) : (int)syscall(SYS_fcntl, fd, command, arg);
}

/* 2.25, 2.27 and 2.30. */
ssize_t getrandom(void *buf, size_t len, unsigned int flags)
{
	ssize_t (*real)(void *, size_t, unsigned int) = GLIBC_FIND(getrandom);

	return real ? real(buf, len, flags) : syscall(SYS_getrandom, buf, len, flags);
}

int memfd_create(const char *name, unsigned int flags)
{
	int (*real)(const char *, unsigned int) = GLIBC_FIND(memfd_create);

	return real ? real(name, flags) : (int)syscall(SYS_memfd_create, name, flags);
}

pid_t gettid(void)
{
	return (pid_t)syscall(SYS_gettid);
}

/* In libpthread before 2.32. */
int pthread_sigmask(int how, const sigset_t *set, sigset_t *old)
{
	int (*real)(int, const sigset_t *, sigset_t *) = GLIBC_FIND(pthread_sigmask);

	if (real)
		return real(how, set, old);
	return sigprocmask(how, set, old) ? errno : 0;
}

/* The rest was in libpthread or libdl before 2.34, which may come later than the first call. */
int pthread_create(pthread_t *ret, const pthread_attr_t *attr, void *(*run)(void *), void *arg)
{
	int (*real)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *) =
		lookup_libc_symbol("pthread_create");

	return real ? real(ret, attr, run, arg) : EAGAIN;
}

int dladdr(const void *address, Dl_info *ret)
{
	int (*real)(const void *, Dl_info *) = lookup_libc_symbol("dladdr");

	return real ? real(address, ret) : 0;
}

int dladdr1(const void *address, Dl_info *ret, void **extra, int flags)
{
	int (*real)(const void *, Dl_info *, void **, int) = lookup_libc_symbol("dladdr1");

	return real ? real(address, ret, extra, flags) : 0;
}

int dlinfo(void *handle, int request, void *ret)
{
	int (*real)(void *, int, void *) = lookup_libc_symbol("dlinfo");

	return real ? real(handle, request, ret) : -1;
}

int dlclose(void *handle)
{
	int (*real)(void *) = lookup_libc_symbol("dlclose");

	return real ? real(handle) : -1;
}

/*
 * 2.38: what its headers make of strtol and its like, for which "0b1" is a number, too. Here it is
 * none in any image.
 */
long glibc_strtol(const char *text, char **end, int base) __asm__("strtol");
unsigned long glibc_strtoul(const char *text, char **end, int base) __asm__("strtoul");
long long glibc_strtoll(const char *text, char **end, int base) __asm__("strtoll");
unsigned long long glibc_strtoull(const char *text, char **end, int base) __asm__("strtoull");
int glibc_vsscanf(const char *text, const char *format, va_list ap) __asm__("__isoc99_vsscanf");

long __isoc23_strtol(const char *text, char **end, int base);
unsigned long __isoc23_strtoul(const char *text, char **end, int base);
long long __isoc23_strtoll(const char *text, char **end, int base);
unsigned long long __isoc23_strtoull(const char *text, char **end, int base);
int __isoc23_sscanf(const char *text, const char *format, ...);

long __isoc23_strtol(const char *text, char **end, int base)
{
	return glibc_strtol(text, end, base);
}

unsigned long __isoc23_strtoul(const char *text, char **end, int base)
{
	return glibc_strtoul(text, end, base);
}

long long __isoc23_strtoll(const char *text, char **end, int base)
{
	return glibc_strtoll(text, end, base);
}

unsigned long long __isoc23_strtoull(const char *text, char **end, int base)
{
	return glibc_strtoull(text, end, base);
}

int __isoc23_sscanf(const char *text, const char *format, ...)
{
	va_list ap;
	int n;

	va_start(ap, format);
	n = glibc_vsscanf(text, format, ap);
	va_end(ap);
	return n;
}
