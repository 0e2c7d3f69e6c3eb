/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A mutex between processes any of which may be killed at any instruction, also while it waits. A
 * robust mutex sees to the death of its owner. It does not see to that of a waiter which was woken
 * and had not run yet: if another has taken the mutex by then, without knowing that anybody waits,
 * the wake-up is lost to the rest. So nobody sleeps for long at a time.
 */
#ifndef ALLOT_SIM_MUTEX_H
#define ALLOT_SIM_MUTEX_H

#include <errno.h>
#include <pthread.h>
#include <time.h>

#define SIM_MUTEX_SLEEP_NS 10000000

/* Robust and process-shared. 0 or -errno. */
static inline int sim_mutex_init(pthread_mutex_t *mutex)
{
	pthread_mutexattr_t attr;
	int err = pthread_mutexattr_init(&attr);

	if (err)
		return -err;
	pthread_mutexattr_setpshared(&attr, PTHREAD_PROCESS_SHARED);
	pthread_mutexattr_setrobust(&attr, PTHREAD_MUTEX_ROBUST);
	err = pthread_mutex_init(mutex, &attr);
	pthread_mutexattr_destroy(&attr);
	return -err;
}

/* 0, or EOWNERDEAD: ours, but its holder died; pthread_mutex_consistent is to be called. */
static inline int sim_mutex_lock(pthread_mutex_t *mutex)
{
	int r = pthread_mutex_trylock(mutex);

	while (r == EBUSY || r == ETIMEDOUT) {
		struct timespec until;

		clock_gettime(CLOCK_REALTIME, &until); /* the clock that the next call goes by */
		until.tv_nsec += SIM_MUTEX_SLEEP_NS;
		until.tv_sec += until.tv_nsec / 1000000000;
		until.tv_nsec %= 1000000000;
		r = pthread_mutex_timedlock(mutex, &until);
	}
	return r;
}

#endif
