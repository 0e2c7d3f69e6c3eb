/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A container that is being made, as its runtime tells a hook of it: the state on the hook's
 * standard input, and config.json in the bundle that this names.
 */
#ifndef ALLOT_CDI_CONTAINER_H
#define ALLOT_CDI_CONTAINER_H

#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/types.h>

#include "node/process/pod.h"

struct container {
	char id[256];
	pid_t pid; /* its first process, which runs nothing of the image yet */
	char root[PATH_MAX];
	char cwd[PATH_MAX]; /* in it */
	char *program;	    /* its first argument, unchanged; "": none */
	char *path;	    /* PATH in its environment; "": none */
	/*
	 * The uid of the container's root, as we see it: all of its users trust files in a
	 * directory of that uid. In a user namespace without a root it is our uid, if the first
	 * process has it. False: there is none, and the library would trust no file.
	 */
	bool has_owner;
	uid_t owner;
	struct pod pod; /* as Kubernetes' runtimes tell it; without a name: no Pod's */
};

#define CONTAINER_WHY 320

/* 0, or -errno with the reason in words. Takes a zeroed one; container_done() in any case. */
int container_read(FILE *state, struct container *ret, char why[static CONTAINER_WHY]);
void container_done(struct container *container);

/* Our uid outside of our user namespace, in which a rootless runtime's hooks are root. */
int container_outer_uid(uid_t *ret);

#endif
