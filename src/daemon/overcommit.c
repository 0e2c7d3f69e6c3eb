/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/overcommit.h"

#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>

#include "base/futex.h"
#include "base/now.h"
#include "base/word.h"
#include "ledger/role/residency_file.h"
#include "ledger/role/role_file.h"
#include "roles/residency_host.h"
#include "text/log.h"

/* How often the claim is asked for while another daemon has it. */
#define CLAIM_NS NS_PER_S
/* How often the role is tried for while a tenant's process has it, which finishes its moves first. */
#define TAKE_NS (20 * NS_PER_MS)

struct overcommit {
	pthread_t thread;
	char runtime[PATH_MAX];
	uint32_t end; /* a futex */
	_Atomic(struct residency_host *) host;
};

/* While the role is held, others see that something decides: it is dropped when nobody waits. */
static uint64_t overcommit_step(struct residency_host *host)
{
	uint64_t next = residency_host_step(host, now_monotonic_ns());

	if (next == UINT64_MAX)
		residency_host_drop(host);
	return next;
}

static void overcommit_decide(struct overcommit *o, struct residency_host *host)
{
	uint32_t *bell = role_file_bell(residency_host_file(host));

	for (;;) {
		uint32_t rung = word_check(bell);

		if (word_check(&o->end)) /* the bell is rung behind it */
			return;
		if (!residency_file_is_used(o->runtime)) {
			residency_host_drop(host);
			futex_wait(bell, rung);
		} else if (residency_host_take(host, now_monotonic_ns())) {
			futex_wait_until(bell, rung, overcommit_step(host));
		} else {
			futex_wait_until(&o->end, 0, now_monotonic_ns() + TAKE_NS);
		}
	}
}

static void *overcommit_watch(void *arg)
{
	struct overcommit *o = arg;
	struct residency_host *host;
	int r;

	prctl(PR_SET_NAME, "allotd-memory");
	while ((r = residency_host_claim(o->runtime, &host)) == -EAGAIN && !word_check(&o->end))
		futex_wait_until(&o->end, 0, now_monotonic_ns() + CLAIM_NS);
	if (r == -EAGAIN)
		return NULL;
	if (r < 0) {
		log_line(LOG_FAULT, "tenants of %s decide themselves whose memory is on the devices: %s",
			 o->runtime, strerror(-r));
		return NULL;
	}
	atomic_store(&o->host, host);
	overcommit_decide(o, host);
	return NULL;
}

int overcommit_start(const char *runtime, struct overcommit **ret)
{
	struct overcommit *o = calloc(1, sizeof(*o));
	int r;

	if (!o)
		return -ENOMEM;
	snprintf(o->runtime, sizeof(o->runtime), "%s", runtime);
	r = -pthread_create(&o->thread, NULL, overcommit_watch, o);
	if (r < 0) {
		free(o);
		return r;
	}
	*ret = o;
	return 0;
}

void overcommit_end(struct overcommit *o)
{
	struct residency_host *host;

	if (!o)
		return;
	word_publish(&o->end, 1);
	futex_wake_all(&o->end);
	host = atomic_load(&o->host);
	if (host)
		role_file_ring(residency_host_file(host));
	pthread_join(o->thread, NULL);
	residency_host_close(atomic_load(&o->host));
	free(o);
}

bool overcommit_claimed(const struct overcommit *o)
{
	return o && atomic_load(&o->host);
}
