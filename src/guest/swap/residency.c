/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/swap/residency.h"

#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/futex.h"
#include "base/now.h"
#include "base/pages.h"
#include "base/word.h"
#include "guest/process/thread.h"
#include "ledger/policy.h"
#include "ledger/role/role_file.h"
#include "roles/residency_host.h"
#include "sched/tuning.h"

#ifndef SYS_close_range
#define SYS_close_range 436
#endif
#ifndef CLOSE_RANGE_UNSHARE
#define CLOSE_RANGE_UNSHARE (1U << 1)
#endif

struct residency {
	struct guest *guest;
	struct residency_host *host;
	struct policy policy; /* as it was last read */
};

/* A tenant that is to leave when it is idle looks this often if its role holder is dead: nobody rings. */
static uint64_t residency_look_again_ns(struct residency *residency)
{
	if (policy_read(residency->guest->policy_map, &residency->policy) ||
	    !residency->policy.idle_s)
		return UINT64_MAX;
	return now_monotonic_ns() + residency->policy.idle_s * NS_PER_S;
}

/*
 * The role holder may die, or be stopped; a process that waits finds that out. A waiting process
 * that takes no turns itself has rung, so all others look whether the role holder heard it.
 */
static uint64_t residency_patience_ns(struct residency *residency, bool rung)
{
	if (word_check(&residency->guest->use->waiting))
		return now_monotonic_ns() + TUNING_RESIDENCY_ELECT_NS;
	if (rung)
		return now_monotonic_ns() + TUNING_RESIDENCY_SILENT_NS;
	residency_host_look_away(residency->host);
	return residency_look_again_ns(residency);
}

/*
 * This thread has descriptors of its own. It takes locks by files that it opens for a moment: a child that
 * the program forks just then would have the file, and so the lock, for as long as it lives. (It calls
 * no driver, whose descriptors it would miss. Linux before 5.9 does not know it.)
 */
static void residency_part_files(void)
{
	syscall(SYS_close_range, 0U, ~0U, CLOSE_RANGE_UNSHARE);
}

static void *residency_watch(void *arg)
{
	struct residency *residency = arg;
	uint32_t *bell = role_file_bell(residency_host_file(residency->host));

	/* For people who look at a program's threads. */
	prctl(PR_SET_NAME, "allot-residency");
	residency_part_files();
	for (uint32_t heard = word_check(bell);;) {
		uint32_t rung = word_check(bell);
		uint64_t until = UINT64_MAX, now = now_monotonic_ns();

		if (residency_host_take(residency->host, now))
			until = residency_host_step(residency->host, now);
		if (until == UINT64_MAX || residency_host_gives_way(residency->host)) {
			residency_host_drop(residency->host);
			until = residency_patience_ns(residency, rung != heard);
		}
		heard = rung;
		futex_wait_until(bell, rung, until);
	}
	return NULL;
}

void residency_start(struct guest *guest)
{
	struct residency *residency = pages_map(sizeof(*residency));

	if (!residency)
		return;
	residency->guest = guest;
	/* Without it `allot resume` brings back what left. */
	if (residency_host_open(guest->dir, &residency->host))
		return;
	if (!thread_start(residency_watch, residency))
		atomic_store(&guest->residency, residency_host_file(residency->host));
}
