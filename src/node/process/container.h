/* SPDX-License-Identifier: Apache-2.0 */
/* In which container a process is, as Docker, containerd, CRI-O and podman name them. */
#ifndef ALLOT_NODE_PROCESS_CONTAINER_H
#define ALLOT_NODE_PROCESS_CONTAINER_H

#include <sys/types.h>

#define CONTAINER_BYTES 65 /* 64 digits */

/* "": in none, or the process is gone. */
void container_of_process(pid_t pid, char ret[static CONTAINER_BYTES]);

/* By the content of /proc/PID/cgroup. Pure. */
void container_of_cgroup(const char *text, char ret[static CONTAINER_BYTES]);

#endif
