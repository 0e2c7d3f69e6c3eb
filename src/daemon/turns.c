/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/turns.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/prctl.h>

#include "base/now.h"
#include "ledger/tenant.h"
#include "roles/arbiter_host.h"

/* Who has the role hears of the claim at once, and hands over when it has looked at its devices. */
#define TAKE_NS (NS_PER_MS / 2)
/* When nobody has worked for so long it sleeps. Who works rings ... */
#define LINGER_NS NS_PER_S
/* ... and files of containers, which it keeps, are looked at so often, so that those that ended go. */
#define REST_NS (10 * NS_PER_S)

struct turns {
	pthread_t thread;
	struct arbiter_host *host;
	atomic_bool end, held, changed;
	pthread_mutex_t lock; /* of what follows */
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

static void *turns_watch(void *arg)
{
	struct turns *turns = arg;
	uint64_t worked_ns = now_monotonic_ns();

	prctl(PR_SET_NAME, "allotd-turns");
	/* The usual 50 us are a percent of a turn. */
	prctl(PR_SET_TIMERSLACK, 1000);
	for (;;) {
		uint64_t next;

		arbiter_host_listen(turns->host);
		if (atomic_load(&turns->end))
			break;
		turns_take_in(turns);
		next = turns_step(turns, now_monotonic_ns(), &worked_ns);
		arbiter_host_sleep(turns->host, next);
	}
	return NULL;
}

int turns_start(const char *runtime, const struct devices *devices, struct turns **ret)
{
	struct turns *turns = calloc(1, sizeof(*turns));
	int r = turns ? tenant_make_runtime(runtime) : -ENOMEM;

	if (!r)
		r = arbiter_host_claim(runtime, &turns->host);
	if (!r) {
		pthread_mutex_init(&turns->lock, NULL);
		turns->devices = *devices;
		turns_read_devices(turns);
		r = -pthread_create(&turns->thread, NULL, turns_watch, turns);
		if (r < 0)
			arbiter_host_close(turns->host);
	}
	if (r < 0)
		free(turns);
	else
		*ret = turns;
	return r;
}

void turns_know(struct turns *turns, const struct devices *devices)
{
	if (!turns)
		return;
	pthread_mutex_lock(&turns->lock);
	turns->devices = *devices;
	pthread_mutex_unlock(&turns->lock);
	atomic_store(&turns->changed, true);
	arbiter_host_ring(turns->host);
}

void turns_end(struct turns *turns)
{
	if (!turns)
		return;
	atomic_store(&turns->end, true);
	arbiter_host_ring(turns->host);
	pthread_join(turns->thread, NULL);
	arbiter_host_close(turns->host);
	free(turns);
}

bool turns_held(const struct turns *turns)
{
	return turns && atomic_load(&turns->held);
}
