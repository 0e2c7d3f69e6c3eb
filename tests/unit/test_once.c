/* SPDX-License-Identifier: Apache-2.0 */
/* Of threads that begin together one does it; the others return when it is done, and see it. */
#include "guest/process/once.h"

#include <errno.h>
#include <pthread.h>

#include "base/now.h"
#include "tests/check.h"

#define THREADS 8
#define ROUNDS	2000

static struct once once[ROUNDS];
static int made[ROUNDS]; /* plain: written before once_end, read after once_begin */
static _Atomic int makers[ROUNDS];

static void *begin_all(void *arg)
{
	for (int i = 0; i < ROUNDS; i++) {
		if (once_begin(&once[i])) {
			atomic_fetch_add(&makers[i], 1);
			made[i] = i + 1;
			once_end(&once[i], -i);
		}
		CHECK_EQ(made[i], i + 1);
		CHECK_EQ(once[i].error, -i);
	}
	return NULL;
}

static void check_threads(void)
{
	pthread_t thread[THREADS];

	for (int i = 0; i < THREADS; i++)
		CHECK_EQ(pthread_create(&thread[i], NULL, begin_all, NULL), 0);
	for (int i = 0; i < THREADS; i++)
		CHECK_EQ(pthread_join(thread[i], NULL), 0);
	for (int i = 0; i < ROUNDS; i++)
		CHECK_EQ(makers[i], 1);
}

static void *end(void *arg)
{
	once_end(arg, -EIO);
	return NULL;
}

static void check_wait(void)
{
	struct once o = {.state = ONCE_NOT_YET};
	pthread_t thread;

	CHECK(once_wait_until(&o, 0)); /* nobody has begun: nothing to wait for */
	CHECK(once_take(&o));
	CHECK(!once_take(&o));
	CHECK(!once_wait_until(&o, now_monotonic_ns() + 1000000));
	CHECK_EQ(pthread_create(&thread, NULL, end, &o), 0);
	CHECK(once_wait_until(&o, UINT64_MAX));
	CHECK_EQ(pthread_join(thread, NULL), 0);
	CHECK_EQ(o.error, -EIO);
	CHECK(once_wait_until(&o, 0));
	CHECK(!once_begin(&o));
}

int main(void)
{
	check_threads();
	check_wait();
	return 0;
}
