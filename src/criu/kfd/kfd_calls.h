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

/* A buffer's content, for copies. */
struct kfd_place {
	uint32_t minor; /* of its GPU's render node */
	int dmabuf;
	uint64_t bytes;
	bool vram; /* in the GPU's own memory */
};

/* All answer 0 (or a descriptor, close-on-exec) or -errno. */
struct kfd_calls {
	int (*open)(const char *path);
	int (*ioctl)(int fd, unsigned long request, void *arg);

	/*
	 * Part of a buffer's content, into `memory` or out of it. Several threads do so at once, each for
	 * buffers of its own. All that a thread has written is there when `done` answers 0, which lets go of what
	 * the thread needed for that. NULL: there is nothing to be done.
	 */
	int (*read)(const struct kfd_place *place, uint64_t offset, void *memory, size_t len);
	int (*write)(const struct kfd_place *place, uint64_t offset, const void *memory, size_t len);
	int (*done)(void);
};

extern const struct kfd_calls kfd_calls;

/* One line for a person: the failure, and its reason. */
#define KFD_WHY_BYTES 320
int kfd_say(char why[KFD_WHY_BYTES], int r, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

#endif
