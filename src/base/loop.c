/* SPDX-License-Identifier: Apache-2.0 */
#include "base/loop.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <unistd.h>

#define SOURCES 24

struct loop {
	int epoll;
	bool over;
	int n;
	struct loop_source *source[SOURCES];
};

int loop_open(struct loop **ret)
{
	struct loop *loop = calloc(1, sizeof(*loop));
	int r;

	if (!loop)
		return -ENOMEM;
	loop->epoll = epoll_create1(EPOLL_CLOEXEC);
	r = loop->epoll < 0 ? -errno : 0;
	if (r < 0)
		free(loop);
	else
		*ret = loop;
	return r;
}

void loop_close(struct loop *loop)
{
	if (loop)
		close(loop->epoll);
	free(loop);
}

int loop_add(struct loop *loop, struct loop_source *source)
{
	struct epoll_event event = {.events = EPOLLIN, .data.ptr = source};

	if (loop->n == SOURCES)
		return -ENOSPC;
	if (epoll_ctl(loop->epoll, EPOLL_CTL_ADD, source->fd, &event) < 0)
		return -errno;
	loop->source[loop->n++] = source;
	return 0;
}

void loop_remove(struct loop *loop, const struct loop_source *source)
{
	for (int i = 0; i < loop->n; i++) {
		if (loop->source[i] != source)
			continue;
		epoll_ctl(loop->epoll, EPOLL_CTL_DEL, source->fd, NULL);
		loop->source[i] = loop->source[--loop->n];
		return;
	}
}

static int loop_timeout_ms(const struct loop *loop)
{
	int least = -1;

	for (int i = 0; i < loop->n; i++) {
		struct loop_source *s = loop->source[i];
		int ms = s->timeout_ms ? s->timeout_ms(s) : -1;

		if (ms >= 0 && (least < 0 || ms < least))
			least = ms;
	}
	return least;
}

static void loop_wake_late(const struct loop *loop)
{
	for (int i = 0; i < loop->n; i++) {
		struct loop_source *s = loop->source[i];

		if (s->timeout_ms && s->timeout_ms(s) == 0)
			s->ready(s);
	}
}

int loop_run(struct loop *loop)
{
	struct epoll_event event[SOURCES];

	while (!loop->over) {
		int n = epoll_wait(loop->epoll, event, SOURCES, loop_timeout_ms(loop));

		if (n < 0 && errno != EINTR)
			return -errno;
		for (int i = 0; i < n; i++) {
			struct loop_source *s = event[i].data.ptr;

			s->ready(s);
		}
		if (n <= 0)
			loop_wake_late(loop);
	}
	return 0;
}

void loop_end(struct loop *loop)
{
	loop->over = true;
}
