/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The simulator's mutex when a waiter takes a wake-up with it: one sleeps on the mutex's word and
 * never takes it, as one that is killed at that moment; who waits behind it must still get it. And
 * when its owner is stopped.
 */
#include "sim/mutex.h"

#include <errno.h>
#include <linux/futex.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/check.h"

#define MOMENT_US 30000 /* long enough to fall asleep in, mostly */

static struct sim_mutex mutex;
static atomic_bool got;

static void *dies_when_woken(void *arg)
{
	uint32_t *word = (uint32_t *)&mutex; /* where glibc has it: see main */

	syscall(SYS_futex, word, FUTEX_WAIT, *(uint32_t *)arg, NULL, NULL, 0);
	return NULL;
}

static void *waits(void *arg)
{
	CHECK_EQ(sim_mutex_lock(&mutex), 0);
	atomic_store(&got, true);
	sim_mutex_unlock(&mutex);
	return NULL;
}

static void *ends_as_owner(void *arg)
{
	CHECK_EQ(sim_mutex_lock(&mutex), 0);
	return NULL;
}

static pthread_t start(void *(*fn)(void *), void *arg)
{
	pthread_t thread;

	CHECK_EQ(pthread_create(&thread, NULL, fn, arg), 0);
	return thread;
}

static struct sim_mutex *shared;

static void *stops_as_owner(void *arg)
{
	CHECK_EQ(sim_mutex_lock(shared), 0);
	raise(SIGSTOP);
	sim_mutex_unlock(shared);
	return NULL;
}

static void wait_for(pid_t child, int options, int expected)
{
	int status;

	CHECK_EQ(waitpid(child, &status, options), child);
	CHECK_EQ(options ? WSTOPSIG(status) : status, expected);
}

/* The mutex is to be had; its owner has stopped again by then, or is about to, until it is told. */
static void check_stopped_owner(bool in_thread)
{
	pid_t child = fork();

	CHECK(child >= 0);
	if (!child) {
		alarm(20);
		if (in_thread)
			CHECK_EQ(pthread_join(start(stops_as_owner, NULL), NULL), 0);
		else
			stops_as_owner(NULL);
		_exit(0);
	}
	wait_for(child, WUNTRACED, SIGSTOP);
	CHECK_EQ(sim_mutex_lock(shared), 0);
	sim_mutex_unlock(shared);
	wait_for(child, WUNTRACED, SIGSTOP);
	CHECK_EQ(sim_mutex_lock(shared), 0);
	CHECK_EQ(kill(child, SIGCONT), 0);
	sim_mutex_unlock(shared);
	wait_for(child, 0, 0);
}

int main(void)
{
	pthread_t first, second;
	uint32_t held;

	CHECK_EQ(sim_mutex_init(&mutex), 0);
	CHECK_EQ(sim_mutex_lock(&mutex), 0);
	held = *(uint32_t *)&mutex;
	CHECK_EQ(held & FUTEX_TID_MASK, gettid());
	first = start(dies_when_woken, &held);
	usleep(MOMENT_US);
	second = start(waits, NULL);
	usleep(MOMENT_US);
	sim_mutex_unlock(&mutex); /* wakes the first */
	CHECK_EQ(sim_mutex_lock(&mutex), 0);	   /* which does not take it, so we have it again */
	CHECK_EQ(pthread_join(first, NULL), 0);
	sim_mutex_unlock(&mutex); /* and know of nobody */
	for (int i = 0; i < 1000 && !atomic_load(&got); i++)
		usleep(10000);
	CHECK(atomic_load(&got));
	CHECK_EQ(pthread_join(second, NULL), 0);

	CHECK_EQ(pthread_join(start(ends_as_owner, NULL), NULL), 0);
	CHECK_EQ(sim_mutex_lock(&mutex), EOWNERDEAD);
	sim_mutex_repaired(&mutex);
	sim_mutex_unlock(&mutex);
	CHECK_EQ(sim_mutex_lock(&mutex), 0);

	alarm(20);
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
		      -1, 0);
	CHECK(shared != MAP_FAILED);
	CHECK_EQ(sim_mutex_init(shared), 0);
	check_stopped_owner(false);
	check_stopped_owner(true);
	return 0;
}
