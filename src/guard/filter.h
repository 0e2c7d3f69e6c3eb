/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The seccomp filter of guarded processes: which ioctls the guard is asked about. It is built from
 * the lists of src/amd, by number alone, because that is how the drivers find what to do: a number
 * under another type would do the same.
 *
 * Asked about are those that take memory of a GPU or give it back, those with which memory comes
 * and goes in another way, with which the kernel keeps a file, those that are refused, and numbers in no row, under which a newer driver
 * may have anything. The rest is none of the guard's business and pays nothing but the filter. System calls of another processor's numbering (32 bits, x32) would
 * go past it and fail with ENOSYS, all of them.
 */
#ifndef ALLOT_GUARD_FILTER_H
#define ALLOT_GUARD_FILTER_H

#include <linux/filter.h>
#include <stdbool.h>
#include <stddef.h>

#define GUARD_FILTER_MOST 96 /* instructions */

/* True if the guard is asked about ioctls of this number (_IOC_NR). */
bool guard_filter_asks(unsigned int nr);

/* The program, and how long it is. Pure. */
size_t guard_filter_build(struct sock_filter ret_program[static GUARD_FILTER_MOST]);

/*
 * Puts it on the calling thread, for ever and for all that it starts, together with
 * PR_SET_NO_NEW_PRIVS. Answers the listener's descriptor, close-on-exec. -EBUSY: there is a filter
 * with a listener already; -EINVAL, -ENOSYS: the kernel cannot do it (before 5.5).
 */
int guard_filter_install(void);

#endif
