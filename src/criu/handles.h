/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * Gives a new file's handles the numbers that they had. No ioctl takes the number of a new handle,
 * and the one that would change it (GEM_CHANGE_HANDLE, Linux 6.18) was disabled for CVE-2026-53145.
 * But the kernel gives out the lowest free number. So all are taken first, by buffers of a page,
 * and one is freed just before it is wanted:
 *
 *	1 2 3 4 5 6 7 8     handles_occupy(8)
 *	1 2 3 4 5 6 . 8     handles_vacate(7)
 *	1 2 3 4 5 6 B 8     the next that is created or imported is 7: handles_settle ensures it
 *	1 . . . . . 7 8     the others are closed at the end
 *
 * Above HANDLES_OCCUPIED that would be too much memory. There GEM_CHANGE_HANDLE is tried.
 */
#ifndef ALLOT_CRIU_HANDLES_H
#define ALLOT_CRIU_HANDLES_H

#include <stdint.h>

#define HANDLES_OCCUPIED 65536 /* 256 MiB of pages, for as long as a restore takes */

/* Of a new file, up to `highest`, which is at most HANDLES_OCCUPIED. 0, -errno. */
int handles_occupy(int fd, uint32_t highest);

/* Frees the handle, which the next buffer then gets. */
int handles_vacate(int fd, uint32_t handle);

/* It was made as `made`: 0 when it is `wanted` now. -EEXIST: this kernel gives out other numbers. */
int handles_settle(int fd, uint32_t made, uint32_t wanted);

#endif
