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

struct container {
	char id[256];
	pid_t pid; /* its first process, which runs nothing of the image yet */
	char root[PATH_MAX];
	char cwd[PATH_MAX]; /* in it */
	char *program;	    /* the first of its arguments, as it stands there; "": none */
	char *path;	    /* PATH in its environment; "": none */
	/*
	 * Whether files of ours are root's in it, or its first process's own: where a user namespace
	 * has them be nobody's, the library believes nothing in them.
	 */
	bool sees_us;
};

#define CONTAINER_WHY 320

/* 0, or -errno with what is wrong in words. Takes a zeroed one; container_done() in any case. */
int container_read(FILE *state, struct container *ret, char why[static CONTAINER_WHY]);
void container_done(struct container *container);

/* Who we are outside of our user namespace, in which a rootless runtime's hooks are root. */
int container_outer_uid(uid_t *ret);

#endif
