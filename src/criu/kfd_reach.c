/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
#include "criu/kfd_reach.h"

#include <errno.h>

#include "criu/engine.h"

/* Kept from one part of a buffer to the next; and the answer for the last node. */
static struct engine engine;
static uint32_t asked_minor;
static bool needless;

void kfd_reach_close(void)
{
	engine_close(&engine);
	asked_minor = 0;
}

/*
 * True if the CPU reaches all of the GPU's memory. Otherwise the kernel would move a touched
 * buffer, and if there is no room, the process that touches it is killed.
 */
static bool kfd_reach_may_touch(uint32_t minor)
{
	if (asked_minor != minor) {
		needless = engine_is_needless(minor);
		asked_minor = minor;
	}
	return needless;
}

static int kfd_reach_read(uint32_t minor, int dmabuf, uint64_t offset, void *memory, size_t len)
{
	int r = kfd_reach_may_touch(minor) ? kfd_calls.read(minor, dmabuf, offset, memory, len)
					   : -EPERM;

	return r == -EPERM ? engine_copy(&engine, minor, dmabuf, offset, memory, len, false) : r;
}

static int kfd_reach_write(uint32_t minor, int dmabuf, uint64_t offset, const void *memory,
			   size_t len)
{
	int r = kfd_reach_may_touch(minor) ? kfd_calls.write(minor, dmabuf, offset, memory, len)
					   : -EPERM;

	return r == -EPERM ? engine_copy(&engine, minor, dmabuf, offset, (void *)(uintptr_t)memory,
					 len, true)
			   : r;
}

static int kfd_reach_open(const char *path)
{
	return kfd_calls.open(path);
}

static int kfd_reach_ioctl(int fd, unsigned long request, void *arg)
{
	return kfd_calls.ioctl(fd, request, arg);
}

const struct kfd_calls kfd_reach = {.open = kfd_reach_open, .ioctl = kfd_reach_ioctl,
				    .read = kfd_reach_read, .write = kfd_reach_write};
