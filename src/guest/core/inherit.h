/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a program that a tenant's process starts has in its environment, so that it is of the tenant:
 * ALLOT_TENANT_DIR, and the library in LD_PRELOAD. Programs like env -i, tox and bazel start others with
 * an environment of their own making, and scripts put another library into LD_PRELOAD.
 *
 * Called in a child of vfork and in signal handlers: takes no lock and no memory, and writes to none but
 * the caller's.
 */
#ifndef ALLOT_GUEST_CORE_INHERIT_H
#define ALLOT_GUEST_CORE_INHERIT_H

#include <stddef.h>

/*
 * Returns the bytes that inherit_fill() needs, or 0 if the environment is to stay as it is: nothing is missing,
 * this process was not started in a tenant by `allot run`, or there are too many variables for a stack.
 * A tenant that the environment names is never exchanged.
 */
size_t inherit_room(char *const *envp);

/* Writes the environment with what is missing into `room`, which refers to the texts of `envp`. */
char *const *inherit_fill(char *const *envp, void *room);

#endif
