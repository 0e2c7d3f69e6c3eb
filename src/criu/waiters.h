/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * Processes that wait, during a restore, for a buffer that another process makes. A process whose
 * files cannot be opened yet sleeps until it is told to try again, and only the plugin does that.
 * In memory that they share:
 *
 *	waiting process			publishing process
 *	1. writes its pid down		1. publishes
 *	2. looks once more		2. wakes whose pid it finds
 *	3. sleeps, unless it has it
 *
 * So each either finds what it waits for, or is found.
 */
#ifndef ALLOT_CRIU_WAITERS_H
#define ALLOT_CRIU_WAITERS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct waiter {
	_Atomic int32_t pid; /* 0: nobody */
};

/* A published buffer is a number of CRIU's store of descriptors. */
struct published {
	_Atomic int32_t store_plus_one; /* 0: not yet */
};

void waiter_register(struct waiter *waiter); /* this process; step 1 */
void waiter_wake(struct waiter *waiter);
void waiter_done(struct waiter *waiter); /* it does not wait any more */

/* -errno where CRIU cannot store it. */
int published_put(struct published *published, int fd);
bool published_is(const struct published *published);
/* A descriptor, or -EAGAIN: not yet. */
int published_get(struct published *published);

#endif
