/* SPDX-License-Identifier: Apache-2.0 */
/* The one way in which AMD's drivers are asked. */
#ifndef ALLOT_GUEST_AMD_ASK_H
#define ALLOT_GUEST_AMD_ASK_H

#include <errno.h>

#include "guest/core/guest.h"
#include "guest/process/next.h"

/* As our own call: what stands in for a kernel may call what is hooked. 0 or more, or -errno. */
static inline int amd_ask(int fd, unsigned long request, void *block)
{
	int r;

	guest_depth++;
	r = next_libc()->ioctl(fd, request, block);
	guest_depth--;
	return r < 0 ? -errno : r;
}

#endif
