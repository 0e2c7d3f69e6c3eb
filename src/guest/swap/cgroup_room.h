/* SPDX-License-Identifier: Apache-2.0 */
/* How much more memory the kernel lets a process have, by the cgroups that it is in. */
#ifndef ALLOT_GUEST_SWAP_CGROUP_ROOM_H
#define ALLOT_GUEST_SWAP_CGROUP_ROOM_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/*
 * The least over the process's cgroup and those above it, with what is cached of files; less a
 * tenth, for what else the process needs. UINT64_MAX: no limit, or none that can be seen from here
 * (version 1, a cgroup above a container's own).
 */
uint64_t cgroup_room(void);

/*
 * The same, of which `share` says for each of these cgroups, as its path, what of its room is for
 * this process: others in it may be about to take some.
 */
typedef uint64_t cgroup_share_fn(const char *group, uint64_t room, void *arg);
uint64_t cgroup_room_share(cgroup_share_fn *share, void *arg);

/* True if a process is in the cgroup, or in one below it. */
bool cgroup_has(const char *group, pid_t pid);

/* As cgroup_room, and no more than the machine has, as of host_memory_room. */
uint64_t cgroup_host_room(void);

#endif
