/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files of AMD's driver, when a program has opened one: those that tell how large a GPU's memory is
 * are exchanged for what the tenant is to see, and those of GPUs that the tenant does not have are
 * refused. Which file it is says the kernel, so symbolic links and relative paths lead here, too;
 * what a path ends in only tells that it may be one.
 */
#ifndef ALLOT_GUEST_AMD_OPEN_H
#define ALLOT_GUEST_AMD_OPEN_H

#include <stdbool.h>

/* True if the path may be one of AMD's. For a path that the kernel could read. */
bool amd_open_may_be(const char *path);

/* Answer of amd_opened for a file that the kernel opens, and then does not read from. */
#define AMD_OPEN_UNREADABLE 1

/*
 * 0: the program may have the descriptor, which keeps its number and its flag for exec but may be
 * another file's now; AMD_OPEN_UNREADABLE, or -errno: it may not. Never closes it. Keeps errno.
 */
int amd_opened(int fd, const char *path);

#endif
