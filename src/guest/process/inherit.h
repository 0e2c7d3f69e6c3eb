/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program is of the tenant by two variables of its environment: ALLOT_TENANT_DIR, and LD_PRELOAD with
 * the library. A process of the tenant that starts another puts back those that are missing. Programs like env -i, tox and bazel start others with
 * an environment of their own making, and scripts put another library into LD_PRELOAD.
 *
 * Called in a child of vfork and in signal handlers: takes no lock and no memory, and writes to none but
 * the caller's.
 */
#ifndef ALLOT_GUEST_PROCESS_INHERIT_H
#define ALLOT_GUEST_PROCESS_INHERIT_H

#include <stddef.h>

/* An environment at the time of a look, and the variables that it lacks. */
struct inherit {
	const char *tenant;  /* the variable that is missing, or NULL */
	const char *library; /* likewise the library's path */
	const char *value;   /* of LD_PRELOAD, value_bytes long */
	size_t value_bytes;
	size_t n;	/* variables */
	size_t preload; /* which of them is LD_PRELOAD; SIZE_MAX: none */
};

/*
 * Returns the bytes that inherit_fill() needs, or 0 if the environment is to stay as it is: nothing is missing,
 * LD_PRELOAD did not bring this process into a tenant, or there are too many variables for a stack.
 * A tenant that the environment names is never exchanged.
 */
size_t inherit_look(char *const *envp, struct inherit *ret);

/*
 * Writes the environment with what is missing into `room`, which refers to the texts of `envp`. That may be
 * longer by now, where another thread sets variables: what was looked at is taken.
 */
char *const *inherit_fill(const struct inherit *inherit, char *const *envp, void *room);

#endif
