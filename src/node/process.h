/* SPDX-License-Identifier: Apache-2.0 */
/* A process as /proc tells of it: how it is known again, whose it is, and who began its program. */
#ifndef ALLOT_NODE_PROCESS_H
#define ALLOT_NODE_PROCESS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* The same pid, start and image: the same process, which has not called exec since. */
struct process_mark {
	pid_t pid;
	uint64_t start; /* in the kernel's ticks */
	uint64_t image; /* of where its program's code, stack and environment are; 0: not to be seen */
};

/* -ESRCH: it is gone, or has ended. */
int process_read_mark(pid_t pid, struct process_mark *ret);
bool process_is_same(const struct process_mark *a, const struct process_mark *b);

/*
 * Its real user. -EPERM: it has another one's rights besides, as a setuid program; *ret is set then,
 * too. -ESRCH.
 */
int process_read_user(pid_t pid, uid_t *ret);

/*
 * Returns true if who began its program had the rights that it began with, so that its environment is
 * its user's. False for a setuid program, whatever user it became since, and where that is not to be
 * seen.
 */
bool process_has_own_environment(pid_t pid);

#endif
