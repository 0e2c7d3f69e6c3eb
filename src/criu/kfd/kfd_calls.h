/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * How this room reaches the machine. CRIU's plugin and the tests on the emulator use the C
 * library's way; a unit test has another.
 */
#ifndef ALLOT_CRIU_KFD_KFD_CALLS_H
#define ALLOT_CRIU_KFD_KFD_CALLS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* All answer 0 (or a descriptor, close-on-exec) or -errno. */
struct kfd_calls {
	int (*open)(const char *path);
	int (*ioctl)(int fd, unsigned long request, void *arg);

	/* Part of the content of a dma-buf of that render node's, into `memory` or out of it. */
	int (*read)(uint32_t minor, int dmabuf, uint64_t offset, void *memory, size_t len);
	int (*write)(uint32_t minor, int dmabuf, uint64_t offset, const void *memory, size_t len);
};

extern const struct kfd_calls kfd_calls;

/* One line for a person: the failure, and its reason. */
#define KFD_WHY_BYTES 320
int kfd_say(char why[KFD_WHY_BYTES], int r, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

#endif
