/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two processes, again and again, want a remainder that fits one of them: never both get it,
 * never neither. A remainder on each of many devices is fought for between two barriers, in step
 * as long as both are running, so that the test competes for bytes more than for a CPU.
 */
#include <linux/futex.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include "tests/crash/race.h"
#include "tests/unit/tenant_fixture.h"

struct shared {
	uint32_t arrived; /* at the barriers, ever; a futex word */
	uint32_t progress[RACE_RACERS]; /* rounds begun */
	uint32_t wins[RACE_RACERS];
	uint32_t slow; /* wins that needed the second try */
	uint64_t won[RACE_RACERS][RACE_DEVICES]; /* bytes, in this batch */
};

/* The last to arrive finds that it completes a multiple of all. */
static void barrier(struct shared *s)
{
	uint32_t mine = __atomic_add_fetch(&s->arrived, 1, __ATOMIC_SEQ_CST), now;
	uint32_t all = (mine + RACE_RACERS - 1) / RACE_RACERS * RACE_RACERS;

	if (mine == all) {
		syscall(SYS_futex, &s->arrived, FUTEX_WAKE, RACE_RACERS, NULL, NULL, 0);
		return;
	}
	for (int i = 0; (now = __atomic_load_n(&s->arrived, __ATOMIC_SEQ_CST)) < all; i++)
		if (i > 10000)
			syscall(SYS_futex, &s->arrived, FUTEX_WAIT, now, NULL, NULL, 0);
}

/* Waits for the other to begin the same round, but not for the scheduler. */
static void fall_in(struct shared *s, int self, unsigned int *seed)
{
	uint32_t mine = __atomic_add_fetch(&s->progress[self], 1, __ATOMIC_SEQ_CST);

	for (int i = 0; i < 50000; i++)
		if (__atomic_load_n(&s->progress[!self], __ATOMIC_SEQ_CST) >= mine)
			break;
	/* Who came last starts first, by the time that a cache line travels: even that out. */
	for (volatile int skew = rand_r(seed) % 256; skew > 0; skew--)
		;
}

static void compete(struct shared *s, const struct race *r, int self, int device,
		    unsigned int *seed)
{
	uint64_t span = r->most_bytes - r->least_bytes + 1;
	uint64_t bytes = r->least_bytes + (uint64_t)rand_r(seed) % span;
	bool slow;

	fall_in(s, self, seed);
	if (!race_take(device, bytes, &slow))
		return;
	s->won[self][device] = bytes;
	s->wins[self]++;
	if (slow)
		__atomic_add_fetch(&s->slow, 1, __ATOMIC_SEQ_CST);
}

/* Each on a CPU of its own, where there are as many: woken ones tend to land beside their waker. */
static void spread(int self)
{
	cpu_set_t all, one;

	CPU_ZERO(&one);
	CHECK_EQ(sched_getaffinity(0, sizeof(all), &all), 0);
	for (int cpu = 0, n = 0; cpu < CPU_SETSIZE; cpu++)
		if (CPU_ISSET(cpu, &all) && n++ == self)
			CPU_SET(cpu, &one);
	if (CPU_COUNT(&one))
		sched_setaffinity(0, sizeof(one), &one);
}

static void run(struct shared *s, const struct race *r, int self)
{
	unsigned int seed = (unsigned int)self + 1;

	race_join();
	spread(self);
	for (int batch = 0; batch < r->batches; batch++) {
		barrier(s);
		for (int d = 0; d < r->devices; d++)
			compete(s, r, self, d, &seed);
		barrier(s);
		for (int d = 0; d < r->devices; d++) {
			CHECK(!s->won[0][d] + !s->won[1][d] == 1);
			race_check(d, s->won[0][d] + s->won[1][d]);
		}
		barrier(s);
		for (int d = 0; d < r->devices; d++) {
			if (s->won[self][d])
				race_give(d, s->won[self][d]);
			s->won[self][d] = 0;
		}
	}
	barrier(s); /* who ends first takes what is always there along */
}

int main(void)
{
	struct race r = race_begin();
	struct shared *s;
	int rounds = r.devices * r.batches, status;

	s = mmap(NULL, sizeof(*s), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	CHECK(s != MAP_FAILED);
	for (int i = 0; i < RACE_RACERS; i++) {
		if (fixture_fork() == 0) {
			run(s, &r, i);
			_exit(0);
		}
	}
	/* Whichever ends first: one that fails leaves the other waiting. */
	for (int i = 0; i < RACE_RACERS; i++) {
		CHECK(waitpid(-1, &status, 0) > 0);
		CHECK_EQ(status, 0);
	}
	printf("%d rounds, %u + %u won, %u at the second try\n", rounds, s->wins[0], s->wins[1],
	       s->slow);
	CHECK_EQ(s->wins[0] + s->wins[1], rounds);
	race_end();
	return 0;
}
