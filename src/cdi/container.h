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

#include "node/pod.h"

struct container {
	char id[256];
	pid_t pid; /* its first process, which runs nothing of the image yet */
	char root[PATH_MAX];
	char cwd[PATH_MAX]; /* in it */
	char *program;	    /* the first of its arguments, as it stands there; "": none */
	char *path;	    /* PATH in its environment; "": none */
	/*
	 * Its root, by the number that this one has for us: all of its users believe files in a directory
	 * of that one's. In a user namespace without a root it is us, if the first process is. False: it
	 * is nobody, and the library would believe nothing.
	 */
	bool has_owner;
	uid_t owner;
	struct pod pod; /* as Kubernetes' runtimes tell it; without a name: no Pod's */
};

#define CONTAINER_WHY 320

/* 0, or -errno with what is wrong in words. Takes a zeroed one; container_done() in any case. */
int container_read(FILE *state, struct container *ret, char why[static CONTAINER_WHY]);
void container_done(struct container *container);

/* Our uid outside of our user namespace, in which a rootless runtime's hooks are root. */
int container_outer_uid(uid_t *ret);

#endif
