/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Waiting for a change. Three words of the policy are futexes, which their writers wake: the
 * generation of the limits, the request to move memory, the number of the last notice.
 */
#include <errno.h>
#include <pthread.h>

#include "base/cancel.h"
#include "base/futex.h"
#include "base/now.h"
#include "base/number.h"
#include "base/word.h"
#include "ledger/swap.h"
#include "tenant/handle.h"

/*
 * A writer that was killed behind its change woke nobody, and no word changes where a requester dies,
 * or a tenant comes or goes.
 */
#define WATCH_LOOK_NS NS_PER_S
/* A kernel before 5.16 sleeps on one word at a time. */
#define WATCH_POLL_NS (20 * NS_PER_MS)

static uint32_t watch_changes(const struct handle_told *then, const struct handle_told *now)
{
	uint32_t changes = 0;

	if (now->key != then->key)
		return ALLOT_TENANT_CAME | (now->announced ? ALLOT_TENANT_NOTICE : 0);
	if (now->generation != then->generation)
		changes |= ALLOT_TENANT_LIMITS;
	if (now->place != then->place)
		changes |= ALLOT_TENANT_MOVED;
	if (now->notice != then->notice)
		changes |= ALLOT_TENANT_NOTICE;
	return changes;
}

static bool watch_is_announced(const struct allot_tenant *tenant)
{
	return swap_notice_left_ns(tenant->map, now_monotonic_ns()) > 0;
}

/*
 * Takes the lock, not before the notice that the process is ready for has passed. The requester of a
 * notice that was given before waits for the lock, too, so the next wait tells that one.
 */
static int watch_listen(struct allot_tenant *tenant)
{
	uint32_t notice;
	int r;

	if (!tenant->map || tenant->ear)
		return 0;
	notice = word_acquire(swap_notice(tenant->map));
	if (notice == tenant->answered && watch_is_announced(tenant))
		return 0;
	r = swap_listen(tenant->dir, &tenant->ear);
	if (r < 0)
		return r;
	notice = word_acquire(swap_notice(tenant->map));
	if (watch_is_announced(tenant))
		tenant->told.notice = notice - 1;
	return 0;
}

/* Sleeps. False: a signal handler ran. */
static bool watch_sleep_on(const struct allot_tenant *tenant, const struct futex_seen seen[3],
			   uint64_t until_ns)
{
	static const uint32_t nothing;

	errno = 0;
	if (!tenant->map)
		futex_wait_until(&nothing, 0, until_ns);
	else if (futex_wait_any_until(seen, 3, until_ns) == -ENOSYS) {
		errno = 0;
		futex_wait_until(seen[0].word, seen[0].seen,
				 min_u64(until_ns, now_monotonic_ns() + WATCH_POLL_NS));
	}
	return errno != EINTR;
}

/* The thread may be cancelled here, as in a sleep of the C library's. */
static bool watch_sleep(const struct allot_tenant *tenant, const struct futex_seen seen[3],
			uint64_t until_ns, int hold)
{
	bool slept;

	cancel_release(hold);
	pthread_testcancel();
	slept = watch_sleep_on(tenant, seen, until_ns);
	pthread_testcancel();
	cancel_hold();
	return slept;
}

/* The words as they are now. A later change of one ends a sleep on them. */
static void watch_read(const struct allot_tenant *tenant, struct futex_seen ret[3])
{
	if (!tenant->map)
		return;
	ret[0].word = policy_generation_word(tenant->map);
	ret[1].word = swap_request(tenant->map);
	ret[2].word = swap_notice(tenant->map);
	for (int i = 0; i < 3; i++)
		ret[i].seen = word_acquire((const uint32_t *)ret[i].word);
}

/* Looks once. 0 with the words that were looked at, and bits where there is something to tell. */
static int watch_look(struct allot_tenant *tenant, struct futex_seen ret_seen[3],
		      uint32_t *ret_changes)
{
	struct handle_told now;
	int r = handle_attach(tenant);

	if (r)
		return r;
	/* A lock that is not to be had is none yet: the next look tries again. */
	if (tenant->listens)
		(void)watch_listen(tenant);
	watch_read(tenant, ret_seen);
	now = handle_now(tenant);
	*ret_changes = watch_changes(&tenant->told, &now);
	tenant->told = now;
	return 0;
}

static int watch_wait(struct allot_tenant *tenant, int timeout_ms, int hold, uint32_t *ret_changes)
{
	uint64_t now_ns = now_monotonic_ns();
	uint64_t until_ns = timeout_ms < 0 ? UINT64_MAX : now_ns + (uint64_t)timeout_ms * NS_PER_MS;
	struct futex_seen seen[3];
	uint32_t changes;
	int r;

	for (;;) {
		r = watch_look(tenant, seen, &changes);
		if (r)
			return r;
		if (changes)
			break;
		now_ns = now_monotonic_ns();
		if (now_ns >= until_ns)
			return -ETIMEDOUT;
		if (!watch_sleep(tenant, seen, min_u64(until_ns, now_ns + WATCH_LOOK_NS), hold))
			return -EINTR;
	}
	*ret_changes = changes;
	return 0;
}

int allot_tenant_wait(struct allot_tenant *tenant, int timeout_ms, uint32_t *ret_changes)
{
	int hold = cancel_hold();
	int r = watch_wait(tenant, timeout_ms, hold, ret_changes);

	cancel_release(hold);
	return r;
}

/* True if the lock may be had later: another process's lock, or its descriptors, are in the way. */
static bool watch_may_hear(int r)
{
	return !r || r == -EAGAIN || r == -EMFILE || r == -ENFILE;
}

int allot_tenant_listen(struct allot_tenant *tenant)
{
	int hold = cancel_hold();
	int r = handle_attach(tenant);

	if (!r) {
		r = watch_listen(tenant);
		tenant->listens |= watch_may_hear(r);
		r = tenant->listens ? 0 : r;
	}
	cancel_release(hold);
	return r;
}

/* A later notice than the one that was told is not answered: the next wait tells it. */
static void watch_answer(struct allot_tenant *tenant)
{
	if (handle_attach(tenant) || !tenant->map)
		return;
	if (policy_key(tenant->map) != tenant->told.key)
		return;
	tenant->answered = tenant->told.notice;
	if (word_acquire(swap_notice(tenant->map)) != tenant->answered)
		return;
	swap_listen_no_more(tenant->ear);
	tenant->ear = NULL;
}

void allot_tenant_ready(struct allot_tenant *tenant)
{
	int hold = cancel_hold();

	watch_answer(tenant);
	cancel_release(hold);
}
