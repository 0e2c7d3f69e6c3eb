/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ten thousand processes die by SIGKILL, at every fault point of an admission and at random, beside
 * neighbours that go on. After each batch the ledger must agree with a model: what the live
 * processes hold of a "driver" that takes back what the dead held.
 */
#include <linux/futex.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include "base/fault.h"
#include "base/now.h"
#include "base/word.h"
#include "ledger/shared.h"
#include "tests/unit/tenant_fixture.h"

#define KILLS      10000
#define BATCH      4
#define NEIGHBOURS 2
#define BLOCKS     8 /* that one process holds at most */
#define LIMIT      (64 * MIB)
#define HANG_NS    UINT64_C(20000000000) /* whoever waits, waits a second; the rest is load */

enum { FIRST_POINT = FAULT_SLOT_LOCKED, LAST_POINT = FAULT_SHARED_DROPPED };
#define POINTS (LAST_POINT - FIRST_POINT + 1)

/* What a process has from the driver: written by it alone, dropped by the test when it dies. */
struct actor {
	uint64_t held; /* in its row */
	uint64_t ops;
	uint64_t longest_ns;
	uint64_t block[BLOCKS];
	bool shared; /* holds the object below */
	bool survived;
	unsigned int seed;
	struct slot *slot;
};

struct world {
	uint32_t pause;  /* odd: neighbours stop; a futex word */
	uint32_t parked; /* times that a neighbour stopped, ever */
	uint32_t stop;
	struct actor neighbour[NEIGHBOURS], victim[BATCH];
};

#define SHARED_BYTES (3 * MIB)
static const struct shared_key shared_key = { { 47, 11 } };
static char dir[PATH_MAX];

static void allocate(struct actor *a, uint64_t *block)
{
	uint64_t bytes = (uint64_t)(rand_r(&a->seed) % 12 + 1) * MIB;

	if (quota_reserve(a->slot, 0, bytes, LIMIT) < 0 &&
	    quota_reserve_slow(a->slot, 0, bytes, LIMIT) < 0)
		return;
	if (rand_r(&a->seed) % 8 == 0) {
		quota_cancel(a->slot, 0, bytes);
		return;
	}
	*block = bytes;
	a->held += bytes;
	quota_commit(a->slot, 0, bytes, CAT_DATA, bytes);
}

static void release(struct actor *a, uint64_t *block)
{
	uint64_t bytes = *block;

	*block = 0;
	a->held -= bytes;
	quota_release(a->slot, 0, CAT_DATA, bytes);
}

static void step(struct actor *a)
{
	uint64_t *block = &a->block[rand_r(&a->seed) % BLOCKS], start = now_monotonic_ns(), ns;

	if (rand_r(&a->seed) % 16 != 0) {
		if (*block)
			release(a, block);
		else
			allocate(a, block);
	} else if (a->shared) {
		a->shared = false;
		CHECK_EQ(shared_drop(a->slot, shared_key), 0);
	} else {
		a->shared = shared_add(a->slot, shared_key, 0, SHARED_BYTES, CAT_IMPORTED, 0,
				       LIMIT) == 0;
	}
	ns = now_monotonic_ns() - start;
	if (ns > a->longest_ns)
		a->longest_ns = ns;
	a->ops++;
}

/* Works while `pause` is even, and reports once for every odd value. */
static void live_on(struct world *w, struct actor *a)
{
	uint32_t parked_at = 0;

	a->slot = fixture_join(dir);
	while (!word_acquire(&w->stop)) {
		uint32_t pause = word_acquire(&w->pause);

		if (pause % 2 == 0) {
			step(a);
			continue;
		}
		if (pause != parked_at)
			__atomic_add_fetch(&w->parked, 1, __ATOMIC_SEQ_CST);
		parked_at = pause;
		syscall(SYS_futex, &w->pause, FUTEX_WAIT, pause, NULL, NULL, 0);
	}
}

static void live_and_die(struct actor *a, const char *fault)
{
	CHECK_EQ(fault_arm(fault), 0);
	a->slot = fixture_join(dir);
	for (int i = 0; i < 300; i++) {
		step(a);
		/* Leaving and coming again: the steps of a claim are among those to die in. */
		if (rand_r(&a->seed) % 32 == 0) {
			memset(a->block, 0, sizeof(a->block));
			a->held = 0;
			a->shared = false;
			ledger_close(slot_ledger(a->slot));
			a->slot = fixture_join(dir);
		}
	}
	fault_arm(NULL);
	a->survived = true;
	kill(getpid(), SIGKILL);
}

static pid_t start_victim(struct actor *a, unsigned int seed, int point)
{
	char fault[64] = "";
	pid_t pid;

	if (point >= 0)
		snprintf(fault, sizeof(fault), "%s:%u", fault_name((enum fault_point)point),
			 seed % 3 ? 1 : seed % 17 + 1);
	*a = (struct actor){ .seed = seed };
	pid = fixture_fork();
	if (pid == 0)
		live_and_die(a, fault);
	return pid;
}

/* With everybody parked and all victims dead. */
static void check_books(struct world *w, struct slot *observer, bool reclaim)
{
	struct ledger *l = slot_ledger(observer);
	uint64_t held = 0;
	bool shared = false;

	for (int i = 0; i < NEIGHBOURS; i++) {
		struct actor *a = &w->neighbour[i];
		struct quota_row row;

		CHECK_EQ(quota_process(l, i + 1, 0, &row), 0);
		CHECK_EQ(row.used[CAT_DATA], a->held);
		CHECK_EQ(row.pending, 0);
		CHECK(a->longest_ns < HANG_NS);
		held += a->held;
		shared = shared || a->shared;
	}
	held += shared ? SHARED_BYTES : 0;
	CHECK(held <= LIMIT);
	CHECK_EQ(quota_used_live(l, 0), held);
	CHECK(quota_used(l, 0) >= held);
	if (!reclaim)
		return;
	CHECK(quota_reclaim(l) >= 0);
	CHECK_EQ(quota_used(l, 0), held);
	CHECK_EQ(quota_reserve(observer, 0, LIMIT - held, LIMIT), 0);
	quota_cancel(observer, 0, LIMIT - held);
}

static void wait_parked(struct world *w, uint32_t n)
{
	while (word_acquire(&w->parked) < n)
		sched_yield();
}

int main(void)
{
	struct slot *observer = fixture_join(fixture_tenant("kill"));
	unsigned int hits[FAULT_POINT_N] = { 0 }, random_kills = 0, kills = 0, parked = 0;
	pid_t neighbours[NEIGHBOURS], pid[BATCH];
	unsigned int seed = 4711, next = 0;
	struct world *w;
	uint64_t ops = 0;

#ifndef ALLOT_FAULT_POINTS
	SKIP("fault points are not compiled in");
#endif
	snprintf(dir, sizeof(dir), "%s/kill", fixture_runtime_dir());
	w = mmap(NULL, sizeof(*w), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	CHECK(w != MAP_FAILED);
	for (int i = 0; i < NEIGHBOURS; i++) {
		w->neighbour[i].seed = (unsigned int)i;
		neighbours[i] = fixture_fork();
		if (neighbours[i] == 0) {
			live_on(w, &w->neighbour[i]);
			_exit(0);
		}
		/* In this order, so that neighbour i has slot i + 1. */
		while (!slot_alive(slot_ledger(observer), i + 1) || !w->neighbour[i].ops)
			sched_yield();
	}
	while (kills < KILLS) {
		int point[BATCH];

		for (int i = 0; i < BATCH; i++) {
			point[i] = i % 2 ? -1 : FIRST_POINT + (int)(next++ % POINTS);
			pid[i] = start_victim(&w->victim[i], (unsigned int)rand_r(&seed), point[i]);
		}
		for (int i = 0; i < BATCH; i++) {
			if (point[i] >= 0)
				continue;
			for (volatile int spin = rand_r(&seed) % 100000; spin > 0; spin--)
				;
			kill(pid[i], SIGKILL);
		}
		for (int i = 0; i < BATCH; i++) {
			fixture_wait(pid[i], SIGKILL);
			kills++;
			if (point[i] >= 0 && !w->victim[i].survived)
				hits[point[i]]++;
			else
				random_kills++;
			CHECK(w->victim[i].longest_ns < HANG_NS);
		}
		__atomic_add_fetch(&w->pause, 1, __ATOMIC_SEQ_CST);
		parked += NEIGHBOURS;
		wait_parked(w, parked);
		check_books(w, observer, kills % (10 * BATCH) == 0);
		__atomic_add_fetch(&w->pause, 1, __ATOMIC_SEQ_CST);
		syscall(SYS_futex, &w->pause, FUTEX_WAKE, NEIGHBOURS, NULL, NULL, 0);
	}
	word_release(&w->stop, 1);
	for (int i = 0; i < NEIGHBOURS; i++) {
		fixture_wait(neighbours[i], 0);
		ops += w->neighbour[i].ops;
	}
	printf("%u kills, %u of them at random; neighbours did %llu calls\n", kills, random_kills,
	       (unsigned long long)ops);
	for (int p = FIRST_POINT; p <= LAST_POINT; p++) {
		printf("%6u  %s\n", hits[p], fault_name((enum fault_point)p));
		/* These two happen once in the life of a tenant's device; see test_ledger. */
		if (p != FAULT_DEVICE_HALF_NAMED && p != FAULT_DEVICE_NAMED)
			CHECK(hits[p] > 0);
	}
	ledger_close(slot_ledger(observer));
	return 0;
}
