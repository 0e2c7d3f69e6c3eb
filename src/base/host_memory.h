/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The machine's memory for content that is moved off devices and for what GPUs pin, and how much more
 * of it the kernel lets a process have, by the cgroups that it is in.
 */
#ifndef ALLOT_BASE_HOST_MEMORY_H
#define ALLOT_BASE_HOST_MEMORY_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* All that the machine has; 0: not known. */
uint64_t host_memory_total(void);

/* Free memory, less a tenth; 0: none, or not known, so that nothing is moved. */
uint64_t host_memory_room(void);

/* The same; false: it is not known. */
bool host_memory_tell_room(uint64_t *ret_bytes);

/*
 * The least over the process's cgroup and those above it, with what the kernel takes back before it
 * refuses (what is cached of files, slabs); less a tenth, for what else the process needs.
 * UINT64_MAX: no limit, or none that can be seen from here (version 1, a cgroup above a container's
 * own).
 */
uint64_t host_memory_cgroup_room(void);

/*
 * The same, of which `share` says for each of these cgroups, as its path, what of its room is for
 * this process: others in it may be about to take some.
 */
typedef uint64_t host_memory_share_fn(const char *group, uint64_t room, void *arg);
uint64_t host_memory_share(host_memory_share_fn *share, void *arg);

/* True if a process is in the cgroup, or in one below it. */
bool host_memory_group_has(const char *group, pid_t pid);

/* As host_memory_cgroup_room, and no more than the machine has, as of host_memory_room. */
uint64_t host_memory_own_room(void);

#endif
