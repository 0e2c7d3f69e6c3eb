/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kernel's own figure of what a process has of a GPU's memory: what KFD shows in sysfs for each
 * process that has opened it, under its number in the first PID namespace.
 */
#ifndef ALLOT_GUARD_FIGURE_H
#define ALLOT_GUARD_FIGURE_H

#include <stdint.h>
#include <sys/types.h>

/* Bytes of the GPU's VRAM; 0 for a process that KFD does not know. -errno. */
int figure_read(pid_t process, uint32_t gpu_id, uint64_t *ret_bytes);

/*
 * Whether the kernel shows figures, and under the numbers that processes have here: a child opens
 * the device and must be there then. 0; -ENODEV: /dev/kfd cannot be opened; -ENOTSUP: the child is
 * not shown, as in a container with a PID namespace of its own; -errno.
 */
int figure_probe(void);

#endif
