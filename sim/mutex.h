/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A mutex between processes any of which may be killed at any instruction, also while it waits, or
 * stopped.
 *
 * - A robust mutex sees to the death of its owner. It does not see to that of a waiter which was
 *   woken and had not run yet: if another has taken the mutex by then, without knowing that anybody
 *   waits, the wake-up is lost to the rest. So nobody sleeps for long at a time.
 * - Nobody stops in a driver's lock, which the kernel holds, but here an owner does (SIGSTOP). Who
 *   waits for it continues it. It stops again by itself as soon as it has unlocked: `stops` names
 *   the thread that is to. One that a debugger stopped is not continued.
 */
#ifndef ALLOT_SIM_MUTEX_H
#define ALLOT_SIM_MUTEX_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>

struct sim_mutex {
	pthread_mutex_t mutex;
	_Atomic uint32_t stops;
};

/* Robust and process-shared. 0 or -errno. */
int sim_mutex_init(struct sim_mutex *lock);

/* 0, or EOWNERDEAD: ours, but its holder died; sim_mutex_repaired is to be called. */
int sim_mutex_lock(struct sim_mutex *lock);
void sim_mutex_repaired(struct sim_mutex *lock);
void sim_mutex_unlock(struct sim_mutex *lock);

#endif
