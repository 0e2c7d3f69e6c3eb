/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The seccomp filter of guarded processes: it selects the ioctls that the guard is asked about. It
 * is built from the lists of src/amd, by number alone, as the drivers do: the same number with
 * another type would do the same.
 *
 * The guard is asked about ioctls that take or release memory of a GPU, that move memory in another
 * way, that make the kernel keep a file, and that are refused; and about numbers in no row, which a
 * newer driver may use for anything, and other files than a GPU's all the time. Of a driver that is no
 * newer than the lists these are only DRM's own for displays. All others only pass the filter. System calls of another
 * processor's numbering (32 bits, x32) would bypass it and all fail with ENOSYS.
 */
#ifndef ALLOT_GUARD_FILTER_H
#define ALLOT_GUARD_FILTER_H

#include <linux/filter.h>
#include <stdbool.h>
#include <stddef.h>

#define GUARD_FILTER_MOST 96 /* instructions */

/*
 * True if the guard is asked about ioctls of this number (_IOC_NR). `known_driver`: it is no newer than
 * the lists, so it has no number that is not there.
 */
bool guard_filter_asks(unsigned int nr, bool known_driver);

/* The program, and how long it is. Pure. */
size_t guard_filter_build(bool known_driver, struct sock_filter ret_program[static GUARD_FILTER_MOST]);

/*
 * Installs it on the calling thread, forever and for all that it starts, together with
 * PR_SET_NO_NEW_PRIVS. Returns the listener's descriptor, close-on-exec. -EBUSY: there is a filter
 * with a listener already; -EINVAL, -ENOSYS: the kernel cannot do it (before 5.5).
 */
int guard_filter_install(bool known_driver);

#endif
