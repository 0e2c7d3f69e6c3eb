/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kernel's own figures of a process's memory on a GPU: KFD's in sysfs, for each process that
 * has opened it, under its number in the first PID namespace; and those of its open files of render
 * nodes (fdinfo.h).
 */
#ifndef ALLOT_GUARD_KERNEL_USAGE_H
#define ALLOT_GUARD_KERNEL_USAGE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "amd/abi/kfd.h"
#include "amd/topology.h"

/* True if KFD has the process: it opened the device and neither ended nor called exec since. */
bool kernel_usage_is_shown(pid_t process);

/*
 * Bytes of the GPU's VRAM by either. -ENOENT: none are told of the process; -errno. To its files
 * belong those that the kernel keeps for it, of which the caller has descriptors (`kept`).
 */
int kernel_usage_of_kfd(pid_t process, const struct topology_node *gpu, uint64_t *ret_bytes);
int kernel_usage_of_files(pid_t process, const int *kept, uint32_t nkept,
			  const struct topology_node *gpu, uint64_t *ret_bytes);

/*
 * Checks that the kernel shows figures under the process numbers of this namespace: a child opens
 * the device and must be listed then. 0, with KFD's version, 0.0 where it is not told; -ENODEV:
 * /dev/kfd cannot be opened; -ENOTSUP: the child is not shown, as in a container with a PID
 * namespace of its own; -errno.
 */
int kernel_usage_probe(struct kfd_ioctl_get_version_args *ret_version);

#endif
