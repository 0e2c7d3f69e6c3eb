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

#include "tests/unit/tenant_fixture.h"

#define DEVICES 50
#define BATCHES 400
#define ROUNDS  (DEVICES * BATCHES)
#define RACERS  2
#define LIMIT   (100 * MIB)
#define SETTLED (60 * MIB)
#define PENDING (DEVICES - 1)

_Static_assert(ROUNDS == 20000, "rounds");

struct shared {
	uint32_t arrived; /* at the barriers, ever; a futex word */
	uint32_t progress[RACERS]; /* rounds begun */
	uint32_t wins[RACERS];
	uint32_t slow; /* wins that needed the second try */
	uint64_t won[RACERS][DEVICES]; /* bytes, in this batch */
};

/* The last to arrive finds that it completes a multiple of all. */
static void barrier(struct shared *s)
{
	uint32_t mine = __atomic_add_fetch(&s->arrived, 1, __ATOMIC_SEQ_CST), now;
	uint32_t all = (mine + RACERS - 1) / RACERS * RACERS;

	if (mine == all) {
		syscall(SYS_futex, &s->arrived, FUTEX_WAKE, RACERS, NULL, NULL, 0);
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

static void compete(struct shared *s, struct slot *slot, int self, int device, unsigned int *seed)
{
	/* More than half of the remainder, so that two never fit. */
	uint64_t bytes = (21 + (uint64_t)(rand_r(seed) % 20)) * MIB;
	bool slow = false;

	fall_in(s, self, seed);
	if (quota_reserve(slot, device, bytes, LIMIT) < 0) {
		slow = true;
		if (quota_reserve_slow(slot, device, bytes, LIMIT) < 0)
			return;
	}
	s->won[self][device] = bytes;
	s->wins[self]++;
	if (slow)
		__atomic_add_fetch(&s->slow, 1, __ATOMIC_SEQ_CST);
	/*
	 * Committed while the other may be looking; or left pending, as in a long call to the
	 * driver, for which the second try waits a millisecond (the last one, or they fall out of
	 * step).
	 */
	if (device != PENDING)
		quota_commit(slot, device, bytes, CAT_DATA, bytes);
}

static void give_back(struct shared *s, struct slot *slot, int self, int device)
{
	uint64_t bytes = s->won[self][device];

	s->won[self][device] = 0;
	if (device != PENDING)
		quota_release(slot, device, CAT_DATA, bytes);
	else
		quota_cancel(slot, device, bytes);
}

/* In the tenant, with all devices known: index = number. */
static struct slot *join(const char *dir)
{
	struct slot *slot = fixture_join(dir);
	uint8_t uuid[16];

	for (int d = 1; d < DEVICES; d++) {
		memset(uuid, d, sizeof(uuid));
		CHECK_EQ(ledger_device(slot_ledger(slot), uuid, GIB), d);
	}
	return slot;
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

static void race(const char *dir, struct shared *s, int self)
{
	struct slot *slot = join(dir);
	unsigned int seed = (unsigned int)self + 1;

	spread(self);
	for (int batch = 0; batch < BATCHES; batch++) {
		barrier(s);
		for (int d = 0; d < DEVICES; d++)
			compete(s, slot, self, d, &seed);
		barrier(s);
		for (int d = 0; d < DEVICES; d++) {
			CHECK(!s->won[0][d] + !s->won[1][d] == 1);
			CHECK_EQ(quota_used(slot_ledger(slot), d),
				 SETTLED + s->won[0][d] + s->won[1][d]);
		}
		barrier(s);
		for (int d = 0; d < DEVICES; d++)
			give_back(s, slot, self, d);
	}
}

int main(void)
{
	struct slot *slot = join(fixture_tenant("race"));
	struct ledger *l = slot_ledger(slot);
	char dir[PATH_MAX + 8];
	struct shared *s;
	pid_t pid[RACERS];

	snprintf(dir, sizeof(dir), "%s/race", fixture_runtime_dir());
	s = mmap(NULL, sizeof(*s), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	CHECK(s != MAP_FAILED);
	for (int d = 0; d < DEVICES; d++)
		quota_charge(slot, d, CAT_DATA, SETTLED);
	for (int i = 0; i < RACERS; i++) {
		pid[i] = fixture_fork();
		if (pid[i] == 0) {
			race(dir, s, i);
			_exit(0);
		}
	}
	for (int i = 0; i < RACERS; i++)
		fixture_wait(pid[i], 0);
	printf("%d rounds, %u + %u won, %u at the second try\n", ROUNDS, s->wins[0], s->wins[1],
	       s->slow);
	CHECK_EQ(s->wins[0] + s->wins[1], ROUNDS);
	for (int d = 0; d < DEVICES; d++)
		CHECK_EQ(quota_used_live(l, d), SETTLED);
	ledger_close(l);
	return 0;
}
