/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The arbiter's role over real tenants: what stands in their ledgers decides what is written into
 * their policies. Clocks are numbers here; the machine's state machine has a test of its own.
 */
#include "roles/arbiter_host.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/resource.h>

#include "base/futex.h"
#include "base/now.h"
#include "base/word.h"
#include "ledger/device_time.h"
#include "ledger/turn.h"
#include "sched/arbiter.h"
#include "sched/tuning.h"
#include "tests/unit/tenant_fixture.h"

#define US NS_PER_US
#define MS NS_PER_MS
#define SECOND (1000 * MS)

static const uint8_t uuid_other[16] = "device-1 (uuid)";

struct tenant {
	char dir[PATH_MAX];
	struct ledger *ledger;
	struct policy_map *policy;
	const struct turn *turn;
	struct device_time *time[2];
};

static void join_with(struct tenant *t, const char *name, const struct policy *policy)
{
	struct slot *slot;

	CHECK_EQ(tenant_create(fixture_runtime_dir(), name, policy, t->dir, sizeof(t->dir)), 0);
	slot = fixture_join(t->dir);
	t->ledger = slot_ledger(slot);
	CHECK_EQ(ledger_device(t->ledger, uuid_other, 24 * GIB), 1);
	CHECK_EQ(policy_open(t->dir, &t->policy), 0);
	t->turn = turn_of(t->policy);
	t->time[0] = device_time_of(t->ledger, 0);
	t->time[1] = device_time_of(t->ledger, 1);
}

static void join(struct tenant *t, const char *name, uint32_t weight, uint32_t priority)
{
	struct policy policy = fixture_policy(GIB);

	policy.compute = POLICY_COMPUTE_SHARE;
	policy.weight = weight;
	policy.priority = priority;
	join_with(t, name, &policy);
}

static void quit(struct tenant *t)
{
	policy_close(t->policy);
	ledger_close(t->ledger);
}

static bool is_open(const struct tenant *t, uint64_t now_ns)
{
	return t->turn->open_until_ns > now_ns;
}

/* As a process of that tenant does. */
static struct arbiter_host *take_role(const struct tenant *t)
{
	struct arbiter_host *turns;

	CHECK_EQ(arbiter_host_open(t->dir, &turns), 0);
	CHECK(arbiter_host_take(turns, 0));
	return turns;
}

/* The role is one process's, and can be had again when that is gone. */
static void check_role(const char *dir)
{
	struct arbiter_host *one, *other;

	CHECK_EQ(arbiter_host_open(dir, &one), 0);
	CHECK_EQ(arbiter_host_open(dir, &other), 0);
	CHECK(!arbiter_host_held(one));
	CHECK(arbiter_host_take(one, 0) && arbiter_host_held(one) && arbiter_host_take(one, 0));
	CHECK(!arbiter_host_take(other, 0) && !arbiter_host_held(other));
	arbiter_host_drop(one);
	CHECK(!arbiter_host_held(one));
	CHECK(arbiter_host_take(other, 0));
	arbiter_host_drop(other);
}

/* A daemon goes before tenants: who has the role hears of it, and none takes it until that is gone. */
static void check_claim(void)
{
	uint64_t now = 700 * SECOND;
	struct tenant a = {0};
	struct arbiter_host *tenant, *daemon, *other;

	join(&a, "claims", 1, POLICY_PRIORITY_NORMAL);
	CHECK_EQ(arbiter_host_open(a.dir, &tenant), 0);
	CHECK(arbiter_host_take(tenant, 0));
	arbiter_host_step(tenant, now);
	CHECK(!arbiter_host_is_claimed(tenant));
	CHECK_EQ(arbiter_host_claim(fixture_runtime_dir(), &daemon), 0);
	CHECK_EQ(arbiter_host_claim(fixture_runtime_dir(), &other), -EAGAIN);
	CHECK(!arbiter_host_take(daemon, 0));
	CHECK(arbiter_host_is_claimed(tenant));
	arbiter_host_drop(tenant);
	CHECK(is_open(&a, now) && a.turn->beat_ns == now); /* as it was told */
	CHECK(!arbiter_host_take(tenant, 0));
	CHECK(arbiter_host_take(daemon, 0) && !arbiter_host_is_claimed(daemon));
	arbiter_host_step(daemon, now += MS);
	CHECK_EQ(a.turn->beat_ns, now);
	CHECK(arbiter_host_due_ns(tenant) > now);
	arbiter_host_close(daemon);
	CHECK_EQ(arbiter_host_due_ns(tenant), 0);
	CHECK(arbiter_host_take(tenant, 0) && !arbiter_host_is_claimed(tenant));
	/* One that is gone by now claims nothing. */
	CHECK_EQ(arbiter_host_claim(fixture_runtime_dir(), &daemon), 0);
	arbiter_host_close(daemon);
	CHECK(!arbiter_host_is_claimed(tenant));
	arbiter_host_close(tenant);
	arbiter_host_close(NULL);
	quit(&a);
}

/* Tries for the role now and then, and answers whether it was had by then. */
static bool try_until(struct arbiter_host *host, uint64_t *now_ns, uint64_t until_ns)
{
	bool had = false;

	for (; !had && *now_ns < until_ns; *now_ns += 2 * MS)
		had = arbiter_host_take(host, *now_ns);
	return had;
}

/* Who is stopped loses the role, though it keeps its lock, and finds out when it goes on. */
static void check_stopped(bool claimed)
{
	uint64_t now = 800 * SECOND, due;
	struct tenant a = {0};
	struct arbiter_host *stopped, *other, *third;

	join(&a, claimed ? "stops-claimed" : "stops", 1, POLICY_PRIORITY_NORMAL);
	if (claimed)
		CHECK_EQ(arbiter_host_claim(fixture_runtime_dir(), &stopped), 0);
	else
		CHECK_EQ(arbiter_host_open(a.dir, &stopped), 0);
	CHECK_EQ(arbiter_host_open(a.dir, &other), 0);
	CHECK_EQ(arbiter_host_open(a.dir, &third), 0);
	CHECK(arbiter_host_take(stopped, now));
	for (int i = 0; i < 30; i++) { /* it makes its steps */
		due = arbiter_host_step(stopped, now);
		CHECK(!try_until(other, &now, due + MS));
	}
	CHECK(!try_until(other, &now, due + TUNING_STOPPED_NS - 4 * MS));
	/* One that nobody tried to replace in between may just have slept. */
	now += 1000 * SECOND;
	for (int i = 0; i < 10; i++) {
		CHECK(!try_until(other, &now, now + TUNING_STOPPED_NS / 10));
		CHECK(!arbiter_host_take(third, now));
	}
	CHECK(try_until(other, &now, now + 4 * MS));
	CHECK(!arbiter_host_take(third, now) && !arbiter_host_take(third, now += 4 * MS));
	CHECK(arbiter_host_held(other) && !arbiter_host_held(stopped));
	arbiter_host_step(other, now);
	CHECK(!arbiter_host_take(stopped, now));
	CHECK_EQ(arbiter_host_is_claimed(other), claimed);
	CHECK(arbiter_host_held(other));
	arbiter_host_drop(other);
	CHECK(arbiter_host_take(stopped, now) && arbiter_host_held(stopped));
	arbiter_host_close(stopped);
	CHECK(arbiter_host_take(other, now));
	arbiter_host_close(other);
	arbiter_host_close(third);
	quit(&a);
}

static void *ring_late(void *arg)
{
	usleep(20000);
	word_publish_add(ledger_bell(arg), 1);
	futex_wake_all(ledger_bell(arg));
	return NULL;
}

/* A tenant in a container reaches no file but its own: whoever has the role hears its ledger's bell. */
static void check_apart(void)
{
	uint64_t now = now_monotonic_ns();
	struct tenant a = {0};
	struct arbiter_host *daemon;
	pthread_t thread;

	arbiter_host_announce(fixture_runtime_dir());
	join(&a, "apart", 1, POLICY_PRIORITY_NORMAL);
	CHECK_EQ(arbiter_host_claim(fixture_runtime_dir(), &daemon), 0);
	CHECK(arbiter_host_take(daemon, 0));
	arbiter_host_step(daemon, now);
	CHECK(!arbiter_host_rest(daemon));
	CHECK_EQ(tenant_open_to_all(fixture_runtime_dir(), "apart"), 0);
	arbiter_host_listen(daemon);
	arbiter_host_announce(fixture_runtime_dir());
	arbiter_host_sleep(daemon, UINT64_MAX); /* it has heard of it */
	arbiter_host_step(daemon, now += MS);
	CHECK(arbiter_host_rest(daemon));
	arbiter_host_listen(daemon);
	CHECK_EQ(pthread_create(&thread, NULL, ring_late, a.ledger), 0);
	arbiter_host_sleep(daemon, UINT64_MAX);
	pthread_join(thread, NULL);
	/* One that rings all the time is passed over for a while, and nobody else. */
	arbiter_host_listen(daemon);
	word_publish_add(ledger_bell(a.ledger), 1);
	arbiter_host_sleep(daemon, UINT64_MAX);
	/* It is one as long as it is there, whoever lives in it. */
	arbiter_host_step(daemon, now += MS);
	quit(&a);
	arbiter_host_step(daemon, now += 2 * SECOND);
	CHECK(arbiter_host_rest(daemon));
	CHECK_EQ(tenant_remove(fixture_runtime_dir(), "apart"), 0);
	arbiter_host_step(daemon, now += 2 * SECOND);
	CHECK(!arbiter_host_rest(daemon));
	arbiter_host_close(daemon);
}

/* Whoever made the file was killed before it had a size: the next one goes on. */
static void check_half_made(void)
{
	char path[PATH_MAX + 16], dir[PATH_MAX + 8];
	struct arbiter_host *turns;
	int fd;

	snprintf(path, sizeof(path), "%s/.arbiter", fixture_runtime_dir());
	snprintf(dir, sizeof(dir), "%s/a", fixture_runtime_dir());
	fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
	CHECK(fd >= 0);
	close(fd);
	CHECK_EQ(arbiter_host_open(dir, &turns), 0);
	CHECK(arbiter_host_take(turns, 0));
	arbiter_host_drop(turns);
}

/* Who waits for all that it launched ends its turn with that, if the next burst is past the slice. */
static void check_rests(void)
{
	uint64_t now = 100 * SECOND, due;
	struct tenant a = {0}, b = {0};
	struct arbiter_host *turns;

	for (int rests = 0; rests < 2; rests++, now += SECOND) {
		join(&a, rests ? "rests" : "goes-on", 1, POLICY_PRIORITY_NORMAL);
		join(&b, rests ? "next" : "waits", 1, POLICY_PRIORITY_NORMAL);
		turns = take_role(&a);
		a.time[0]->demand_until_ns = now + SECOND;
		b.time[0]->busy_ns = 1; /* it has used the device */
		arbiter_host_step(turns, now += MS);
		b.time[0]->demand_until_ns = now + SECOND;
		now += MS;
		due = now + 400 * NS_PER_US;
		a.time[0]->busy_ns = 23 * MS / 2;
		a.time[0]->due_ns = due;
		a.time[0]->work_until_ns = now + 10 * MS;
		a.time[0]->rests_until_ns = rests ? due : 0;
		arbiter_host_step(turns, now);
		CHECK(is_open(&a, now) == !rests && is_open(&b, now) == rests);
		if (rests)
			CHECK_EQ(b.turn->open_from_ns, due - arbiter_defaults.edge_ns);
		arbiter_host_drop(turns);
		quit(&a);
		quit(&b);
	}
}

/*
 * Work that is late or was not foreseen goes on, and is waited for: but it is not a millisecond of
 * its owner's turn for that.
 */
static void check_late(void)
{
	uint64_t now = 120 * SECOND;
	struct tenant a = {0}, b = {0};
	struct arbiter_host *turns;

	join(&a, "late", 1, POLICY_PRIORITY_NORMAL);
	join(&b, "after", 1, POLICY_PRIORITY_NORMAL);
	turns = take_role(&a);
	a.time[0]->demand_until_ns = now + SECOND;
	b.time[0]->busy_ns = 1; /* it has used the device */
	arbiter_host_step(turns, now += MS);
	b.time[0]->demand_until_ns = now + SECOND;
	for (int over = 0; over < 2; over++) {
		now += MS;
		a.time[0]->busy_ns = (over ? 25 : 23) * MS / 2;
		a.time[0]->work_until_ns = now + 10 * MS;
		for (int unforeseen = 0; unforeseen < 2; unforeseen++) {
			a.time[0]->unforeseen_until_ns = now + unforeseen * SECOND;
			a.time[0]->due_ns = now + (uint64_t)unforeseen * 10 * NS_PER_US;
			arbiter_host_step(turns, now);
			CHECK_EQ(is_open(&a, now), !over);
			CHECK(!is_open(&b, now));
		}
	}
	a.time[0]->work_until_ns = a.time[0]->due_ns = now;
	a.time[0]->demand_until_ns = 0;
	arbiter_host_step(turns, now);
	CHECK(is_open(&b, now));
	arbiter_host_drop(turns);
	quit(&a);
	quit(&b);
}

static void check_turns(void)
{
	uint64_t now = 100 * SECOND, next;
	struct tenant a = {0}, b = {0};
	struct arbiter_host *turns;

	join(&a, "a", 1, POLICY_PRIORITY_NORMAL);
	join(&b, "b", 3, POLICY_PRIORITY_NORMAL);
	check_role(a.dir);
	turns = take_role(&a);
	arbiter_host_step(turns, now);
	CHECK(is_open(&a, now) && is_open(&b, now)); /* neither has used a device */
	CHECK(!arbiter_host_busy(turns));
	CHECK_EQ(a.turn->beat_ns, now);
	a.time[0]->demand_until_ns = b.time[0]->demand_until_ns = now + SECOND;
	now += MS;
	next = arbiter_host_step(turns, now);
	CHECK(next > now && arbiter_host_busy(turns));
	CHECK(is_open(&a, now) != is_open(&b, now));
	CHECK(a.turn->flags == TURN_CONTENDED && b.turn->flags == TURN_CONTENDED);
	CHECK_EQ(a.turn->entitled_permille, 250);
	CHECK_EQ(b.turn->entitled_permille, 750);
	/* Other devices: no rivals. */
	b.time[0]->demand_until_ns = 0;
	b.time[1]->demand_until_ns = now + SECOND;
	now += MS;
	arbiter_host_step(turns, now);
	CHECK(is_open(&a, now) && is_open(&b, now));
	/* Who dies is out of the way. */
	b.time[0]->demand_until_ns = now + SECOND;
	for (int i = 0; i < 10; i++)
		arbiter_host_step(turns, now += 2 * MS);
	CHECK(is_open(&a, now) != is_open(&b, now));
	quit(&b);
	now += 60 * MS;
	arbiter_host_step(turns, now);
	CHECK(is_open(&a, now) && !a.turn->flags);
	CHECK_EQ(a.turn->entitled_permille, 1000);
	arbiter_host_drop(turns);
	CHECK_EQ(a.turn->beat_ns, now);
	quit(&a);
}

/* Who comes is seen at once when it says so, as every process does, and soon in any case. */
static void check_comers(void)
{
	uint64_t now = 500 * SECOND;
	struct tenant first = {0}, said = {0}, silent = {0};
	struct arbiter_host *turns, *own;

	join(&first, "first", 1, POLICY_PRIORITY_NORMAL);
	turns = take_role(&first);
	arbiter_host_step(turns, now);
	join(&said, "said", 1, POLICY_PRIORITY_NORMAL);
	CHECK_EQ(arbiter_host_open(said.dir, &own), 0);
	arbiter_host_step(turns, now += MS);
	CHECK(is_open(&said, now));
	join(&silent, "silent", 1, POLICY_PRIORITY_NORMAL);
	arbiter_host_step(turns, now += MS);
	CHECK(!is_open(&silent, now));
	arbiter_host_step(turns, now += SECOND);
	CHECK(is_open(&silent, now));
	/* One that has ended, and is there again before anybody looked. */
	quit(&said);
	CHECK(policy_is_of(first.policy, first.dir) && !policy_is_of(first.policy, said.dir));
	CHECK_EQ(tenant_remove(fixture_runtime_dir(), "said"), 0);
	join(&said, "said", 1, POLICY_PRIORITY_NORMAL);
	CHECK_EQ(arbiter_host_open(said.dir, &own), 0);
	arbiter_host_step(turns, now += MS);
	CHECK(is_open(&said, now));
	arbiter_host_drop(turns);
	quit(&first);
	quit(&said);
	quit(&silent);
}

/* Page faults of twenty looks at all tenants. */
static long faults_of_looks(struct arbiter_host *turns, uint64_t *now)
{
	struct rusage before, after;

	getrusage(RUSAGE_SELF, &before);
	for (int i = 0; i < 20; i++)
		arbiter_host_step(turns, *now += 2 * SECOND);
	getrusage(RUSAGE_SELF, &after);
	return after.ru_minflt - before.ru_minflt;
}

/* Tenants that nobody lives in cost next to nothing: no file of theirs is mapped and read. */
static void check_dead(void)
{
	uint64_t now = 600 * SECOND;
	struct tenant alive = {0}, dead = {0};
	struct arbiter_host *turns;
	char name[16];
	long without;

	join(&alive, "alive", 1, POLICY_PRIORITY_NORMAL);
	turns = take_role(&alive);
	arbiter_host_step(turns, now);
	without = faults_of_looks(turns, &now);
	for (int i = 0; i < 20; i++) {
		snprintf(name, sizeof(name), "dead%d", i);
		join(&dead, name, 1, POLICY_PRIORITY_NORMAL);
		quit(&dead);
	}
	arbiter_host_step(turns, now += 2 * SECOND);
	CHECK(faults_of_looks(turns, &now) < without + 200);
	CHECK(is_open(&alive, now));
	arbiter_host_drop(turns);
	quit(&alive);
}

/*
 * Work counts on whichever device it is, also where another has done more in all: one with long
 * kernels on its second device has as much of that as one with short ones.
 */
static void check_second_device(void)
{
	uint64_t now = 200 * SECOND, done = 0, of_long, of_short;
	struct tenant longer = {0}, shorter = {0};
	struct arbiter_host *turns;

	join(&longer, "longer", 1, POLICY_PRIORITY_NORMAL);
	join(&shorter, "shorter", 1, POLICY_PRIORITY_NORMAL);
	longer.time[0]->busy_ns = 1000 * SECOND;
	turns = take_role(&longer);
	longer.time[1]->demand_until_ns = now + 10 * SECOND;
	shorter.time[1]->demand_until_ns = now + 10 * SECOND;
	for (int i = 0; i < 2000; i++, now += MS) {
		if (done && now >= done) {
			longer.time[1]->busy_ns += 20 * MS;
			done = 0;
		}
		arbiter_host_step(turns, now);
		if (is_open(&longer, now) && !done)
			longer.time[1]->work_until_ns = done = now + 20 * MS;
		else if (is_open(&shorter, now) && !done)
			shorter.time[1]->busy_ns += MS;
	}
	of_long = longer.time[1]->busy_ns;
	of_short = shorter.time[1]->busy_ns;
	CHECK(of_long + of_short > 1800 * MS);
	CHECK(of_long > 850 * MS && of_short > 850 * MS);
	arbiter_host_drop(turns);
	quit(&longer);
	quit(&shorter);
}

/* Ranks that work at once, each billed when the other is not, are not charged twice. */
static void check_ranks(void)
{
	uint64_t now = 400 * SECOND;
	struct tenant ranks = {0}, single = {0};
	struct arbiter_host *turns;

	join(&ranks, "ranks", 1, POLICY_PRIORITY_NORMAL);
	join(&single, "single", 1, POLICY_PRIORITY_NORMAL);
	turns = take_role(&ranks);
	for (int d = 0; d < 2; d++)
		ranks.time[d]->demand_until_ns = now + 10 * SECOND;
	single.time[0]->demand_until_ns = now + 10 * SECOND;
	for (int i = 0, turn = 0; i < 2000; i++, now += MS) {
		arbiter_host_step(turns, now);
		CHECK(is_open(&ranks, now) != is_open(&single, now));
		/* Of the ranks' devices the first alone is another's, too; and when a turn ended is seen. */
		if (i > 2)
			CHECK(ranks.turn->shared == 1 && single.turn->shared == 1);
		CHECK(i < 50 || is_open(&single, now) || single.turn->open_until_ns);
		if (is_open(&ranks, now))
			ranks.time[turn++ % 2]->busy_ns += 2 * MS;
		else
			single.time[0]->busy_ns += MS;
	}
	CHECK(ranks.time[0]->busy_ns > 850 * MS && single.time[0]->busy_ns > 850 * MS);
	arbiter_host_drop(turns);
	quit(&ranks);
	quit(&single);
}

static void check_urged(void)
{
	uint64_t now = 300 * SECOND;
	struct tenant low = {0}, high = {0};
	struct arbiter_host *turns;

	join(&low, "low", 1, POLICY_PRIORITY_LOW);
	join(&high, "high", 1, POLICY_PRIORITY_HIGH);
	turns = take_role(&low);
	low.time[0]->demand_until_ns = now + SECOND;
	high.time[0]->busy_ns = MS; /* it has used the device */
	arbiter_host_step(turns, now);
	CHECK(is_open(&low, now) && is_open(&high, now)); /* it need not ask */
	CHECK_EQ(low.turn->flags, TURN_URGED);
	high.time[0]->demand_until_ns = now + SECOND;
	arbiter_host_step(turns, now += MS);
	CHECK(is_open(&high, now) && !is_open(&low, now));
	CHECK_EQ(high.turn->flags, TURN_CONTENDED | TURN_FIRST);
	arbiter_host_drop(turns);
	quit(&low);
	quit(&high);
}

/* Shares are of the devices that the policy has, and not of others that are in the ledger. */
static void check_shares(void)
{
	struct policy policy = fixture_policy(GIB);
	struct tenant a = {0}, b = {0};
	struct arbiter_host *turns;
	uint64_t now = 900 * SECOND;

	policy.compute = POLICY_COMPUTE_SHARE;
	policy.flags = 0;
	memcpy(policy.device[0].uuid, fixture_uuid, sizeof(fixture_uuid));
	policy.device[0].share_permille = 20;
	join_with(&a, "share-a", &policy);
	policy.device[0].share_permille = 60;
	join_with(&b, "share-b", &policy);
	turns = take_role(&a);
	a.time[0]->demand_until_ns = b.time[0]->demand_until_ns = now + SECOND;
	arbiter_host_step(turns, now);
	CHECK_EQ(a.turn->entitled_permille, 250);
	CHECK_EQ(b.turn->entitled_permille, 750);
	arbiter_host_close(turns);
	quit(&a);
	quit(&b);
}

/* A tenant that writes devices into its ledger: as many as there can be. */
static void join_forged(struct tenant *t, const char *name, int first)
{
	struct policy policy = fixture_policy(GIB);
	uint8_t uuid[16] = "forged of ours";
	struct slot *slot;

	policy.compute = POLICY_COMPUTE_SHARE;
	policy.weight = 1;
	CHECK_EQ(tenant_create(fixture_runtime_dir(), name, &policy, t->dir, sizeof(t->dir)), 0);
	CHECK_EQ(ledger_open(t->dir, LEDGER_GUEST, &t->ledger), 0);
	CHECK_EQ(slot_claim(t->ledger, &slot), 0);
	CHECK_EQ(policy_open(t->dir, &t->policy), 0);
	t->turn = turn_of(t->policy);
	for (int d = 0; d < POLICY_DEVICES; d++) {
		uuid[0] = (uint8_t)(first + d);
		CHECK_EQ(ledger_device(t->ledger, uuid, GIB), d);
	}
}

/* Two who work on a device each. */
static void check_apart_on(struct arbiter_host *turns, struct tenant *a, struct tenant *b,
			   uint64_t now)
{
	a->time[0]->demand_until_ns = b->time[1]->demand_until_ns = now + 10 * SECOND;
	for (int i = 0; i < 100; i++) {
		arbiter_host_step(turns, now += MS);
		CHECK(is_open(a, now) && is_open(b, now));
		CHECK(!a->turn->flags && !b->turn->flags);
	}
}

/* Devices that are not there take no place from those that are, for which tenants would take turns. */
static void check_forged(void)
{
	struct tenant a = {0}, b = {0}, forged = {0};
	uint64_t now = 950 * SECOND;
	struct arbiter_host *turns;

	join_forged(&forged, "forged", 1);
	CHECK_EQ(arbiter_host_claim(fixture_runtime_dir(), &turns), 0);
	arbiter_host_know(turns, fixture_uuid);
	arbiter_host_know(turns, uuid_other);
	CHECK(arbiter_host_take(turns, 0));
	arbiter_host_step(turns, now += 2 * SECOND);
	join(&a, "real-a", 1, POLICY_PRIORITY_NORMAL);
	join(&b, "real-b", 1, POLICY_PRIORITY_NORMAL);
	check_apart_on(turns, &a, &b, now += 2 * SECOND);
	quit(&forged);
	quit(&a);
	quit(&b);
	arbiter_host_close(turns);
}

/* Where nobody knows which are there, places are given back with who had them. */
static void check_forged_and_gone(void)
{
	struct tenant a = {0}, b = {0}, forged = {0};
	uint64_t now = 970 * SECOND;
	struct arbiter_host *turns;
	char name[16];

	join(&a, "stays-a", 1, POLICY_PRIORITY_NORMAL);
	turns = take_role(&a);
	for (int i = 0; i < 3; i++) {
		snprintf(name, sizeof(name), "forged-%d", i);
		join_forged(&forged, name, 1 + i * POLICY_DEVICES);
		arbiter_host_step(turns, now += 2 * SECOND);
		quit(&forged);
		arbiter_host_step(turns, now += 2 * SECOND);
	}
	join(&b, "comes-b", 1, POLICY_PRIORITY_NORMAL);
	quit(&a);
	join(&a, "comes-a", 1, POLICY_PRIORITY_NORMAL);
	check_apart_on(turns, &a, &b, now += 2 * SECOND);
	arbiter_host_close(turns);
	quit(&a);
	quit(&b);
}

/* Nobody waits for a tenant on a device that this was not given, whatever its ledger says. */
static void check_not_given(void)
{
	struct policy policy = fixture_policy(GIB);
	struct tenant a = {0}, b = {0};
	struct arbiter_host *turns;
	uint64_t now = 990 * SECOND;

	policy.compute = POLICY_COMPUTE_SHARE;
	policy.weight = 1;
	policy.flags = 0;
	memcpy(policy.device[0].uuid, fixture_uuid, sizeof(fixture_uuid));
	join_with(&a, "given-one", &policy);
	join(&b, "given-all", 1, POLICY_PRIORITY_NORMAL);
	turns = take_role(&b);
	a.time[1]->demand_until_ns = a.time[1]->work_until_ns = now + 10 * SECOND;
	check_apart_on(turns, &a, &b, now);
	arbiter_host_close(turns);
	quit(&a);
	quit(&b);
}

static uint32_t waits_of(const struct tenant *t)
{
	struct policy_told told;
	struct policy policy;

	CHECK_EQ(policy_load_all(t->dir, &policy, &told), 0);
	return told.waits.n;
}

/* Each of the two waits for the other's turns for a second. */
static void wait_for_turns(struct arbiter_host *turns, const struct tenant *a,
			   const struct tenant *b, uint64_t *now)
{
	uint64_t until = *now + SECOND;

	a->time[0]->demand_until_ns = b->time[0]->demand_until_ns = until;
	for (; *now < until; *now += MS) {
		const struct tenant *t = is_open(a, *now) ? a : b;

		t->time[0]->busy_ns += MS;
		t->time[0]->work_until_ns = t->time[0]->due_ns = *now + MS / 2;
		arbiter_host_step(turns, *now);
	}
	arbiter_host_step(turns, *now += SECOND);
}

/* How long a tenant waited is still told after a time in which nobody worked, or had the role. */
static void check_waits_are_kept(bool rests)
{
	uint64_t now = 1000 * SECOND;
	struct tenant first = {0}, a = {0}, b = {0};
	struct arbiter_host *turns;
	uint32_t waited;

	join(&first, rests ? "goes-first" : "goes-too", 1, POLICY_PRIORITY_NORMAL);
	join(&a, rests ? "rested-a" : "dropped-a", 1, POLICY_PRIORITY_NORMAL);
	join(&b, rests ? "rested-b" : "dropped-b", 1, POLICY_PRIORITY_NORMAL);
	turns = take_role(&b);
	wait_for_turns(turns, &a, &b, &now);
	waited = waits_of(&a);
	CHECK(waited > 10);
	quit(&first); /* the others have other entries after this */
	if (rests)
		arbiter_host_rest(turns);
	else
		arbiter_host_drop(turns);
	CHECK(arbiter_host_take(turns, now));
	wait_for_turns(turns, &a, &b, &now);
	CHECK(waits_of(&a) > waited + 10);
	arbiter_host_step(turns, now += 70 * SECOND);
	CHECK_EQ(waits_of(&a), 0);
	arbiter_host_close(turns);
	quit(&a);
	quit(&b);
}

int main(void)
{
	check_half_made();
	check_claim();
	check_stopped(false);
	check_stopped(true);
	check_apart();
	check_turns();
	check_rests();
	check_late();
	check_comers();
	check_dead();
	check_second_device();
	check_ranks();
	check_urged();
	check_shares();
	check_forged();
	check_forged_and_gone();
	check_not_given();
	check_waits_are_kept(true);
	check_waits_are_kept(false);
	return 0;
}
