/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The simulator's mutex when a waiter takes a wake-up with it: one sleeps on the mutex's word and
 * never takes it, as one that is killed at that moment; who waits behind it must still get it.
 */
#include "sim/mutex.h"

#include <linux/futex.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "tests/check.h"

#define MOMENT_US 30000 /* long enough to fall asleep in, mostly */

static pthread_mutex_t mutex;
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
	CHECK_EQ(pthread_mutex_unlock(&mutex), 0);
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
	CHECK_EQ(pthread_mutex_unlock(&mutex), 0); /* wakes the first */
	CHECK_EQ(sim_mutex_lock(&mutex), 0);	   /* which does not take it, so we have it again */
	CHECK_EQ(pthread_join(first, NULL), 0);
	CHECK_EQ(pthread_mutex_unlock(&mutex), 0); /* and know of nobody */
	for (int i = 0; i < 1000 && !atomic_load(&got); i++)
		usleep(10000);
	CHECK(atomic_load(&got));
	CHECK_EQ(pthread_join(second, NULL), 0);

	CHECK_EQ(pthread_join(start(ends_as_owner, NULL), NULL), 0);
	CHECK_EQ(sim_mutex_lock(&mutex), EOWNERDEAD);
	CHECK_EQ(pthread_mutex_consistent(&mutex), 0);
	CHECK_EQ(pthread_mutex_unlock(&mutex), 0);
	CHECK_EQ(sim_mutex_lock(&mutex), 0);
	return 0;
}
