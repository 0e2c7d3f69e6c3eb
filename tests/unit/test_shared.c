/* SPDX-License-Identifier: Apache-2.0 */
/* Memory that several processes hold is charged once, for as long as one of them lives. */
#include <signal.h>

#include "base/fault.h"
#include "base/number.h"
#include "ledger/map.h"
#include "ledger/shared.h"
#include "tests/unit/tenant_fixture.h"

#define LIMIT (100 * MIB)

static const struct shared_key key_a = { { 1, 2 } }, key_b = { { 1, 3 } };

static int add(struct slot *slot, struct shared_key key, uint64_t bytes)
{
	return shared_add(slot, key, 0, bytes, CAT_IMPORTED, 0, LIMIT);
}

/* The parts of the processes are the sum: what several hold is in the part of one. */
static uint64_t used_live(struct ledger *ledger)
{
	uint64_t each[QUOTA_SLOTS], sum = 0, used = quota_used_live(ledger, 0);

	CHECK_EQ(quota_used_live_each(ledger, 0, each), used);
	for (int i = 0; i < QUOTA_SLOTS; i++)
		sum = sat_add_u64(sum, each[i]);
	CHECK_EQ(sum, used);
	return used;
}

static uint64_t part(struct slot *slot)
{
	uint64_t each[QUOTA_SLOTS];

	quota_used_live_each(slot_ledger(slot), 0, each);
	return each[slot_index(slot)];
}

static void check_once(void)
{
	struct slot *a = fixture_join(fixture_tenant("once")), *b;
	struct ledger *l = slot_ledger(a);
	struct shared_slots alive;

	b = fixture_join(l->dir);
	CHECK_EQ(add(a, key_a, 60 * MIB), 0);
	CHECK_EQ(quota_used(l, 0), 60 * MIB);
	CHECK_EQ(quota_pending(l, 0), 0);
	CHECK_EQ(add(a, key_a, 60 * MIB), -EEXIST);
	CHECK_EQ(add(b, key_a, 60 * MIB), 0); /* joins: would not fit a second time */
	CHECK_EQ(quota_used(l, 0), 60 * MIB);
	CHECK_EQ(shared_held(l, slot_index(a), 0), 60 * MIB);
	CHECK_EQ(shared_held(l, slot_index(b), 0), 60 * MIB);
	CHECK_EQ(shared_held(l, -1, 0), 0);
	CHECK_EQ(shared_joined(l, slot_index(b), 0), 60 * MIB);
	CHECK_EQ(shared_joined(l, slot_index(b), 1), 0);
	CHECK_EQ(shared_joined(l, -1, 0), 0);
	CHECK(shared_joins(l));
	CHECK_EQ(add(b, key_b, 41 * MIB), -EDQUOT);
	CHECK_EQ(quota_used(l, 0), 60 * MIB);
	CHECK_EQ(quota_reserve(b, 0, 41 * MIB, LIMIT), -EDQUOT);
	CHECK_EQ(add(b, key_b, 40 * MIB), 0);
	CHECK_EQ(quota_used(l, 0), LIMIT);
	CHECK_EQ(used_live(l), LIMIT);
	CHECK_EQ(part(a), 60 * MIB);
	CHECK_EQ(part(b), 40 * MIB);
	shared_find_alive(l, &alive);
	CHECK_EQ(shared_used(l, 0, &alive), LIMIT);
	CHECK_EQ(shared_drop(a, key_a), 0);
	CHECK_EQ(shared_drop(a, key_a), -ENOENT);
	CHECK_EQ(quota_used(l, 0), LIMIT); /* b still holds it */
	CHECK_EQ(part(b), LIMIT);
	CHECK_EQ(shared_drop(b, key_a), 0);
	CHECK_EQ(quota_used(l, 0), 40 * MIB);
	CHECK_EQ(shared_drop(b, key_b), 0);
	CHECK_EQ(quota_used(l, 0), 0);
	/* Bad callers. */
	CHECK_EQ(shared_add(a, key_a, 1, MIB, CAT_IMPORTED, 0, LIMIT), -EINVAL);
	CHECK_EQ(shared_add(a, key_a, 0, MIB, CAT_N, 0, LIMIT), -EINVAL);
	CHECK_EQ(add(a, key_a, UINT64_MAX), -EDQUOT);
	/* Leaving orderly is as good as dropping. */
	CHECK_EQ(add(b, key_a, MIB), 0);
	ledger_close(slot_ledger(b));
	CHECK_EQ(quota_used(l, 0), 0);
	/* A forged amount makes the tenant full, and crashes nobody. */
	CHECK_EQ(add(a, key_a, MIB), 0);
	l->map->shared[0].bytes = UINT64_MAX;
	CHECK(quota_used(l, 0) == UINT64_MAX);
	CHECK_EQ(quota_reserve(a, 0, 1, UINT64_MAX), -EDQUOT);
	l->map->shared[0].bytes = MIB;
	l->map->shared[0].owner = UINT32_MAX;
	l->map->shared[0].flags = UINT32_MAX;
	l->map->header.shared_high = UINT32_MAX;
	CHECK_EQ(quota_used(l, 0), MIB);
	ledger_close(l);
}

/* An exporter that imports its own object goes on holding it when its row lets go. */
static void check_uncovered(void)
{
	struct slot *a = fixture_join(fixture_tenant("uncovered")), *b;
	struct ledger *l = slot_ledger(a);

	b = fixture_join(l->dir);
	CHECK(!shared_known(l, key_a) && !shared_covered(l, key_a));
	quota_charge(a, 0, CAT_DATA, 60 * MIB);
	CHECK_EQ(shared_add(a, key_a, 0, 60 * MIB, CAT_DATA, SHARED_COVERED, LIMIT), 0);
	CHECK_EQ(add(b, key_a, 60 * MIB), 0);
	CHECK(shared_known(l, key_a) && shared_covered(l, key_a));
	shared_uncover(b, key_a); /* no owner */
	shared_uncover(a, key_b);
	CHECK(shared_covered(l, key_a));
	shared_uncover(a, key_a);
	CHECK(shared_known(l, key_a) && !shared_covered(l, key_a));
	CHECK_EQ(shared_joined(l, slot_index(a), 0), 60 * MIB);
	CHECK_EQ(quota_used(l, 0), 120 * MIB); /* twice until the row lets go */
	quota_release(a, 0, CAT_DATA, 60 * MIB);
	CHECK_EQ(shared_drop(b, key_a), 0);
	CHECK_EQ(quota_used(l, 0), 60 * MIB);
	CHECK_EQ(shared_drop(a, key_a), 0);
	CHECK(!shared_known(l, key_a));
	CHECK_EQ(quota_used(l, 0), 0);
	ledger_close(slot_ledger(b));
	ledger_close(l);
}

/* The exporter's own row carries the bytes while it lives and holds; after that its peers do. */
static void check_covered(void)
{
	struct slot *a = fixture_join(fixture_tenant("covered")), *b;
	struct ledger *l = slot_ledger(a);

	b = fixture_join(l->dir);
	quota_charge(a, 0, CAT_DATA, 60 * MIB);
	CHECK_EQ(shared_add(a, key_a, 0, 60 * MIB, CAT_DATA, SHARED_COVERED, LIMIT), 0);
	CHECK(!shared_joins(l)); /* it has its own, and nobody another's */
	CHECK_EQ(quota_used(l, 0), 60 * MIB);
	CHECK_EQ(add(b, key_a, 60 * MIB), 0);
	CHECK_EQ(quota_used(l, 0), 60 * MIB);
	CHECK_EQ(used_live(l), 60 * MIB);
	CHECK(shared_joins(l));
	CHECK_EQ(shared_joined(l, slot_index(a), 0), 0);
	CHECK_EQ(shared_joined(l, slot_index(b), 0), 60 * MIB);
	CHECK_EQ(shared_drop(a, key_a), 0);
	CHECK_EQ(quota_used(l, 0), 120 * MIB); /* twice, never not at all */
	quota_release(a, 0, CAT_DATA, 60 * MIB);
	CHECK_EQ(quota_used(l, 0), 60 * MIB);
	CHECK_EQ(shared_drop(b, key_a), 0);
	CHECK_EQ(quota_used(l, 0), 0);

	/* The exporter goes: its row is cleared, the object stays with its holder. */
	quota_charge(a, 0, CAT_DATA, 60 * MIB);
	CHECK_EQ(shared_add(a, key_a, 0, 60 * MIB, CAT_DATA, SHARED_COVERED, LIMIT), 0);
	CHECK_EQ(add(b, key_a, 60 * MIB), 0);
	ledger_close(l);
	l = slot_ledger(b);
	CHECK_EQ(quota_used(l, 0), 60 * MIB);
	CHECK_EQ(used_live(l), 60 * MIB);
	/* Its slot's next owner covers nothing. */
	a = fixture_join(l->dir);
	CHECK_EQ(slot_index(a), 0);
	CHECK_EQ(quota_used(l, 0), 60 * MIB);
	ledger_close(slot_ledger(a));
	ledger_close(l);
}

/* A pool: others keep what its owner lets go of, and are charged with no more than they can have. */
static void check_shed(void)
{
	struct slot *a = fixture_join(fixture_tenant("shed")), *b, *c;
	struct ledger *l = slot_ledger(a);

	b = fixture_join(l->dir);
	c = fixture_join(l->dir);
	quota_charge(a, 0, CAT_POOL, 80 * MIB);
	CHECK_EQ(shared_raise(a, key_a, 32 * MIB, 80 * MIB), -ENOENT);
	CHECK_EQ(shared_join(b, key_a), -ENOENT);
	CHECK_EQ(shared_add(a, key_a, 0, 32 * MIB, CAT_POOL, SHARED_COVERED, LIMIT), 0);
	CHECK_EQ(shared_join(a, key_a), -ENOENT); /* its own */
	/* Nobody has any of it: nothing is charged, and no more can be had than is left. */
	CHECK_EQ(shared_raise(a, key_a, 64 * MIB, 80 * MIB), 0);
	CHECK_EQ(shared_bytes(l, key_a), 80 * MIB);
	shared_shed(a, key_a, 16 * MIB, 64 * MIB);
	quota_release(a, 0, CAT_POOL, 16 * MIB);
	CHECK_EQ(shared_bytes(l, key_a), 64 * MIB);
	CHECK_EQ(quota_used(l, 0), 64 * MIB);
	/* Others join, and the row lets go of a part, twice. */
	CHECK_EQ(shared_join(b, key_a), 0);
	CHECK_EQ(shared_join(b, key_a), -EEXIST);
	CHECK_EQ(shared_raise(b, key_a, MIB, MIB), -ENOENT);
	CHECK_EQ(add(c, key_a, MIB), 0);
	CHECK_EQ(quota_used(l, 0), 64 * MIB);
	shared_shed(b, key_a, 16 * MIB, 0);
	CHECK_EQ(quota_used(l, 0), 64 * MIB);
	for (uint64_t left = 48 * MIB; left >= 32 * MIB; left -= 16 * MIB) {
		shared_shed(a, key_a, 16 * MIB, left);
		CHECK_EQ(quota_used(l, 0), 80 * MIB); /* twice, never not at all */
		quota_release(a, 0, CAT_POOL, 16 * MIB);
		CHECK_EQ(quota_used(l, 0), 64 * MIB);
		CHECK_EQ(used_live(l), 64 * MIB);
	}
	/* More is exported, and all that is left of the row goes, with some that was not. */
	quota_charge(a, 0, CAT_POOL, 40 * MIB);
	CHECK_EQ(shared_raise(a, key_a, 8 * MIB, 72 * MIB), 0);
	CHECK_EQ(shared_bytes(l, key_a), 72 * MIB);
	shared_shed(a, key_a, 72 * MIB, 0);
	quota_release(a, 0, CAT_POOL, 72 * MIB);
	CHECK_EQ(quota_used(l, 0), 72 * MIB);
	CHECK_EQ(shared_drop(b, key_a), 0);
	CHECK_EQ(quota_used(l, 0), 72 * MIB);
	CHECK_EQ(shared_drop(c, key_a), 0);
	CHECK_EQ(quota_used(l, 0), 0);
	/* The next that join have only what the row carries. */
	quota_charge(a, 0, CAT_POOL, 72 * MIB);
	CHECK_EQ(shared_join(b, key_a), 0);
	CHECK_EQ(quota_used(l, 0), 72 * MIB);
	/* It goes: they have all of it, once. */
	shared_shed(a, key_a, 8 * MIB, 64 * MIB);
	quota_release(a, 0, CAT_POOL, 8 * MIB);
	CHECK_EQ(quota_used(l, 0), 72 * MIB);
	CHECK_EQ(shared_drop(a, key_a), 0);
	quota_release(a, 0, CAT_POOL, 64 * MIB);
	CHECK_EQ(quota_used(l, 0), 72 * MIB);
	CHECK_EQ(shared_drop(b, key_a), 0);
	CHECK_EQ(quota_used(l, 0), 0);
	/* An entry that is made anew knows nothing of bytes that its owner shed before. */
	quota_charge(c, 0, CAT_POOL, 60 * MIB);
	CHECK_EQ(shared_add(c, key_b, 0, 60 * MIB, CAT_POOL, SHARED_COVERED, LIMIT), 0);
	CHECK_EQ(shared_join(b, key_b), 0);
	CHECK_EQ(quota_used(l, 0), 60 * MIB);
	/* A forged part is never more than all. */
	for (int i = 0; i < 2; i++) {
		l->map->shared[i].flags |= SHARED_SHED;
		l->map->shared[i].shed_bytes = UINT64_MAX;
	}
	CHECK_EQ(quota_used(l, 0), 120 * MIB);
	ledger_close(slot_ledger(c));
	ledger_close(slot_ledger(b));
	ledger_close(l);
}

/* An owner that dies at each step leaves no more than its importer can have, and no less. */
static void check_shed_steps(void)
{
	static const char *const steps[] = {"SHARED_RAISED", "SHARED_SHED_ROW", "RELEASED"};
	struct slot *a = fixture_join(fixture_tenant("shed-steps"));
	struct ledger *l = slot_ledger(a);

	for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
		uint64_t most = 64 * MIB;
		pid_t pid = fork();

		if (pid == 0) {
			struct slot *b = fixture_join(l->dir);

			quota_charge(b, 0, CAT_POOL, most);
			CHECK_EQ(shared_add(b, key_a, 0, 32 * MIB, CAT_POOL, SHARED_COVERED,
					    LIMIT), 0);
			while (shared_is_alone(b, key_a))
				usleep(100);
			CHECK_EQ(fault_arm(steps[i]), 0);
			shared_raise(b, key_a, 32 * MIB, most);
			shared_shed(b, key_a, 32 * MIB, 32 * MIB);
			quota_release(b, 0, CAT_POOL, 32 * MIB);
			_exit(1);
		}
		while (shared_join(a, key_a))
			usleep(100);
		fixture_wait(pid, SIGKILL);
		CHECK_EQ(used_live(l), most);
		CHECK(quota_used(l, 0) >= most);
		CHECK_EQ(add(a, key_b, LIMIT - most), 0); /* all that is free, exactly */
		CHECK_EQ(shared_drop(a, key_b), 0);
		CHECK_EQ(shared_drop(a, key_a), 0);
		CHECK_EQ(quota_used(l, 0), 0);
	}
	ledger_close(l);
}

/* Killed exporter, killed importer: counted, by readers at once, by admission after reclaiming. */
static void check_killed_holders(void)
{
	struct slot *a = fixture_join(fixture_tenant("holders"));
	struct ledger *l = slot_ledger(a);
	pid_t pid = fork();

	if (pid == 0) {
		struct slot *b = fixture_join(l->dir);

		quota_charge(b, 0, CAT_DATA, 30 * MIB);
		CHECK_EQ(shared_add(b, key_a, 0, 30 * MIB, CAT_DATA, SHARED_COVERED, LIMIT), 0);
		CHECK_EQ(add(b, key_b, 50 * MIB), 0);
		CHECK_EQ(add(b, (struct shared_key){ { 9, 9 } }, 5 * MIB), 0);
		_exit(0);
	}
	/* The child's exporter lives until the parent has joined. */
	while (quota_used(l, 0) < 85 * MIB)
		usleep(100);
	fixture_wait(pid, 0);
	CHECK_EQ(quota_used(l, 0), 85 * MIB);
	CHECK_EQ(used_live(l), 0);
	CHECK_EQ(quota_reserve(a, 0, 16 * MIB, LIMIT), -EDQUOT);
	CHECK_EQ(quota_reserve_slow(a, 0, LIMIT, LIMIT), 0);
	quota_cancel(a, 0, LIMIT);
	CHECK_EQ(quota_used(l, 0), 0);
	ledger_close(l);
}

/* Two holders of what was made again: whoever comes first gives the entry its name, the other finds it. */
static void check_renamed(void)
{
	struct slot *a = fixture_join(fixture_tenant("renamed")), *b;
	struct ledger *l = slot_ledger(a);
	struct shared_key aged = shared_aged(key_a), again = shared_aged(aged);

	CHECK(aged.word[0] != key_a.word[0] && aged.word[1] != key_a.word[1]);
	CHECK(again.word[0] != key_a.word[0] && again.word[0] % 2 == key_a.word[0] % 2);
	b = fixture_join(l->dir);
	CHECK_EQ(add(a, aged, 60 * MIB), 0);
	CHECK_EQ(shared_rename(b, aged, key_b), -ENOENT);
	CHECK_EQ(add(b, aged, 60 * MIB), 0);
	CHECK_EQ(shared_rename(a, aged, key_b), 0);
	CHECK_EQ(shared_rename(b, aged, key_b), 0);
	CHECK(shared_known(l, key_b) && !shared_known(l, aged));
	CHECK_EQ(quota_used(l, 0), 60 * MIB);
	CHECK_EQ(shared_drop(a, key_b), 0);
	CHECK_EQ(shared_rename(a, aged, key_b), -ENOENT);
	CHECK_EQ(shared_drop(b, key_b), 0);
	CHECK_EQ(quota_used(l, 0), 0);
	ledger_close(slot_ledger(b));
	ledger_close(l);
}

/* At every step of adding and dropping: no more is left than live processes hold. */
static void check_killed_steps(void)
{
	static const char *const steps[] = {
		"SHARED_PUBLISHED", "SHARED_FILLED", "SHARED_HELD",    "SHARED_ADDED",
		"SHARED_HELD:2",    "SHARED_UNCOVERED", "SHARED_DROPPED", "SLOW_PUBLISHED",
		"SHARED_RENAMED",
	};
	struct slot *a = fixture_join(fixture_tenant("steps"));
	struct ledger *l = slot_ledger(a);

	CHECK_EQ(add(a, key_b, 20 * MIB), 0);
	for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
		pid_t pid = fork();

		if (pid == 0) {
			struct slot *b = fixture_join(l->dir);

			CHECK_EQ(fault_arm(steps[i]), 0);
			add(b, key_a, 30 * MIB);
			add(b, key_b, 20 * MIB);
			shared_rename(b, key_a, shared_aged(key_a));
			shared_rename(b, shared_aged(key_a), key_a);
			shared_drop(b, key_a);
			shared_drop(b, key_b);
			_exit(1);
		}
		fixture_wait(pid, SIGKILL);
		CHECK_EQ(used_live(l), 20 * MIB);
		CHECK(quota_used(l, 0) >= 20 * MIB && quota_used(l, 0) <= 80 * MIB);
		CHECK_EQ(add(a, key_a, 80 * MIB), 0); /* all that is free, exactly */
		CHECK_EQ(shared_drop(a, key_a), 0);
		CHECK_EQ(quota_used(l, 0), 20 * MIB);
	}
	ledger_close(l);
}

static void check_table_full(void)
{
	struct slot *a = fixture_join(fixture_tenant("table"));
	struct ledger *l = slot_ledger(a);

	for (uint64_t i = 0; i < LEDGER_SHARED; i++)
		CHECK_EQ(add(a, (struct shared_key){ { 7, i } }, 1), 0);
	CHECK_EQ(add(a, (struct shared_key){ { 7, LEDGER_SHARED } }, 1), -ENOSPC);
	CHECK_EQ(quota_used(l, 0), LEDGER_SHARED);
	CHECK_EQ(shared_drop(a, (struct shared_key){ { 7, 500 } }), 0);
	CHECK_EQ(add(a, (struct shared_key){ { 7, LEDGER_SHARED } }, 1), 0);
	ledger_close(l);
}

int main(void)
{
	check_once();
	check_covered();
	check_uncovered();
	check_shed();
	if (fixture_has_faults())
		check_shed_steps();
	check_killed_holders();
	if (fixture_has_faults())
		check_renamed();
	check_killed_steps();
	check_table_full();
	return 0;
}
