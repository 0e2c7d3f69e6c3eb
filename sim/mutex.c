/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/mutex.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define SLEEP_NS 10000000
/* So many sleeps behind one owner, and it is looked at. */
#define SLEEPS 5

int sim_mutex_init(struct sim_mutex *lock)
{
	pthread_mutexattr_t attr;
	int err = pthread_mutexattr_init(&attr);

	if (err)
		return -err;
	pthread_mutexattr_setpshared(&attr, PTHREAD_PROCESS_SHARED);
	pthread_mutexattr_setrobust(&attr, PTHREAD_MUTEX_ROBUST);
	err = pthread_mutex_init(&lock->mutex, &attr);
	pthread_mutexattr_destroy(&attr);
	atomic_store(&lock->stops, 0);
	return -err;
}

/* The word that the kernel finds a dead owner by is at the front. 0: nobody has it. */
static uint32_t mutex_owner(const struct sim_mutex *lock)
{
	return atomic_load((const _Atomic uint32_t *)&lock->mutex) & FUTEX_TID_MASK;
}

/* By system calls alone: within the emulated KFD, open is a function of its own. */
static bool mutex_is_stopped(uint32_t tid)
{
	char path[64], stat[128] = "";
	const char *name_end;
	long fd;

	snprintf(path, sizeof(path), "/proc/%u/stat", tid);
	fd = syscall(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return false;
	syscall(SYS_read, fd, stat, sizeof(stat) - 1);
	syscall(SYS_close, fd);
	name_end = strrchr(stat, ')');
	return name_end && strncmp(name_end, ") T", 3) == 0;
}

static void mutex_continue_owner(struct sim_mutex *lock)
{
	uint32_t tid = mutex_owner(lock), expected = tid;

	if (!tid || !mutex_is_stopped(tid))
		return;
	atomic_store(&lock->stops, tid);
	/* Another waiter may have continued it meanwhile, so that it has stopped again without. */
	if (mutex_owner(lock) == tid)
		kill((pid_t)tid, SIGCONT);
	else
		atomic_compare_exchange_strong(&lock->stops, &expected, 0);
}

int sim_mutex_lock(struct sim_mutex *lock)
{
	int r = pthread_mutex_trylock(&lock->mutex);

	for (int sleeps = 1; r == EBUSY || r == ETIMEDOUT; sleeps++) {
		struct timespec until;

		clock_gettime(CLOCK_REALTIME, &until); /* the clock that the next call goes by */
		until.tv_nsec += SLEEP_NS;
		until.tv_sec += until.tv_nsec / 1000000000;
		until.tv_nsec %= 1000000000;
		r = pthread_mutex_timedlock(&lock->mutex, &until);
		if (r == ETIMEDOUT && sleeps % SLEEPS == 0)
			mutex_continue_owner(lock);
	}
	return r;
}

void sim_mutex_repaired(struct sim_mutex *lock)
{
	pthread_mutex_consistent(&lock->mutex);
}

void sim_mutex_unlock(struct sim_mutex *lock)
{
	uint32_t stops = atomic_load(&lock->stops);

	pthread_mutex_unlock(&lock->mutex);
	if (stops && stops == (uint32_t)syscall(SYS_gettid) &&
	    atomic_compare_exchange_strong(&lock->stops, &stops, 0))
		raise(SIGSTOP);
}
