/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * /dev/kfd as a file of processes (criu/kfd), and what of it is shared with render nodes.
 *
 * The kernel makes a process's buffers anew for the process that asks. So a restore of /dev/kfd is
 * the process's own, in the two steps that render nodes have: it makes what is its own, and
 * publishes that; then it takes what others have made.
 */
#ifndef ALLOT_CRIU_KFD_FILE_H
#define ALLOT_CRIU_KFD_FILE_H

#include <stdbool.h>
#include <sys/stat.h>

#include "criu/dump.h"
#include "criu/restore.h"

bool kfd_file_is(const struct stat *st);

/* As render_dump (render.h). Queues of the process stand still until dump_done. */
int kfd_file_dump(struct dump *dump, int fd, uint32_t id);

/* The first step, of that process. Says what is wrong. */
int kfd_file_begin(struct restore *restore, uint32_t process);

/* A descriptor of it, whole, for the caller; -EAGAIN: call again; or it says what is wrong. */
int kfd_file_restore(struct restore *restore, uint32_t process);

/*
 * As render_map, of what this process has by /dev/kfd: of the render node with that minor, or,
 * where that is 0, of /dev/kfd itself.
 */
int kfd_file_map(struct restore *restore, uint32_t minor, uint64_t offset, uint64_t *ret_offset,
		 int *ret_fd);

/* By CRIU, when all is done: its queues go on. -ENOTSUP: it has none. Says what is wrong. */
int kfd_file_resume(const struct restore *restore, pid_t pid);

#endif
