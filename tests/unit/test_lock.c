/* SPDX-License-Identifier: Apache-2.0 */
/* The order of locks, as a build for debugging checks it. */
#include "base/lock.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

#include "tests/check.h"

static struct lock_backing backing, other_backing;
static struct lock_objects objects;

static void in_order(void)
{
	lock_take(&backing);
	lock_take(&objects);
	lock_drop(&backing); /* not the last that was taken */
	lock_drop(&objects);
	lock_take(&backing);
	lock_drop(&backing);
	lock_rank_none("the driver");
}

static void out_of_order(void)
{
	lock_take(&objects);
	lock_take(&backing);
}

static void two_of_one_rank(void)
{
	lock_take(&backing);
	lock_take(&other_backing);
}

static void dropped_twice(void)
{
	lock_take(&backing);
	lock_drop(&backing);
	lock_drop(&backing);
}

static void across_a_call(void)
{
	lock_take(&objects);
	lock_rank_none("cuMemAlloc_v2");
}

static void *take_backing(void *arg)
{
	lock_take(&backing);
	lock_drop(&backing);
	return NULL;
}

static void by_another_thread(void)
{
	pthread_t thread;

	lock_take(&objects);
	CHECK_EQ(pthread_create(&thread, NULL, take_backing, NULL), 0);
	CHECK_EQ(pthread_join(thread, NULL), 0);
	lock_drop(&objects);
}

/* Returns the words with which a child that calls it is stopped; "" if it comes to its end. */
static const char *stopped(void (*call)(void))
{
	static char said[256];
	size_t n = 0;
	ssize_t more;
	int fds[2], status;

	CHECK_EQ(pipe(fds), 0);
	if (fork() == 0) {
		dup2(fds[1], 2);
		call();
		_exit(0);
	}
	close(fds[1]);
	while ((more = read(fds[0], said + n, sizeof(said) - 1 - n)) > 0)
		n += (size_t)more;
	said[n] = '\0';
	close(fds[0]);
	CHECK(wait(&status) > 0);
	CHECK(n ? WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT : status == 0);
	return said;
}

int main(void)
{
	_Static_assert(sizeof(struct lock_backing) == sizeof(uint32_t), "a rank takes no byte");
	CHECK(!*stopped(in_order));
	CHECK(!*stopped(by_another_thread));
	CHECK(strstr(stopped(out_of_order), "backing is taken out of order; this thread holds objects:"));
	CHECK(strstr(stopped(two_of_one_rank), "backing is taken out of order; this thread holds backing:"));
	CHECK(strstr(stopped(dropped_twice), "backing is dropped; this thread holds no lock:"));
	CHECK(strstr(stopped(across_a_call), "cuMemAlloc_v2 is called; this thread holds objects:"));
	return 0;
}
