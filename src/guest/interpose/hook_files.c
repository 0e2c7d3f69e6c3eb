/* SPDX-License-Identifier: Apache-2.0 */
/*
 * open and fopen: what AMD's driver tells in files, and the way to its devices. The kernel opens a
 * file first, whichever; only then is there a look at which it was. So a path that cannot be read
 * fails as ever, and the descriptor that the program gets is the one that it would have got.
 */

/* Both names of a function are defined here; with this one would stand for the other. */
#undef _FILE_OFFSET_BITS

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

#include "base/cancel.h"
#include "guest/amd/amd.h"
#include "guest/amd/open.h"
#include "guest/process/next.h"

#define EXPORT __attribute__((visibility("default")))

static bool files_is_of_interest(const char *path)
{
	return __builtin_expect(!amd_is_absent(), 0) && !guest_inside() && amd_open_may_be(path);
}

/* A thread that is to be cancelled here would leave a descriptor behind that nobody knows. */
static int files_look(int fd, const char *path)
{
	int cancel = cancel_hold(), r = amd_opened(fd, path);

	cancel_release(cancel);
	return r;
}

/* The kernel opens such a file and refuses to read from it; to refuse the opening is as near. */
static int files_opened(int fd, const char *path, int flags)
{
	int r;

	if (fd < 0 || flags & O_PATH || !files_is_of_interest(path))
		return fd;
	r = files_look(fd, path);
	if (r == 0)
		return fd;
	close(fd);
	errno = r < 0 ? -r : EPERM;
	return -1;
}

/* A mode follows the flags only where one is needed. */
static mode_t files_mode(int flags, va_list ap)
{
	return flags & O_CREAT || (flags & O_TMPFILE) == O_TMPFILE ? va_arg(ap, mode_t) : 0;
}

#define OPEN(name, params, args)                                                                   \
	EXPORT int name params                                                                     \
	{                                                                                          \
		va_list ap;                                                                        \
		mode_t mode;                                                                       \
                                                                                                   \
		va_start(ap, flags);                                                               \
		mode = files_mode(flags, ap);                                                      \
		va_end(ap);                                                                        \
		return files_opened(next_libc()->name args, path, flags);                          \
	}

OPEN(open, (const char *path, int flags, ...), (path, flags, mode))
OPEN(open64, (const char *path, int flags, ...), (path, flags, mode))
OPEN(openat, (int dirfd, const char *path, int flags, ...), (dirfd, path, flags, mode))
OPEN(openat64, (int dirfd, const char *path, int flags, ...), (dirfd, path, flags, mode))

/*
 * The compiler calls these in place of open() when it checks arguments (_FORTIFY_SOURCE). They
 * refuse flags that need a mode.
 */
#define OPEN_2(name, params, args)                                                                 \
	EXPORT int name params;                                                                    \
	EXPORT int name params                                                                     \
	{                                                                                          \
		return files_opened(next_libc()->name args, path, flags);                          \
	}

OPEN_2(__open_2, (const char *path, int flags), (path, flags))
OPEN_2(__open64_2, (const char *path, int flags), (path, flags))
OPEN_2(__openat_2, (int dirfd, const char *path, int flags), (dirfd, path, flags))
OPEN_2(__openat64_2, (int dirfd, const char *path, int flags), (dirfd, path, flags))

/* The kernel answers so where the user may not use the GPU: ROCm's library leaves that GPU out. */
static ssize_t files_refuse_read(void *cookie, char *text, size_t len)
{
	errno = EPERM;
	return -1;
}

static FILE *files_opened_stream(FILE *stream, const char *path)
{
	int r;

	if (!stream || !files_is_of_interest(path))
		return stream;
	r = files_look(fileno(stream), path);
	if (r == 0)
		return stream;
	fclose(stream);
	if (r == AMD_OPEN_UNREADABLE)
		return fopencookie(NULL, "r", (cookie_io_functions_t){.read = files_refuse_read});
	errno = -r;
	return NULL;
}

EXPORT FILE *fopen(const char *path, const char *mode)
{
	return files_opened_stream(next_libc()->fopen(path, mode), path);
}

EXPORT FILE *fopen64(const char *path, const char *mode)
{
	return files_opened_stream(next_libc()->fopen64(path, mode), path);
}
