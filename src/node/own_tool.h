/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The programs that `allot bench` and `allot topo --measure` run on devices, outside of tenants,
 * since they measure the reference for tenants.
 *
 * The program of a process proves nothing by itself: a user can run any code in it (LD_PRELOAD,
 * ptrace). So it must be a process that could end us as well, whatever our user.
 */
#ifndef ALLOT_NODE_OWN_TOOL_H
#define ALLOT_NODE_OWN_TOOL_H

#include <stdbool.h>
#include <sys/types.h>

/*
 * Returns true if the process runs a tool of this installation and is its reader's user's; where
 * that is root, only with all that root can do on this machine, so none in a container.
 */
bool own_tool_is(pid_t pid);

#endif
