/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Identity of a process by /proc: how to recognise it again, its user, and the user who started its
 * program.
 */
#ifndef ALLOT_NODE_PROCESS_PROCESS_H
#define ALLOT_NODE_PROCESS_PROCESS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* Two equal marks are of the same process, and it has not called exec in between. */
struct process_mark {
	pid_t pid;
	uint64_t start; /* in the kernel's ticks */
	uint64_t image; /* a hash of the addresses of its program's code, stack and environment */
};

/* -ESRCH: it is gone, or has ended. */
int process_read_mark(pid_t pid, struct process_mark *ret);
bool process_is_same(const struct process_mark *a, const struct process_mark *b);

/*
 * Reads its real user. -EPERM: it also has rights of another user, as a setuid program does; *ret
 * is set in this case, too. -ESRCH.
 */
int process_read_user(pid_t pid, uid_t *ret);

/*
 * Returns 1 if the user may end it: it has that real user, or is in a user namespace that the user
 * made, or in one within that; 0 if not. -ESRCH: it is gone; or -errno where its namespace cannot
 * be seen.
 */
int process_is_of_user(pid_t pid, uid_t user);

/*
 * Returns true if the user who started its program is the user that the program started as: then
 * the environment is that user's word. False for a setuid program, also after it changed its user,
 * and if /proc does not show it.
 */
bool process_has_own_environment(pid_t pid);

#endif
