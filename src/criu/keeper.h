/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * Has queues go on where CRIU is killed in a dump. The kernel pauses a process whose state is asked for
 * until its tracer ends that, and does not notice that there is no tracer any more
 * (kfd_chardev.c, criu_process_info). So a process of ours waits for CRIU's end, and takes its place.
 */
#ifndef ALLOT_CRIU_KEEPER_H
#define ALLOT_CRIU_KEEPER_H

#include <sys/types.h>

/* All zero is none. */
struct keeper {
	pid_t pid;
	int line; /* closed by CRIU's end */
};

/* `kfds`: descriptors of /dev/kfd of the processes `pids`, in any order. 0 or -errno. */
int keeper_start(struct keeper *keeper, const long *pids, int npids, const int *kfds, int nkfds);

/* The processes go on, or were paused by nobody. */
void keeper_end(struct keeper *keeper);

#endif
