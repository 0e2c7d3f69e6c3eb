/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
#include "criu/gpu/mover.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/number.h"

/* --- Threads, where there is no engine -------------------------------------------------------- */

static int mover_touch(struct mover *m, const struct mover_request *r)
{
	const struct kfd_place place = {m->minor, m->dmabuf, m->bytes, true};

	return r->out ? kfd_calls.write(&place, r->offset, r->memory, r->bytes)
		      : kfd_calls.read(&place, r->offset, r->memory, r->bytes);
}

static void *mover_work(void *arg)
{
	struct mover_request *r = arg;
	struct mover *m = r->mover;
	int result;

	pthread_mutex_lock(&m->lock);
	for (;;) {
		while (!r->asked && !m->ending)
			pthread_cond_wait(&m->change, &m->lock);
		if (!r->asked)
			break;
		r->asked = false;
		pthread_mutex_unlock(&m->lock);
		result = mover_touch(m, r);
		pthread_mutex_lock(&m->lock);
		r->result = result;
		r->done = true;
		pthread_cond_broadcast(&m->change);
	}
	pthread_mutex_unlock(&m->lock);
	return NULL;
}

/* The signals of the process that we are in are not for our threads. */
static int mover_start_thread(struct mover *m, struct mover_request *r)
{
	sigset_t all, before;
	int e;

	if (r->started)
		return 0;
	if (!r->memory)
		r->memory = malloc(ENGINE_PART);
	if (!r->memory)
		return -ENOMEM;
	r->mover = m;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	e = pthread_create(&r->thread, NULL, mover_work, r);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	/* Else the caller copies itself: EAGAIN would be "later" up there, for ever. */
	r->started = !e;
	return 0;
}

static void mover_ask_thread(struct mover *m, struct mover_request *r)
{
	if (!r->started) {
		r->result = mover_touch(m, r);
		r->done = true;
		return;
	}
	pthread_mutex_lock(&m->lock);
	r->done = false;
	r->asked = true;
	pthread_cond_broadcast(&m->change);
	pthread_mutex_unlock(&m->lock);
}

static int mover_await_thread(struct mover *m, struct mover_request *r)
{
	pthread_mutex_lock(&m->lock);
	while (!r->done)
		pthread_cond_wait(&m->change, &m->lock);
	pthread_mutex_unlock(&m->lock);
	return r->result;
}

static void mover_end_threads(struct mover *m)
{
	pthread_mutex_lock(&m->lock);
	m->ending = true;
	pthread_cond_broadcast(&m->change);
	pthread_mutex_unlock(&m->lock);
	for (int i = 0; i < ENGINE_REQUESTS; i++) {
		if (m->request[i].started)
			pthread_join(m->request[i].thread, NULL);
		free(m->request[i].memory);
	}
}

/* --- Requests --------------------------------------------------------------------------------- */

static char *mover_memory(const struct mover *m, uint32_t i)
{
	return m->by_engine ? engine_staging(&m->engine, i) : m->request[i].memory;
}

static void mover_count_request(struct mover *m, uint64_t bytes)
{
	struct mover_count *count = &m->count;
	uint32_t used = 0;

	*(m->by_engine ? &count->engine_bytes : &count->cpu_bytes) += bytes;
	++*(m->by_engine ? &count->engine_requests : &count->cpu_requests);
	for (int i = 0; i < ENGINE_REQUESTS; i++)
		used += m->request[i].used;
	count->most = used > count->most ? used : count->most;
}

/* A free request is used. Its memory is filled, if it is a write. */
static int mover_start(struct mover *m, uint32_t i, uint64_t offset, uint64_t bytes, bool out)
{
	struct mover_request *r = &m->request[i];
	int e = 0;

	r->offset = offset;
	r->bytes = bytes;
	r->out = out;
	if (m->by_engine)
		e = engine_submit(&m->engine, i, offset, bytes, out);
	else
		mover_ask_thread(m, r);
	if (e < 0)
		return e;
	r->used = true;
	mover_count_request(m, bytes);
	return 0;
}

static int mover_await(struct mover *m, uint32_t i)
{
	struct mover_request *r = &m->request[i];

	if (!r->used)
		return 0;
	r->used = false;
	return m->by_engine ? engine_await(&m->engine, i) : mover_await_thread(m, r);
}

/* Of reads that nobody wants any more no error matters. */
int mover_flush(struct mover *m)
{
	int first = 0;

	for (uint32_t i = 0; m->open && i < ENGINE_REQUESTS; i++) {
		bool out = m->request[i].out;
		int r = mover_await(m, i);

		if (r < 0 && out && first == 0)
			first = r;
	}
	return first;
}

/* The place of the next request, which is free then. */
static int mover_take(struct mover *m, uint32_t *ret)
{
	uint32_t i = m->next;
	bool out = m->request[i].out;
	int r = mover_await(m, i);

	if (r < 0 && out)
		return r;
	r = m->by_engine ? 0 : mover_start_thread(m, &m->request[i]);
	if (r < 0)
		return r;
	m->next = (i + 1) % ENGINE_REQUESTS;
	*ret = i;
	return 0;
}

/* --- Open ------------------------------------------------------------------------------------- */

static int mover_open(struct mover *m, uint32_t minor)
{
	struct engine engine;
	int r = engine_open(&engine, minor);

	if (r < 0 && !engine_is_needless(minor))
		return -ENODEV;
	*m = (struct mover){.open = true, .by_engine = r == 0, .minor = minor, .dmabuf = -EBADF,
			    .count = m->count};
	if (r == 0)
		m->engine = engine;
	pthread_mutex_init(&m->lock, NULL);
	pthread_cond_init(&m->change, NULL);
	return 0;
}

struct mover_count mover_close(struct mover *m)
{
	const struct mover_count count = m->count;

	if (m->open) {
		mover_flush(m);
		if (!m->by_engine)
			mover_end_threads(m);
		engine_close(&m->engine);
		if (m->dmabuf >= 0)
			close(m->dmabuf);
		pthread_cond_destroy(&m->change);
		pthread_mutex_destroy(&m->lock);
	}
	*m = (struct mover){.open = false};
	return count;
}

/* Requests under way are of the last buffer, and done before. */
static int mover_have(struct mover *m, int dmabuf, uint64_t bytes)
{
	struct stat st;
	int r;

	if (fstat(dmabuf, &st) < 0)
		return err_errno();
	if (m->inode == st.st_ino)
		return 0;
	r = mover_flush(m);
	m->inode = 0;
	if (m->dmabuf >= 0)
		close(m->dmabuf);
	m->dmabuf = fcntl(dmabuf, F_DUPFD_CLOEXEC, 0); /* the caller may close its own */
	if (r == 0 && m->dmabuf < 0)
		r = err_errno();
	if (r == 0 && m->by_engine)
		r = engine_have(&m->engine, m->dmabuf);
	if (r < 0)
		return r;
	m->inode = st.st_ino;
	m->bytes = bytes;
	return 0;
}

static int mover_prepare(struct mover *m, const struct kfd_place *place, uint64_t offset,
			 uint64_t len)
{
	int r = 0;

	if (m->open && m->minor != place->minor) {
		r = mover_flush(m);
		m->count = mover_close(m);
	}
	if (r == 0 && !m->open)
		r = mover_open(m, place->minor);
	if (r == 0)
		r = mover_have(m, place->dmabuf, place->bytes);
	if (r == 0 && (offset > m->bytes || len > m->bytes - offset))
		r = -EINVAL;
	return r;
}

/* --- Parts ------------------------------------------------------------------------------------ */

/* The request by which a part is on its way, or -1. */
static int mover_find(const struct mover *m, uint64_t offset, uint64_t len)
{
	for (int i = 0; i < ENGINE_REQUESTS; i++) {
		const struct mover_request *r = &m->request[i];

		if (r->used && !r->out && r->offset == offset && r->bytes >= len)
			return i;
	}
	return -1;
}

/* Asks for the part, where it was not read ahead, and for those behind it. */
static int mover_ask_from(struct mover *m, uint64_t offset, uint64_t len, uint32_t *ret)
{
	int found = mover_find(m, offset, len), r = 0;
	uint64_t at = offset;

	if (found < 0) {
		r = mover_flush(m);
		m->next = 0;
		found = 0;
	}
	for (int i = 0; r == 0 && i < ENGINE_REQUESTS && at < m->bytes; i++) {
		uint64_t n = min_u64(ENGINE_PART, m->bytes - at);
		uint32_t next;

		if (mover_find(m, at, n) < 0) {
			r = mover_take(m, &next);
			if (r == 0)
				r = mover_start(m, next, at, n, false);
		}
		at += n;
	}
	*ret = (uint32_t)found;
	return r;
}

int mover_read(struct mover *m, const struct kfd_place *place, uint64_t offset, void *memory,
	       size_t len)
{
	int r = mover_prepare(m, place, offset, len);

	for (uint64_t at = 0, n; r == 0 && at < len; at += n) {
		uint32_t i;

		n = min_u64(len - at, ENGINE_PART);
		r = mover_ask_from(m, offset + at, n, &i);
		if (r == 0)
			r = mover_await(m, i);
		if (r == 0)
			memcpy((char *)memory + at, mover_memory(m, i), n);
	}
	return r;
}

int mover_write(struct mover *m, const struct kfd_place *place, uint64_t offset, const void *memory,
		size_t len)
{
	int r = mover_prepare(m, place, offset, len);

	for (uint64_t at = 0, n; r == 0 && at < len; at += n) {
		uint32_t i;

		n = min_u64(len - at, ENGINE_PART);
		r = mover_take(m, &i);
		if (r < 0)
			break;
		if (memory)
			memcpy(mover_memory(m, i), (const char *)memory + at, n);
		else
			memset(mover_memory(m, i), 0, n);
		r = mover_start(m, i, offset + at, n, true);
	}
	return r;
}
