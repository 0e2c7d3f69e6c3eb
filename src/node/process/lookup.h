/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files that another process names. Their file system, or the automounter on the way, may be that
 * process's own: a reader that waits for an answer may wait forever.
 */
#ifndef ALLOT_NODE_PROCESS_LOOKUP_H
#define ALLOT_NODE_PROCESS_LOOKUP_H

#include <stdint.h>
#include <sys/stat.h>

/* As linux/openat2.h has them, which is not everywhere that the kernel is new enough. */
#define LOOKUP_NO_MAGIC 0x02 /* no links of /proc */
#define LOOKUP_IN_ROOT	0x10 /* `dirfd` is the root of all paths and links */
#define LOOKUP_CACHED	0x20 /* -EAGAIN unless all is in the kernel's cache: no file system is asked */

/*
 * An O_PATH descriptor, or -errno. -ENOSYS, -EINVAL, -EPERM: kernels before 5.6 or, with LOOKUP_CACHED,
 * 5.12, and sandboxes that do not know the call.
 */
int lookup_open(int dirfd, const char *path, int flags, uint64_t resolve);

/* Device, inode, mode, owner and size, as the kernel knows them without asking anybody. -errno. */
int lookup_stat(int fd, struct stat *ret);

#endif
