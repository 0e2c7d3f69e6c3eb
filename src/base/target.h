/* SPDX-License-Identifier: Apache-2.0 */
/*
 * State of another process's thread, read from /proc and by the kernel's own copying, without
 * stopping it. A thread is named by its number in the caller's PID namespace. The caller must check
 * afterwards that the number was not given to another thread meanwhile.
 */
#ifndef ALLOT_BASE_TARGET_H
#define ALLOT_BASE_TARGET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* The process that a thread is of; -ESRCH. */
int target_process(pid_t thread, pid_t *ret_process);

/*
 * True if a thread of the process is stopped, by a signal or by a debugger. False if that cannot be
 * seen, and for a process that is gone.
 */
bool target_is_stopped(pid_t process);

/*
 * Returns true while a thread of a process is exiting and has not finished. The kernel unmaps the
 * memory of such a process first, which drops locks that live by a mapping, and closes its files
 * later; an H200's driver frees the process's device memory then, 70 to 134 ms after its end began.
 * False for a process that lives, has ended, or began after `until_ns` (CLOCK_BOOTTIME): its number
 * belonged to another process before. Allocates nothing.
 */
bool target_is_ending(pid_t process, uint64_t until_ns);

/*
 * The device of a thread's descriptor; 0 if it is no character device. -EBADF: it is not open;
 * -ESRCH: there is no such thread; -EACCES: it may not be inspected.
 */
int target_device(pid_t thread, int fd, dev_t *ret_device);

/*
 * A descriptor of our own, close-on-exec, for a file that a process has open, by a pidfd of it.
 * -EBADF, -ESRCH; -EPERM; -ENOSYS before Linux 5.6.
 */
int target_file(int pidfd, int fd);

/* Copies memory of a thread's. -EFAULT: not all of it is there; -EPERM, -ESRCH. */
int target_copy(pid_t thread, uint64_t from, void *to, size_t len);

/*
 * True if the thread may be inside an ioctl with this request. False if it certainly is not: it
 * waits for something else, or is gone. For a thread on a processor the answer is always true.
 */
bool target_inside(pid_t thread, uint32_t request);

#endif
