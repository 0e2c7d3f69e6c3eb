/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * Takes a snapshot of the topology, from sysfs or from a copy of it.
 *
 * The kernel changes the tree at any time (a GPU is reset, unbound, partitioned anew) and counts
 * the changes. The tree is read again until the count is the same before and after.
 *
 * A GPU is left out when the device cgroup keeps it from this process (its files cannot be read),
 * or when its render node is not there. Links to it are left out, too, and the other nodes move up.
 * ROCm's user-space library does the same, so both number nodes alike.
 */
#ifndef ALLOT_AMD_TOPOLOGY_READ_H
#define ALLOT_AMD_TOPOLOGY_READ_H

#include "amd/topology.h"

#define TOPOLOGY_DIR "/sys/devices/virtual/kfd/kfd/topology"
#define TOPOLOGY_DRI "/dev/dri"

/* False in a build without AMD GPUs (-Damd=false), where topology_read finds none. */
#ifdef ALLOT_WITHOUT_AMD
#define TOPOLOGY_BUILT false
#else
#define TOPOLOGY_BUILT true
#endif

/* How often a tree that changes while it is read is read. */
#define TOPOLOGY_TRIES 16

/* After an error: the file, what is wrong with it, and where that helps what to do. */
struct topology_complaint {
	char text[512];
};

/*
 * `root` is put before the paths above; NULL: nothing. 0 with a snapshot for topology_free();
 * -ENOENT: no KFD here (no amdgpu driver, or one without compute); -EACCES: a render node that
 * this user may not open; -EAGAIN: the tree changed during each try; -EINVAL, -ERANGE, -ENODATA,
 * -EFBIG: a file is not as the kernel writes it; -ENOMEM; else what reading answered.
 */
int topology_read(const char *root, struct topology **ret_topology,
		  struct topology_complaint *complaint);

#endif
