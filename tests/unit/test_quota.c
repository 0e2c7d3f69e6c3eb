/* SPDX-License-Identifier: Apache-2.0 */
#include <pthread.h>
#include <signal.h>

#include "ledger/map.h"
#include "tests/unit/tenant_fixture.h"

#define LIMIT (100 * MIB)

static void check_arithmetic(void)
{
	struct slot *a = fixture_join(fixture_tenant("arithmetic")), *b;
	struct ledger *l = slot_ledger(a);
	struct quota_row row;

	b = fixture_join(l->dir);
	CHECK_EQ(quota_reserve(a, 0, 60 * MIB, LIMIT), 0);
	CHECK_EQ(quota_used(l, 0), 60 * MIB);
	CHECK_EQ(quota_pending(l, 0), 60 * MIB);
	CHECK_EQ(quota_reserve(b, 0, 41 * MIB, LIMIT), -EDQUOT);
	CHECK_EQ(quota_used(l, 0), 60 * MIB); /* retracted */
	CHECK_EQ(quota_reserve(b, 0, 40 * MIB, LIMIT), 0); /* to the byte */
	CHECK_EQ(quota_reserve(b, 0, 1, LIMIT), -EDQUOT);
	CHECK_EQ(quota_reserve(b, 0, 0, LIMIT), 0);
	/* The driver took more than was asked for. */
	quota_commit(a, 0, 60 * MIB, CAT_DATA, 62 * MIB);
	CHECK_EQ(quota_used(l, 0), 102 * MIB);
	CHECK_EQ(quota_pending(l, 0), 40 * MIB);
	quota_cancel(b, 0, 40 * MIB);
	CHECK_EQ(quota_used(l, 0), 62 * MIB);
	quota_charge(a, 0, CAT_MODULE, MIB);
	quota_set(a, 0, CAT_CONTEXT, 5 * MIB);
	quota_set(a, 0, CAT_CONTEXT, 4 * MIB);
	CHECK_EQ(quota_used(l, 0), 67 * MIB);
	/* Not over what was charged since it was read. */
	CHECK_EQ(quota_exchange(a, 0, CAT_CONTEXT, 5 * MIB, 3 * MIB), false);
	CHECK_EQ(quota_used(l, 0), 67 * MIB);
	CHECK_EQ(quota_exchange(a, 0, CAT_CONTEXT, 4 * MIB, 3 * MIB), true);
	CHECK_EQ(quota_used(l, 0), 66 * MIB);
	quota_set(a, 0, CAT_CONTEXT, 4 * MIB);
	quota_set_driver(a, 0, 70 * MIB, 12345);
	CHECK_EQ(quota_process(l, slot_index(a), 0, &row), 0);
	CHECK_EQ(row.pending, 0);
	CHECK_EQ(row.used[CAT_DATA], 62 * MIB);
	CHECK_EQ(row.used[CAT_MODULE], MIB);
	CHECK_EQ(row.used[CAT_CONTEXT], 4 * MIB);
	CHECK_EQ(row.driver_bytes, 70 * MIB);
	CHECK_EQ(row.driver_ns, 12345);
	quota_release(a, 0, CAT_DATA, 62 * MIB);
	CHECK_EQ(quota_used(l, 0), 5 * MIB);
	/* The host's memory is shown and counts nowhere. */
	quota_host_add(a, 0, 90 * MIB);
	quota_host_sub(a, 0, 20 * MIB);
	CHECK_EQ(quota_used(l, 0), 5 * MIB);
	CHECK_EQ(quota_process(l, slot_index(a), 0, &row), 0);
	CHECK_EQ(row.host_bytes, 70 * MIB);
	quota_host_sub(a, 0, 71 * MIB);
	CHECK_EQ(quota_process(l, slot_index(a), 0, &row), 0);
	CHECK_EQ(row.host_bytes, 0);
	/* A lowered limit takes nothing away and admits nothing. */
	CHECK_EQ(quota_reserve(a, 0, 1, 4 * MIB), -EDQUOT);
	CHECK_EQ(quota_used_live(l, 0), 5 * MIB);
	ledger_close(slot_ledger(b));
	ledger_close(l);
}

/* The sum by which a reservation is answered, with its bytes: whatever the answer is. */
static void check_sum(void)
{
	struct slot *a = fixture_join(fixture_tenant("sum"));
	uint64_t used = 0;

	CHECK_EQ(quota_reserve_sum(a, 0, 60 * MIB, LIMIT, &used), 0);
	CHECK_EQ(used, 60 * MIB);
	CHECK_EQ(quota_reserve_sum(a, 0, 41 * MIB, LIMIT, &used), -EDQUOT);
	CHECK_EQ(used, 101 * MIB);
	CHECK_EQ(quota_reserve_sum(a, 0, LIMIT + 1, LIMIT, &used), -EDQUOT);
	CHECK_EQ(used, LIMIT + 1);
	CHECK_EQ(quota_reserve_sum(a, 1, 1, LIMIT, &used), -EINVAL);
	CHECK_EQ(used, LIMIT + 1);
	quota_cancel(a, 0, 60 * MIB);
	ledger_close(slot_ledger(a));
}

/* The most that was held, and not what is reserved meanwhile: that may be a bound. */
static void check_peak(void)
{
	struct slot *a = fixture_join(fixture_tenant("peak")), *b;
	struct ledger *l = slot_ledger(a);
	struct ledger_device_info info;

	b = fixture_join(l->dir);
	CHECK_EQ(quota_reserve(a, 0, 60 * MIB, LIMIT), 0);
	CHECK_EQ(quota_reserve(b, 0, 10 * MIB, LIMIT), 0);
	quota_commit(b, 0, 10 * MIB, CAT_DATA, 10 * MIB);
	CHECK_EQ(ledger_device_info(l, 0, &info), 0);
	CHECK_EQ(info.peak_bytes, 10 * MIB);
	quota_commit(a, 0, 60 * MIB, CAT_CONTEXT, 20 * MIB);
	CHECK_EQ(quota_reserve_slow(a, 0, 70 * MIB, LIMIT), 0);
	quota_cancel(a, 0, 70 * MIB);
	CHECK(!quota_over(a, 0, LIMIT));
	ledger_device_info(l, 0, &info);
	CHECK_EQ(info.peak_bytes, 30 * MIB);
	quota_charge(b, 0, CAT_POOL, 5 * MIB);
	quota_release(b, 0, CAT_DATA, 10 * MIB);
	ledger_device_info(l, 0, &info);
	CHECK_EQ(info.peak_bytes, 35 * MIB);
	quota_set(a, 0, CAT_CONTEXT, 40 * MIB);
	quota_note_used(a, 0);
	ledger_device_info(l, 0, &info);
	CHECK_EQ(info.peak_bytes, 45 * MIB);
	/* Nothing that a forged row says. */
	l->map->rows[0][0].used[CAT_DATA] = QUOTA_ABSURD_BYTES;
	quota_charge(b, 0, CAT_POOL, MIB);
	ledger_device_info(l, 0, &info);
	CHECK_EQ(info.peak_bytes, 45 * MIB);
	ledger_close(slot_ledger(b));
	ledger_close(l);
}

/* Wrong callers and forged rows: refusals, never a wrap, never a crash. */
static void check_saturation(void)
{
	struct slot *a = fixture_join(fixture_tenant("saturation"));
	struct ledger *l = slot_ledger(a);
	struct ledger_device_info info;

	quota_release(a, 0, CAT_DATA, MIB);
	CHECK_EQ(quota_used(l, 0), 0);
	quota_cancel(a, 0, MIB);
	CHECK_EQ(quota_used(l, 0), 0);
	CHECK_EQ(quota_reserve(a, 0, UINT64_MAX, UINT64_MAX), -EDQUOT);
	CHECK_EQ(quota_reserve(a, 0, QUOTA_RESERVE_MAX + 1, UINT64_MAX), -EDQUOT);
	CHECK_EQ(quota_reserve_slow(a, 0, UINT64_MAX, UINT64_MAX), -EDQUOT);
	CHECK_EQ(quota_used(l, 0), 0);
	CHECK_EQ(quota_reserve(a, 1, 1, LIMIT), -EINVAL);
	CHECK_EQ(quota_reserve(a, -1, 1, LIMIT), -EINVAL);
	CHECK_EQ(quota_reserve(a, 64, 1, LIMIT), -EINVAL);
	CHECK_EQ(quota_reserve_slow(a, 64, 1, LIMIT), -EINVAL);
	quota_commit(a, 64, 1, CAT_DATA, 1);
	quota_commit(a, 0, 0, CAT_N, 1);
	quota_release(a, 0, (enum category)-1, 1);
	quota_charge(a, 64, CAT_DATA, 1);
	CHECK_EQ(quota_used(l, 0), 0);
	CHECK_EQ(quota_used(l, 64), 0);
	CHECK_EQ(quota_used(l, -1), 0);

	/* An absurd row of a live process: its tenant is full, whatever the limit. */
	l->map->rows[0][0].used[CAT_DATA] = UINT64_MAX;
	CHECK(quota_used(l, 0) == UINT64_MAX);
	CHECK_EQ(quota_reserve(a, 0, 1, UINT64_MAX), -EDQUOT);
	CHECK_EQ(quota_reserve_slow(a, 0, 1, UINT64_MAX), -EDQUOT);
	l->map->rows[0][0].used[CAT_DATA] = 0;
	/* Beyond the high-water mark nothing counts; a forged mark leads nowhere. */
	l->map->rows[0][9].used[CAT_DATA] = MIB;
	CHECK_EQ(quota_used(l, 0), 0);
	l->map->header.slot_high = UINT32_MAX;
	CHECK_EQ(quota_used(l, 0), MIB);
	CHECK_EQ(quota_used_live(l, 0), 0); /* nobody holds that slot's lock */
	l->map->header.slot_high = 0;
	CHECK_EQ(quota_reserve(a, 0, MIB, LIMIT), 0);
	CHECK_EQ(quota_reserve(a, 0, LIMIT, LIMIT), -EDQUOT); /* sees its own row */
	quota_cancel(a, 0, MIB);
	l->map->header.slot_high = 10;
	/* The slow try clears what no live process owns, even an impossible figure. */
	l->map->rows[0][9].used[CAT_DATA] = UINT64_MAX;
	CHECK_EQ(quota_reserve(a, 0, LIMIT, LIMIT), -EDQUOT);
	CHECK_EQ(quota_reserve_slow(a, 0, LIMIT, LIMIT), 0);
	quota_cancel(a, 0, LIMIT);

	CHECK_EQ(ledger_device_info(l, 0, &info), 0);
	CHECK_EQ(info.refusals, 2);
	quota_count_refusal(a, 0);
	CHECK_EQ(ledger_device_info(l, 0, &info), 0);
	CHECK_EQ(info.refusals, 3);
	/* The last measurement counts, and apart from that under MPS. */
	ledger_learn_context(l, 0, false, 520 * MIB);
	ledger_learn_context(l, 0, false, 510 * MIB);
	ledger_learn_context(l, 0, true, 516 * MIB);
	ledger_learn_context(l, 0, false, UINT64_MAX);
	CHECK_EQ(ledger_device_info(l, 0, &info), 0);
	CHECK_EQ(info.context_bytes, 510 * MIB);
	CHECK_EQ(info.context_mps_bytes, 516 * MIB);
	ledger_close(l);
}

/* What a killed process held is counted until somebody needs it, shown by nobody. */
static void check_reclaim(void)
{
	struct slot *a = fixture_join(fixture_tenant("reclaim"));
	struct ledger *l = slot_ledger(a);
	pid_t pid = fork();

	if (pid == 0) {
		struct slot *b = fixture_join(l->dir);

		CHECK_EQ(quota_reserve(b, 0, 70 * MIB, LIMIT), 0);
		quota_commit(b, 0, 70 * MIB, CAT_DATA, 70 * MIB);
		CHECK_EQ(quota_reserve(b, 0, 20 * MIB, LIMIT), 0);
		kill(getpid(), SIGKILL);
	}
	fixture_wait(pid, SIGKILL);
	CHECK_EQ(quota_used(l, 0), 90 * MIB);
	CHECK_EQ(quota_used_live(l, 0), 0);
	CHECK_EQ(quota_reserve(a, 0, 50 * MIB, LIMIT), -EDQUOT);
	CHECK_EQ(quota_reserve_slow(a, 0, 50 * MIB, LIMIT), 0);
	CHECK_EQ(quota_used(l, 0), 50 * MIB);
	CHECK_EQ(quota_reclaim(l), 0);
	ledger_close(l);
}

/*
 * A peer that is between publishing and taking back does not make the slow try fail; one that
 * stays there does.
 */
static void *retract_soon(void *arg)
{
	usleep(300);
	quota_cancel(arg, 0, LIMIT);
	return NULL;
}

static void check_settle(void)
{
	struct slot *a = fixture_join(fixture_tenant("settle")), *b;
	struct ledger *l = slot_ledger(a);
	pthread_t thread;
	int tries = 0, r;

	b = fixture_join(l->dir);
	/* How long a thread takes to start is nobody's promise: it must work out now and then. */
	do {
		quota_publish(b, 0, LIMIT);
		CHECK_EQ(pthread_create(&thread, NULL, retract_soon, b), 0);
		r = quota_reserve_slow(a, 0, MIB, LIMIT);
		CHECK_EQ(pthread_join(thread, NULL), 0);
	} while (r == -EDQUOT && ++tries < 1000);
	CHECK_EQ(r, 0);
	quota_cancel(a, 0, MIB);
	quota_publish(b, 0, LIMIT);
	CHECK_EQ(quota_reserve_slow(a, 0, MIB, LIMIT), -EDQUOT);
	CHECK_EQ(quota_used(l, 0), LIMIT);
	ledger_close(slot_ledger(b));
	ledger_close(l);
}

struct hammer {
	struct slot *slot;
	uint64_t *device_used;
	unsigned int seed;
};

/* The "driver" counts what it hands out; together never more than the limit. */
static void *hammer(void *arg)
{
	struct hammer *h = arg;

	for (int i = 0; i < 20000; i++) {
		uint64_t n = (uint64_t)(rand_r(&h->seed) % 40 + 1) * MIB;

		if (quota_reserve(h->slot, 0, n, LIMIT) < 0)
			continue;
		CHECK(__atomic_add_fetch(h->device_used, n, __ATOMIC_SEQ_CST) <= LIMIT);
		quota_commit(h->slot, 0, n, CAT_DATA, n);
		__atomic_sub_fetch(h->device_used, n, __ATOMIC_SEQ_CST);
		quota_release(h->slot, 0, CAT_DATA, n);
	}
	return NULL;
}

static void check_threads(void)
{
	struct slot *a = fixture_join(fixture_tenant("threads")), *b;
	struct ledger *l = slot_ledger(a);
	uint64_t device_used = 0;
	struct hammer h[4];
	pthread_t thread[4];

	b = fixture_join(l->dir);
	for (unsigned int i = 0; i < 4; i++) {
		h[i] = (struct hammer){ i % 2 ? a : b, &device_used, i };
		CHECK_EQ(pthread_create(&thread[i], NULL, hammer, &h[i]), 0);
	}
	for (int i = 0; i < 4; i++)
		CHECK_EQ(pthread_join(thread[i], NULL), 0);
	CHECK_EQ(quota_used(l, 0), 0);
	ledger_close(slot_ledger(b));
	ledger_close(l);
}

static void check_names(void)
{
	CHECK(!strcmp(category_name(CAT_CONTEXT), "context"));
	CHECK(!strcmp(category_name(CAT_IMPORTED), "imported"));
	CHECK(!strcmp(category_name(CAT_N), "?"));
}

static void *doubtful(void *arg)
{
	struct slot *slot = arg;
	int r = quota_reserve_doubtful(slot, 0, 32 * MIB, LIMIT);

	CHECK_EQ(r, 0);
	CHECK(quota_used(slot_ledger(slot), 0) <= LIMIT + 32 * MIB);
	quota_cancel(slot, 0, 32 * MIB);
	return NULL;
}

/* Above the limit by one such reservation in the tenant, while what is committed keeps it. */
static void check_doubtful(void)
{
	struct slot *a = fixture_join(fixture_tenant("doubtful")), *b;
	struct ledger *l = slot_ledger(a);
	pthread_t thread;

	b = fixture_join(l->dir);
	quota_charge(a, 0, CAT_POOL, LIMIT);
	CHECK(!quota_over(a, 0, LIMIT));
	CHECK_EQ(quota_reserve_doubtful(a, 0, 32 * MIB, LIMIT), 0);
	CHECK_EQ(quota_used(l, 0), LIMIT + 32 * MIB);
	CHECK_EQ(quota_reserve(b, 0, 1, LIMIT), -EDQUOT);
	/* Waited for, not refused. */
	CHECK_EQ(pthread_create(&thread, NULL, doubtful, b), 0);
	quota_cancel(a, 0, 32 * MIB);
	CHECK_EQ(pthread_join(thread, NULL), 0);
	quota_charge(a, 0, CAT_POOL, 1);
	CHECK(quota_over(a, 0, LIMIT));
	CHECK_EQ(quota_reserve_doubtful(b, 0, 32 * MIB, LIMIT), -EDQUOT);
	CHECK_EQ(quota_pending(l, 0), 0);
	ledger_close(slot_ledger(b));
	ledger_close(l);
}

int main(void)
{
	check_names();
	check_doubtful();
	check_arithmetic();
	check_sum();
	check_peak();
	check_saturation();
	check_reclaim();
	check_settle();
	check_threads();
	return 0;
}
