/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/turns.h"

#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "base/err.h"
#include "base/now.h"
#include "ledger/tenant.h"
#include "roles/arbiter_host.h"
#include "text/log.h"

/* The role holder sees the claim at once, and hands over after it has looked at its devices. */
#define TAKE_NS (NS_PER_MS / 2)
/* The role holder sleeps after 1 s without work; a process that works wakes it ... */
#define LINGER_NS NS_PER_S
/* ... and maps files of containers, which it keeps; every 10 s it drops those of ended tenants. */
#define REST_NS (10 * NS_PER_S)

struct turns {
	struct loop_source source; /* the role that was waited for is this daemon's */
	turns_taken *taken;
	void *arg;
	pthread_t thread;
	char runtime[PATH_MAX];
	atomic_bool held, changed;

	pthread_mutex_t lock;	   /* of what follows */
	struct arbiter_host *host; /* NULL: another daemon's end is waited for */
	bool end;
	struct devices devices;
};

static void turns_read_devices(struct turns *turns)
{
	pthread_mutex_lock(&turns->lock);
	for (unsigned int i = 0; i < turns->devices.n; i++)
		arbiter_host_know(turns->host, turns->devices.list[i].uuid);
	pthread_mutex_unlock(&turns->lock);
}

/* The claim is kept: no tenant takes the role meanwhile. */
static void turns_take_in(struct turns *turns)
{
	if (!atomic_exchange(&turns->changed, false))
		return;
	arbiter_host_drop(turns->host);
	turns_read_devices(turns);
}

static bool turns_is_over(struct turns *turns)
{
	bool end;

	pthread_mutex_lock(&turns->lock);
	end = turns->end;
	pthread_mutex_unlock(&turns->lock);
	return end;
}

static int turns_claim(struct turns *turns)
{
	struct arbiter_host *host;
	int r = arbiter_host_claim(turns->runtime, &host);

	if (r < 0)
		return r;
	pthread_mutex_lock(&turns->lock);
	turns->host = host;
	pthread_mutex_unlock(&turns->lock);
	turns_read_devices(turns);
	return 0;
}

static uint64_t turns_step(struct turns *turns, uint64_t now_ns, uint64_t *worked_ns)
{
	uint64_t next;

	if (!arbiter_host_take(turns->host, now_ns))
		return now_ns + TAKE_NS;
	atomic_store(&turns->held, true);
	next = arbiter_host_step(turns->host, now_ns);
	if (arbiter_host_busy(turns->host))
		*worked_ns = now_ns;
	if (now_ns <= *worked_ns + LINGER_NS)
		return next;
	return arbiter_host_rest(turns->host) ? now_ns + REST_NS : UINT64_MAX;
}

static void turns_decide(struct turns *turns)
{
	uint64_t worked_ns = now_monotonic_ns();

	prctl(PR_SET_NAME, "allotd-turns");
	/* The usual 50 us are a percent of a turn. */
	prctl(PR_SET_TIMERSLACK, 1000);
	for (;;) {
		uint64_t next;

		arbiter_host_listen(turns->host);
		if (turns_is_over(turns))
			break;
		turns_take_in(turns);
		next = turns_step(turns, now_monotonic_ns(), &worked_ns);
		arbiter_host_sleep(turns->host, next);
	}
}

static void *turns_watch(void *arg)
{
	struct turns *turns = arg;
	const uint64_t one = 1;
	int r = 0;

	while (!turns->host && r == 0) {
		r = arbiter_host_await(turns->runtime);
		if (r == 0)
			r = turns_claim(turns);
		if (r == -EAGAIN) /* a third one was faster */
			r = 0;
		else if (r == 0 && write(turns->source.fd, &one, sizeof(one)) != sizeof(one))
			r = err_errno();
	}
	if (r < 0)
		log_line(LOG_FAULT, "another allotd's end cannot be waited for in %s: %s",
			 turns->runtime, strerror(-r));
	else
		turns_decide(turns);
	return NULL;
}

static void turns_tell(struct loop_source *source)
{
	struct turns *turns = (struct turns *)source;
	uint64_t n;

	if (read(source->fd, &n, sizeof(n)) == sizeof(n))
		turns->taken(turns->arg);
}

static void turns_free(struct turns *turns)
{
	if (turns->source.fd >= 0)
		close(turns->source.fd);
	arbiter_host_close(turns->host);
	free(turns);
}

int turns_start(const char *runtime, const struct devices *devices, struct loop *loop,
		turns_taken *taken, void *arg, struct turns **ret)
{
	struct turns *turns = calloc(1, sizeof(*turns));
	int r = turns ? tenant_make_runtime(runtime) : -ENOMEM;
	bool waits = false;

	if (!turns)
		return r;
	*turns = (struct turns){
		.source = {.fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK), .ready = turns_tell},
		.taken = taken,
		.arg = arg,
		.devices = *devices,
		.lock = PTHREAD_MUTEX_INITIALIZER};
	snprintf(turns->runtime, sizeof(turns->runtime), "%s", runtime);
	if (!r)
		r = turns_claim(turns);
	waits = r == -EAGAIN;
	if (waits)
		r = turns->source.fd < 0 ? -ENFILE : loop_add(loop, &turns->source);
	if (!r)
		r = -pthread_create(&turns->thread, NULL, turns_watch, turns);
	if (r < 0) {
		turns_free(turns);
		return r;
	}
	*ret = turns;
	return waits;
}

static void turns_ring(struct turns *turns)
{
	if (turns->host)
		arbiter_host_ring(turns->host);
}

void turns_know(struct turns *turns, const struct devices *devices)
{
	if (!turns)
		return;
	pthread_mutex_lock(&turns->lock);
	turns->devices = *devices;
	atomic_store(&turns->changed, true);
	turns_ring(turns);
	pthread_mutex_unlock(&turns->lock);
}

void turns_end(struct turns *turns)
{
	bool waits;

	if (!turns)
		return;
	pthread_mutex_lock(&turns->lock);
	turns->end = true;
	waits = !turns->host;
	turns_ring(turns);
	pthread_mutex_unlock(&turns->lock);
	/*
	 * Nothing wakes a thread that waits for a lock: the process ends, and the thread with it.
	 */
	if (waits)
		return;
	pthread_join(turns->thread, NULL);
	turns_free(turns);
}

bool turns_held(const struct turns *turns)
{
	return turns && atomic_load(&turns->held);
}
