/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/site/site_file.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>

#include "tests/check.h"
#include "tests/unit/site_fixture.h"

static struct site_file file;
static int refused; /* errno of pthread_create */

int __real_pthread_create(pthread_t *ret, const pthread_attr_t *attr, void *(*run)(void *),
			  void *arg);
int __wrap_pthread_create(pthread_t *ret, const pthread_attr_t *attr, void *(*run)(void *),
			  void *arg);

/* Comes back when the thread has read the file: no thread is faster. */
int __wrap_pthread_create(pthread_t *ret, const pthread_attr_t *attr, void *(*run)(void *),
			  void *arg)
{
	struct pollfd read = {.fd = file.source.fd, .events = POLLIN};

	if (refused)
		return refused;
	CHECK_EQ(__real_pthread_create(ret, attr, run, arg), 0);
	CHECK_EQ(poll(&read, 1, 60000), 1);
	return 0;
}

/* What it said before stays in force, whatever keeps it from being read. */
static void check_unread(int why)
{
	struct loop *loop;
	struct site site = site_of("[default]\nmemory-max = 1GiB\n");

	refused = why;
	file = (struct site_file){.path = "/none/allotd.conf"};
	CHECK_EQ(loop_open(&loop), 0);
	CHECK_EQ(site_file_watch(&file, loop, &site), 0);
	site_file_reload(&file);
	if (!why)
		file.source.ready(&file.source);
	CHECK(!file.reading);
	CHECK(site_bounds(&site));
	loop_close(loop);
	site_free(&site);
}

int main(void)
{
	check_unread(0);
	check_unread(EAGAIN);
	return 0;
}
