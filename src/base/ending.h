/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether a process is just ending. The kernel takes its memory away first, with the locks that live
 * by a mapping, and then closes its files; a driver frees what it held when its files are closed, on
 * an H200 70 to 130 ms later.
 */
#ifndef ALLOT_BASE_ENDING_H
#define ALLOT_BASE_ENDING_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/*
 * True while a thread of `pid`, in our PID namespace, is on its way out and has not come to its end.
 * False of a process that lives, or is gone, and of one that began after `until_ns` by
 * CLOCK_BOOTTIME, which has the number of another one. Allocates nothing.
 */
bool ending_is(pid_t pid, uint64_t until_ns);

#endif
