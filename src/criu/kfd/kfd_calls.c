/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
#include "criu/kfd/kfd_calls.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>

#include "base/err.h"
#include "image/contents.h"

static int calls_open(const char *path)
{
	int fd = open(path, O_RDWR | O_CLOEXEC);

	return fd < 0 ? err_errno() : fd;
}

/* The kernel may ask for a call to be made again, as ROCm's library does without end. */
static int calls_ioctl(int fd, unsigned long request, void *arg)
{
	int r;

	do
		r = ioctl(fd, request, arg);
	while (r < 0 && errno == EINTR);
	return r < 0 ? err_errno() : 0;
}

static int calls_copy(int dmabuf, uint64_t offset, void *memory, size_t len, bool out)
{
	struct contents_view view;
	int r = contents_view_open(&view, dmabuf, offset, len, out);

	if (r < 0)
		return r;
	contents_view_copy(&view, 0, memory, len);
	contents_view_close(&view);
	return 0;
}

static int calls_read(const struct kfd_place *place, uint64_t offset, void *memory, size_t len)
{
	return calls_copy(place->dmabuf, offset, memory, len, false);
}

static int calls_write(const struct kfd_place *place, uint64_t offset, const void *memory, size_t len)
{
	return calls_copy(place->dmabuf, offset, (void *)(uintptr_t)memory, len, true);
}

const struct kfd_calls kfd_calls = {
	.open = calls_open, .ioctl = calls_ioctl, .read = calls_read, .write = calls_write};

int kfd_say(char why[KFD_WHY_BYTES], int r, const char *format, ...)
{
	va_list ap;
	int n;

	va_start(ap, format);
	n = vsnprintf(why, KFD_WHY_BYTES, format, ap);
	va_end(ap);
	if (n >= 0 && n < KFD_WHY_BYTES)
		snprintf(why + n, (size_t)(KFD_WHY_BYTES - n), ": %s", strerror(-r));
	return r;
}
