/* SPDX-License-Identifier: Apache-2.0 */
/* How much more memory the kernel lets a process have, by the cgroups that it is in. */
#ifndef ALLOT_GUEST_SWAP_CGROUP_ROOM_H
#define ALLOT_GUEST_SWAP_CGROUP_ROOM_H

#include <stdint.h>

/*
 * The least over the process's cgroup and those above it, with what is cached of files; less a
 * tenth, for what else the process needs. UINT64_MAX: no limit, or none that can be seen from here
 * (version 1, a cgroup above a container's own).
 */
uint64_t cgroup_room(void);

/* The same, and no more than the machine has, as of host_memory_room. */
uint64_t cgroup_host_room(void);

#endif
