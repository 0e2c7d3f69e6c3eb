/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * /dev/kfd as a file of processes (criu/kfd), and its buffers that are shared with render nodes.
 *
 * The kernel makes a process's buffers for the process that asks. So each process restores its own
 * /dev/kfd, in the two steps that render nodes have: it makes its own buffers, and publishes them;
 * then it imports others'.
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

/* The first step, of that process. Reports its errors. */
int kfd_file_begin(struct restore *restore, uint32_t process);

/*
 * Returns a complete descriptor of it for the caller; -EAGAIN: call again; or an error that it
 * reports.
 */
int kfd_file_restore(struct restore *restore, uint32_t process);

/*
 * As render_map, for this process's mappings by /dev/kfd: of the render node with that minor, or,
 * if that is 0, of /dev/kfd itself.
 */
int kfd_file_map(struct restore *restore, uint32_t minor, uint64_t offset, uint64_t *ret_offset,
		 int *ret_fd);

/* Called by CRIU at the end: continues its queues. -ENOTSUP: it has none. Reports its errors. */
int kfd_file_resume(const struct restore *restore, pid_t pid);

#endif
