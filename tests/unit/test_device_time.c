/* SPDX-License-Identifier: Apache-2.0 */
/* What a tenant used of a device: billed once, told by the second. Clocks are numbers here. */
#include "ledger/device_time.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>

#include "base/now.h"
#include "sched/tuning.h"
#include "tests/unit/tenant_fixture.h"

#define SECOND UINT64_C(1000000000)
#define MS NS_PER_MS
#define HOUR   (3600 * SECOND)

static struct device_time block;

static void fresh(void)
{
	memset(&block, 0, sizeof(block));
}

/* Work that overlaps counts once, whoever bills it first. */
static void check_cover(void)
{
	uint64_t from = 0;

	fresh();
	CHECK_EQ(device_time_cover(&block.worked_ns, 10 * MS, 20 * MS, &from), 10 * MS);
	CHECK_EQ(from, 10 * MS);
	CHECK_EQ(device_time_cover(&block.worked_ns, 15 * MS, 25 * MS, &from), 5 * MS);
	CHECK_EQ(from, 20 * MS);
	CHECK_EQ(device_time_cover(&block.worked_ns, 12 * MS, 24 * MS, &from), 0);
	CHECK_EQ(device_time_cover(&block.worked_ns, 40 * MS, 41 * MS, &from), MS);
	CHECK_EQ(from, 40 * MS);
	/* Long work, or whose beginning is not known, is not billed for what others were. */
	CHECK_EQ(device_time_cover(&block.worked_ns, 0, 3 * HOUR, &from), 3 * HOUR - 41 * MS);
	CHECK_EQ(from, 41 * MS);
	CHECK_EQ(device_time_cover(&block.worked_ns, 0, 3 * HOUR + MS, &from), MS);
	/* A mark that lies hours ahead is damage, and hides no work. */
	block.worked_ns = UINT64_MAX;
	CHECK_EQ(device_time_cover(&block.worked_ns, 50 * MS, 60 * MS, &from), 10 * MS);
}

static void check_achieved(void)
{
	fresh();
	CHECK_EQ(device_time_achieved(&block, 1000 * SECOND, 1), 0);
	for (uint64_t s = 1000; s < 1010; s++)
		device_time_add_busy(&block, s * SECOND + 500 * MS, 300 * MS);
	CHECK_EQ(device_time_achieved(&block, 1010 * SECOND + 1, 1), 3000);
	CHECK_EQ(device_time_achieved(&block, 1010 * SECOND + 1, 10), 3000);
	CHECK_EQ(device_time_achieved(&block, 1010 * SECOND + 1, 60), 500);
	/* The present second is not over, and does not count. */
	device_time_add_busy(&block, 1010 * SECOND + 1, 900 * MS);
	CHECK_EQ(device_time_achieved(&block, 1010 * SECOND + 2, 1), 3000);
	CHECK_EQ(device_time_achieved(&block, 1011 * SECOND + 2, 1), 9000);
	/* Long after, entries of other times stand in the ring. */
	CHECK_EQ(device_time_achieved(&block, 2000 * SECOND, 60), 0);
	CHECK_EQ(device_time_achieved(&block, 1010 * SECOND, 0), 0);
	CHECK_EQ(device_time_achieved(&block, 1010 * SECOND, 64), 0);
	/* At the beginning of time. */
	fresh();
	device_time_add_busy(&block, SECOND + 500 * MS, 100 * MS);
	CHECK_EQ(device_time_achieved(&block, 2 * SECOND + 1, 1), 1000);
	CHECK_EQ(device_time_achieved(&block, 2 * SECOND + 1, 60), 16);
}

static void check_history(void)
{
	uint32_t bp[60], sum = 0;

	fresh();
	for (uint64_t s = 1000; s < 1060; s++)
		if (s % 2)
			device_time_add_busy(&block, s * SECOND + MS, (s - 1000) * 10 * MS);
	device_time_history(&block, 1060 * SECOND + MS, 60, bp);
	for (uint32_t i = 0; i < 60; i++)
		CHECK_EQ(bp[i], i % 2 ? i * 100 : 0);
	/* A unit of almost three seconds is billed at its end, and shown where it ran. */
	fresh();
	device_time_add_busy(&block, 1005 * SECOND + MS, 3 * SECOND - 100 * MS);
	device_time_history(&block, 1008 * SECOND, 10, bp);
	for (uint32_t i = 0; i < 10; i++)
		sum += bp[i];
	CHECK_EQ(sum, 29000);
	CHECK_EQ(bp[8], 0);
	CHECK_EQ(bp[7], 10000);
	CHECK_EQ(bp[6], 10000);
	CHECK_EQ(bp[5], 9000);
	memset(&block, 0xa5, sizeof(block));
	device_time_history(&block, 3, 60, bp);
	for (uint32_t i = 0; i < 60; i++)
		CHECK(bp[i] <= 10000);
}

#define BILLERS	  4
#define INTERVALS 20000

static void *bill_the_same(void *arg)
{
	uint64_t from, sum = 0;

	for (uint64_t i = 1; i <= INTERVALS; i++)
		sum += device_time_cover(arg, i * MS, (i + 1) * MS, &from);
	return (void *)(uintptr_t)sum;
}

/* Many bill the same work: each instant of it is billed by one of them. */
static void check_racing_cover(void)
{
	struct device_time c = {0};
	pthread_t thread[BILLERS];
	uint64_t sum = 0;
	void *part;

	for (int i = 0; i < BILLERS; i++)
		CHECK_EQ(pthread_create(&thread[i], NULL, bill_the_same, &c), 0);
	for (int i = 0; i < BILLERS; i++) {
		CHECK_EQ(pthread_join(thread[i], &part), 0);
		sum += (uintptr_t)part;
	}
	CHECK_EQ(sum, INTERVALS * MS);
}

/* Work of a second that is billed when the next one has begun. */
static void check_late(void)
{
	struct device_time c = {0};
	uint64_t now = 1000 * SECOND;

	device_time_add_busy(&c, now, 100 * MS);
	device_time_add_busy(&c, now + 2 * SECOND, 100 * MS);
	device_time_add_busy(&c, now + SECOND, 100 * MS);
	CHECK(device_time_achieved(&c, now + 2 * SECOND, 1) <= 1000);
	CHECK(device_time_achieved(&c, now + 3 * SECOND, 1) <= 2000);
	CHECK_EQ(device_time_achieved(&c, now + 3 * SECOND, 3), 1000);
}

/* Busy time is kept to 40 bits of microseconds, which are twelve days of it. */
static void check_wrap(void)
{
	struct device_time c = {.busy_ns = ((UINT64_C(1) << 40) - 1) * 1000};

	for (uint64_t s = 1000; s < 1010; s++)
		device_time_add_busy(&c, s * SECOND, 500 * MS);
	CHECK_EQ(device_time_achieved(&c, 1010 * SECOND, 10), 5000);
}

static void check_damage(void)
{
	uint64_t random = UINT64_C(88172645463325252), now = 100000 * SECOND;
	struct device_time c;

	for (int i = 0; i < 20000; i++) {
		for (size_t j = 0; j < sizeof(c) / 8; j++) {
			random ^= random << 13;
			random ^= random >> 7;
			random ^= random << 17;
			((uint64_t *)&c)[j] = random;
		}
		/* Entries that look like those of the seconds in question. */
		for (uint64_t j = 0; i % 2 && j < DEVICE_TIME_SECONDS; j++)
			c.second[j] = (100000 - (100000 - j) % DEVICE_TIME_SECONDS) << 40 |
				      c.second[j] >> 24;
		CHECK(device_time_achieved(&c, now, 1 + (unsigned int)i % 60) <= 10000);
		device_time_add_busy(&c, now, MS);
		CHECK(device_time_achieved(&c, now, 60) <= 10000);
	}
}

/* The block is the tenant's: what one process writes another sees, and a look from outside too. */
static void check_shared(void)
{
	const char *dir = fixture_tenant("device_time");
	struct slot *slot = fixture_join(dir);
	struct ledger *ledger = slot_ledger(slot), *look;
	struct device_time *c = device_time_of(ledger, 0);
	pid_t pid;

	CHECK(c && !c->busy_ns);
	CHECK(!device_time_of(ledger, -1));
	CHECK(!device_time_of(ledger, 64));
	CHECK(device_time_of(ledger, 63) && device_time_of(ledger, 63) != c);
	pid = fixture_fork();
	if (pid == 0) {
		struct slot *own = fixture_join(dir);

		CHECK_EQ(device_time_bill(slot_ledger(own), 0, HOUR, HOUR + MS), MS);
		raise(SIGKILL);
	}
	fixture_wait(pid, SIGKILL);
	CHECK_EQ(c->busy_ns, MS);
	CHECK_EQ(c->worked_ns, HOUR + MS);
	CHECK_EQ(ledger_open(dir, LEDGER_READ, &look), 0);
	CHECK_EQ(device_time_of(look, 0)->busy_ns, MS);
	CHECK_EQ(device_time_achieved(device_time_of(look, 0), HOUR + SECOND, 1), 10);
	ledger_close(look);
	/* What it billed is billed, and a device that nobody has has no timeline. */
	CHECK(!device_time_bill(ledger, 0, HOUR, HOUR + MS));
	CHECK(!device_time_bill(ledger, 63, HOUR, HOUR + MS) &&
	      !device_time_bill(ledger, -1, 0, MS));
	/* Of what nobody measured a little is billed, and shown. */
	CHECK_EQ(device_time_bill_unmeasured(ledger, 0, 2 * HOUR, 3 * HOUR), MS);
	CHECK_EQ(device_time_bill_unmeasured(ledger, 0, 2 * HOUR + 2 * MS, 2 * HOUR + 2 * MS + 7),
		 7);
	CHECK_EQ(c->unmeasured_ns, MS + 7);
	CHECK_EQ(c->busy_ns, 2 * MS + 7);
	ledger_close(ledger);
}

/* While launches for one device are held, work on the others may wait for them. */
static void check_held(void)
{
	static const uint8_t second_uuid[16] = "device-1 (uuid)";
	struct slot *slot = fixture_join(fixture_tenant("held"));
	struct ledger *ledger = slot_ledger(slot);
	struct device_time *c = device_time_of(ledger, 0);
	uint64_t t = HOUR;

	CHECK_EQ(ledger_device(ledger, second_uuid, GIB), 1);
	CHECK(!device_time_held(c, 0, UINT64_MAX));
	device_time_hold(c, t, t, t + 4 * MS);
	CHECK_EQ(device_time_held(c, t + 3 * MS, t + 5 * MS), MS);
	CHECK(!device_time_held(c, t + 4 * MS, t + 5 * MS));
	CHECK_EQ(device_time_held(c, t - MS, t + 5 * MS), 4 * MS);
	/* What is done before they are let go did not wait for them. */
	CHECK(!device_time_held(c, t - MS, t + 3 * MS));
	/* Who is held looked late whether it still is: it was, all the time. */
	device_time_hold(c, t, t + 20 * MS, t + 30 * MS);
	CHECK_EQ(device_time_held(c, t, t + 40 * MS), 30 * MS);
	/* Let go earlier than was expected. */
	device_time_hold_end(c, t + 29 * MS);
	CHECK_EQ(device_time_held(c, t, t + 29 * MS), 29 * MS);
	device_time_hold_end(c, t + 30 * MS);
	/* Let go for a moment: what waited for the launch was done then, and waits no more. */
	t += 31 * MS;
	device_time_hold(c, t, t, t + 2 * MS);
	CHECK_EQ(device_time_held(c, t - 31 * MS, t), 30 * MS);
	/* As many are known as there is room for. */
	for (int i = 1; i <= DEVICE_TIME_HELD; i++)
		device_time_hold(c, t + i * 10 * MS, t + i * 10 * MS, t + (i * 10 + 1) * MS);
	CHECK_EQ(device_time_held(c, 0, t + SECOND), DEVICE_TIME_HELD * MS);
	/* Damage holds nothing, and ends. */
	t += SECOND;
	for (int i = 0; i < DEVICE_TIME_HELD; i++)
		c->held[i].to_ns = UINT64_MAX;
	c->held_n = UINT64_MAX;
	CHECK(!device_time_held(c, t, t + SECOND));
	device_time_hold(c, t, t, t + MS);
	CHECK_EQ(device_time_held(c, t, t + SECOND), MS);

	t = HOUR;
	CHECK(!device_time_beside(ledger, 1, t));
	CHECK_EQ(device_time_bill(ledger, 0, t, t + MS), MS);
	CHECK(device_time_beside(ledger, 1, t + 500 * MS));
	CHECK(!device_time_beside(ledger, 0, t + 500 * MS));
	CHECK(!device_time_beside(ledger, 1, t + 2 * SECOND));
	c->worked_ns = UINT64_MAX;
	CHECK(!device_time_beside(ledger, 1, t));
	ledger_close(ledger);
}

/* As many as there are, no longer than was said, and given back by who took it alone. */
static void check_places(void)
{
	struct slot *slot = fixture_join(fixture_tenant("places"));
	struct ledger *ledger = slot_ledger(slot);
	struct device_time *c = device_time_of(ledger, 0);
	uint64_t t = HOUR;

	CHECK_EQ(device_time_take_place(c, t, t + 10 * MS), 0);
	CHECK_EQ(device_time_take_place(c, t, t + 20 * MS), 1);
	CHECK_EQ(device_time_take_place(c, t + 9 * MS, t + 30 * MS), -EBUSY);
	device_time_give_place(c, 1, t + 20 * MS);
	CHECK_EQ(device_time_take_place(c, t + 9 * MS, t + 30 * MS), 1);
	/* Its owner may be dead. */
	CHECK_EQ(device_time_take_place(c, t + 10 * MS, t + 40 * MS), 0);
	/* Who had it until now gives back nothing of another's. */
	device_time_give_place(c, 0, t + 10 * MS);
	CHECK_EQ(device_time_take_place(c, t + 11 * MS, t + 50 * MS), -EBUSY);
	/* Damage holds nobody. */
	c->place_until_ns[0] = UINT64_MAX;
	CHECK_EQ(device_time_take_place(c, t + 11 * MS, t + 50 * MS), 0);
	ledger_close(ledger);
}

/*
 * How many processes launch, or wait to: each says so for itself and until when, so none that was
 * killed counts for long.
 */
static void check_active(void)
{
	const char *dir = fixture_tenant("active");
	struct slot *slot = fixture_join(dir);
	struct ledger *ledger = slot_ledger(slot);
	pid_t pid;

	CHECK_EQ(device_time_active(ledger, 0, HOUR), 1);
	device_time_set_active(slot, 0, HOUR + 30 * MS);
	CHECK_EQ(device_time_active(ledger, 0, HOUR), 1);
	pid = fixture_fork();
	if (pid == 0) {
		device_time_set_active(fixture_join(dir), 0, HOUR + 20 * MS);
		raise(SIGKILL);
	}
	fixture_wait(pid, SIGKILL);
	CHECK_EQ(device_time_active(ledger, 0, HOUR), 2);
	CHECK_EQ(device_time_active(ledger, 0, HOUR + 20 * MS), 1);
	CHECK_EQ(device_time_active(ledger, 0, HOUR + 40 * MS), 1);
	/* Damage: nobody is active for so long. */
	pid = fixture_fork();
	if (pid == 0) {
		device_time_set_active(fixture_join(dir), 0, UINT64_MAX);
		raise(SIGKILL);
	}
	fixture_wait(pid, SIGKILL);
	CHECK_EQ(device_time_active(ledger, 0, HOUR), 1);
	/* Of a device that nobody of the tenant has met: nothing to be said or counted. */
	device_time_set_active(slot, 5, HOUR);
	CHECK_EQ(device_time_active(ledger, 5, HOUR), 1);
	CHECK_EQ(device_time_active(ledger, -1, HOUR), 1);
	ledger_close(ledger);
}

/* Work that is late is said to be, again and again; what was said is over by itself, or is damage. */
static void check_awaited(void)
{
	struct slot *slot = fixture_join(fixture_tenant("awaited"));
	struct ledger *ledger = slot_ledger(slot);
	struct device_time *c = device_time_of(ledger, 0);

	CHECK_EQ(device_time_late_ns(ledger, SECOND), 0);
	device_time_say_late(c, SECOND, SECOND + 5 * MS);
	CHECK_EQ(device_time_late_ns(ledger, SECOND), 1);
	device_time_say_late(c, SECOND + 4 * MS, SECOND + 9 * MS);
	device_time_say_late(c, SECOND + 3 * MS, SECOND + 8 * MS); /* by another process */
	CHECK_EQ(device_time_late_ns(ledger, SECOND + 8 * MS), 8 * MS + 1);
	CHECK_EQ(device_time_late_ns(ledger, SECOND + 9 * MS), 0);
	device_time_say_late(c, SECOND + 20 * MS, SECOND + 25 * MS);
	CHECK_EQ(device_time_late_ns(ledger, SECOND + 21 * MS), MS + 1);
	/* It was done meanwhile, and what stood behind it is late in turn. */
	device_time_say_late(c, SECOND + 24 * MS, SECOND + 29 * MS);
	c->worked_ns = SECOND + 22 * MS;
	CHECK_EQ(device_time_late_ns(ledger, SECOND + 26 * MS), 4 * MS + 1);
	c->worked_ns = UINT64_MAX;
	CHECK_EQ(device_time_late_ns(ledger, SECOND + 26 * MS), 6 * MS + 1);
	c->worked_ns = 0;
	c->late_until_ns = UINT64_MAX;
	CHECK_EQ(device_time_late_ns(ledger, SECOND + 21 * MS), 0);
	device_time_say_late(c, SECOND + 30 * MS, SECOND + 35 * MS);
	CHECK_EQ(device_time_late_ns(ledger, SECOND + 31 * MS), MS + 1);
	device_time_say_not_late(c, SECOND + 34 * MS); /* another said so since */
	CHECK_EQ(device_time_late_ns(ledger, SECOND + 31 * MS), MS + 1);
	device_time_say_not_late(c, SECOND + 35 * MS);
	CHECK_EQ(device_time_late_ns(ledger, SECOND + 31 * MS), 0);
	CHECK_EQ(device_time_gave_way_ns(ledger, SECOND), 0);
	c->gave_way_ns = SECOND;
	CHECK_EQ(device_time_gave_way_ns(ledger, SECOND), SECOND);
	c->gave_way_ns = UINT64_MAX / 2; /* damage */
	CHECK_EQ(device_time_gave_way_ns(ledger, SECOND), 0);
	ledger_close(ledger);
}

/* The longest unit of work is kept for a period in which there was work, whoever reports in what order. */
static void check_units(void)
{
	struct ledger *ledger = slot_ledger(fixture_join(fixture_tenant("units")));
	uint64_t now = 1000 * TUNING_LONGEST_NS;

	CHECK_EQ(device_time_unit_ns(ledger, 0), 0);
	device_time_of(ledger, 0)->longest_ns = 3 * MS; /* a library from before this */
	CHECK_EQ(device_time_unit_ns(ledger, 0), 3 * MS);
	device_time_note_unit(ledger, 0, now, 40 * MS);
	CHECK_EQ(device_time_unit_ns(ledger, 0), 40 * MS);
	CHECK_EQ(device_time_unit_ns(ledger, 1), 0);
	device_time_note_unit(ledger, 0, now += TUNING_LONGEST_NS, MS);
	device_time_note_unit(ledger, 0, now - TUNING_LONGEST_NS, 2 * MS); /* of another process */
	device_time_note_unit(ledger, 0, now + TUNING_LONGEST_NS - 1, MS);
	CHECK_EQ(device_time_unit_ns(ledger, 0), 40 * MS);
	device_time_note_unit(ledger, 0, now += TUNING_LONGEST_NS, MS);
	CHECK(device_time_unit_ns(ledger, 0) >= 2 * MS && device_time_unit_ns(ledger, 0) < 3 * MS);
	/* A pause forgets nothing. */
	device_time_note_unit(ledger, 0, now, 40 * MS);
	device_time_note_unit(ledger, 0, now += 100 * TUNING_LONGEST_NS, MS);
	CHECK_EQ(device_time_unit_ns(ledger, 0), 40 * MS);
	device_time_note_unit(ledger, 0, now, 3600 * SECOND); /* longer than the word has */
	CHECK(device_time_unit_ns(ledger, 0) > 60 * SECOND);
	CHECK_EQ(device_time_of(ledger, 0)->longest_ns, 3600 * SECOND);
	ledger_close(ledger);
}

int main(void)
{
	check_cover();
	check_held();
	check_places();
	check_racing_cover();
	check_achieved();
	check_history();
	check_late();
	check_wrap();
	check_damage();
	check_shared();
	check_active();
	check_awaited();
	check_units();
	return 0;
}
