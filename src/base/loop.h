/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The event loop: one thread that sleeps until a descriptor can be read, or a source's time is up.
 */
#ifndef ALLOT_BASE_LOOP_H
#define ALLOT_BASE_LOOP_H

#include <stdbool.h>

struct loop;

/* Stays where it is while the loop has it. */
struct loop_source {
	int fd;
	void (*ready)(struct loop_source *source); /* it can be read, or its time is up */
	int (*timeout_ms)(struct loop_source *source); /* -1: none; NULL: never has one */
};

/* -errno. */
int loop_open(struct loop **ret);
void loop_close(struct loop *loop); /* takes NULL; sources are their owners' */

/* -ENOSPC: there are too many. */
int loop_add(struct loop *loop, struct loop_source *source);
/* While its descriptor is open, and not from a source. Nothing happens if the loop does not have it. */
void loop_remove(struct loop *loop, const struct loop_source *source);

/* Until loop_end is called, from a source. -errno. */
int loop_run(struct loop *loop);
void loop_end(struct loop *loop);

#endif
