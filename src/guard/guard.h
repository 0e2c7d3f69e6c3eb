/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `allot run --guard`: a supervisor. The kernel asks it about each ioctl that takes memory of an
 * AMD GPU or gives it back, whoever makes the ioctl: a program with the library, one that is linked
 * statically, a bare system call. A thread of `allot run` answers:
 *
 *	guard_open, guard_start		in the parent, before the command's process is made
 *	guard_enter			in that process, before it becomes the command
 *	guard_close			in the parent, after the command's end
 *
 *   filter.c       which ioctls the kernel asks about
 *   listener.c     questions and answers
 *   device_files.c which device files are AMD's
 *   usage_table.c  what each process has, and the tenant's ledger
 *   account.c      how that is reckoned
 *   kernel_usage.c the kernel's own figures, in sysfs and of open files (fdinfo.c)
 *   guard.c        answers
 *
 * The guard fails closed: where it cannot be had, nothing is started. When it ends before the
 * command's processes do, the kernel answers them ENOSYS.
 */
#ifndef ALLOT_GUARD_GUARD_H
#define ALLOT_GUARD_GUARD_H

#include <stdbool.h>

struct guard;

/* After an error: what failed, on which object, why, and what to do. */
struct guard_complaint {
	char text[512];
};

/*
 * For the tenant in `dir`: takes its slot in the ledger, reads the GPUs, and makes sure that the
 * kernel tells processes' use of them. 0, or -errno with a complaint.
 */
int guard_open(const char *dir, struct guard **ret, struct guard_complaint *complaint);

/*
 * True if the kernel's KFD is no newer than the list of its ioctls here. If not, a note says so:
 * ioctls in no row are refused, and a program may want one.
 */
bool guard_knows_kernel(const struct guard *guard, struct guard_complaint *note);

/* Begins to wait for the command's process. 0, or -errno with a complaint. */
int guard_start(struct guard *guard, struct guard_complaint *complaint);

/*
 * In the command's process: from here on the guard is asked, also about programs that the process
 * executes and starts. 0, or -errno with a complaint: the process must then end.
 */
int guard_enter(struct guard *guard, struct guard_complaint *complaint);

/*
 * Stops answering and gives the slot back. Takes NULL. A thread that a guarded program keeps
 * waiting is left, with all it uses, to the end of this process, which is to come soon.
 */
void guard_close(struct guard *guard);

#endif
