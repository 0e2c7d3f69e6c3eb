/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Units of a GPU among tenants: whoever comes, goes, changes its limits or is killed while it
 * divides them, those that live have their shares, and none has what another has.
 */
#include "guest/amd/queue/allotment.h"

#include <fcntl.h>
#include <string.h>

#include "amd/cu_mask.h"
#include "amd/identity.h"
#include "base/cleanup.h"
#include "base/now.h"
#include "ledger/cu_grant.h"
#include "ledger/device_time.h"
#include "ledger/shared_file.h"
#include "tests/unit/tenant_fixture.h"

#define NAMES 3

static const struct topology_node node = {.simds = 440, .simds_per_cu = 4, .arrays = 8,
					  .arrays_per_engine = 1, .xccs = 1, .gfx_version = 90010,
					  .unique_id = 47};
static uint8_t gpu[16]; /* its name */
#define GPU 1	       /* in the ledgers */
static const char *const names[NAMES] = {"a", "b", "c"};
static struct cu_map map;
static char dirs[NAMES][PATH_MAX];
static struct allotment *allotment;

/* Its own mask, or zeroes. */
static struct cu_grant grant_of(int i)
{
	struct cu_grant grant = {0};
	struct ledger *ledger;

	CHECK_EQ(ledger_open(dirs[i], LEDGER_GUEST, &ledger), 0);
	if (cu_grant_read(device_time_of(ledger, GPU), &grant))
		memset(&grant, 0, sizeof(grant));
	ledger_close(ledger);
	return grant;
}

static uint32_t cus_of(const struct cu_grant *grant)
{
	uint32_t n = 0;

	for (int i = 0; i < CU_GRANT_WORDS; i++)
		n += (uint32_t)__builtin_popcount(grant->word[i]);
	return n;
}

static void check_units(int i, uint32_t cus)
{
	struct cu_grant grant = grant_of(i);

	CHECK_EQ(cus_of(&grant), cus);
}

static bool disjoint(int i, int j)
{
	struct cu_grant a = grant_of(i), b = grant_of(j);

	for (int w = 0; w < CU_GRANT_WORDS; w++)
		if (a.word[w] & b.word[w])
			return false;
	return true;
}

static void make_tenant(int i, uint32_t compute, uint32_t permille)
{
	struct policy policy = fixture_policy(GIB);

	policy.compute = compute;
	policy.weight = compute == POLICY_COMPUTE_SHARE;
	policy.device[0].share_permille = compute == POLICY_COMPUTE_CAP ? permille : 0;
	CHECK_EQ(tenant_create(fixture_runtime_dir(), names[i], &policy, dirs[i], sizeof(dirs[i])),
		 0);
}

static int set_share(struct policy *policy, void *arg)
{
	policy->device[0].share_permille = *(const uint32_t *)arg;
	return 0;
}

/* A process of the tenant with a queue, which divides, killed there if `fault` is a point. */
static pid_t start(int i, const char *fault)
{
	struct allotment *own;
	struct slot *slot;
	int said[2], status;
	char byte;
	pid_t pid;

	CHECK_EQ(pipe(said), 0);
	pid = fixture_fork();
	if (!pid) {
		CHECK_EQ(allotment_open(dirs[i], &own), 0);
		slot = fixture_join(dirs[i]);
		CHECK_EQ(ledger_device(slot_ledger(slot), gpu, GIB), GPU);
		cu_grant_set_queues(slot, GPU, 1);
		CHECK_EQ(fault_arm(fault), 0);
		CHECK_EQ(allotment_make(own, gpu, &map, true), 0);
		CHECK_EQ(write(said[1], "", 1), 1);
		for (;;)
			pause();
	}
	if (!fault)
		CHECK_EQ(read(said[0], &byte, 1), 1);
	else
		CHECK(waitpid(pid, &status, 0) == pid && status == SIGKILL);
	close(said[0]);
	close(said[1]);
	return pid;
}

static void make(void)
{
	CHECK_EQ(allotment_make(allotment, gpu, &map, true), 0);
}

/* Two caps, and one who has what they leave. */
static void test_shares(void)
{
	pid_t a = start(0, NULL), b, c;
	uint32_t half = 500, quarter = 250, seen;

	check_units(0, 27);
	b = start(1, NULL);
	c = start(2, NULL);
	check_units(0, 27);
	check_units(1, 44);
	check_units(2, 38);
	CHECK(disjoint(0, 1) && disjoint(0, 2) && disjoint(1, 2));
	CHECK_EQ(policy_update(dirs[0], set_share, &half), 0);
	make();
	check_units(0, 55);
	CHECK(disjoint(0, 1));
	CHECK_EQ(policy_update(dirs[0], set_share, &quarter), 0);
	seen = allotment_changes(allotment);
	make();
	CHECK(allotment_changes(allotment) != seen);
	seen = allotment_changes(allotment);
	make(); /* nothing changed */
	CHECK_EQ(allotment_changes(allotment), seen);
	fixture_kill(a);
	fixture_kill(b);
	make();
	check_units(2, 110);
	fixture_kill(c);
}

/* Whoever is killed while it divides leaves what the next one makes right. */
static void test_kills(void)
{
	static const char *const points[] = {"CU_LOCKED", "CU_TORN", "CU_TORN:2",
					     "CU_TORN:3", "CU_WRITTEN", "CU_WRITTEN:2",
					     "CU_WRITTEN:3"};

	if (!fixture_has_faults())
		return;
	for (size_t i = 0; i < sizeof(points) / sizeof(points[0]); i++) {
		pid_t a = start(0, NULL), b = start(1, NULL), c;

		start(2, points[i]);
		make();
		check_units(0, 27);
		check_units(1, 44);
		CHECK(disjoint(0, 1));
		c = start(2, NULL);
		check_units(2, 38);
		CHECK(disjoint(0, 2) && disjoint(1, 2) && disjoint(0, 1));
		fixture_kill(a);
		fixture_kill(b);
		fixture_kill(c);
	}
}

/* Any bytes in a tenant's ledger: they change its own mask at most. */
static void test_forged(void)
{
	pid_t a = start(0, NULL), b = start(1, NULL);
	struct ledger *ledger;
	struct device_time *time;
	struct cu_grant grant;
	uint32_t quarter = 250;

	CHECK_EQ(ledger_open(dirs[1], LEDGER_GUEST, &ledger), 0);
	time = device_time_of(ledger, GPU);
	memset(&grant, 0xff, sizeof(grant));
	cu_grant_write(time, &grant);
	make();
	check_units(0, 27);
	check_units(1, 44);
	CHECK(disjoint(0, 1));
	memset(&time->cu_grant, 0x5a, sizeof(time->cu_grant));
	make();
	check_units(0, 27);
	check_units(1, 44);
	CHECK(disjoint(0, 1));
	ledger_close(ledger);
	CHECK_EQ(policy_update(dirs[0], set_share, &quarter), 0);
	fixture_kill(a);
	fixture_kill(b);
}

/* Who holds the lock and does nothing keeps nobody for ever. */
static void test_stuck(void)
{
	CLEANUP_CLOSE int fd = shared_file_open(fixture_runtime_dir(), ".units", O_RDWR, 4096);

	CHECK(fd >= 0);
	CHECK_EQ(shared_file_lock(fd, INT64_C(1) << 40, 1), 0);
	CHECK_EQ(allotment_make(allotment, gpu, &map, false), -EAGAIN);
	CHECK_EQ(allotment_make(allotment, gpu, &map, true), -ETIMEDOUT);
	shared_file_unlock(fd, INT64_C(1) << 40, 1);
	make();
}

/* A tenant that is gone is noticed, once. */
static void test_look(void)
{
	pid_t c = start(2, NULL);
	uint64_t later = now_monotonic_ns();
	uint32_t seen;

	allotment_look(allotment, later);
	seen = allotment_changes(allotment);
	fixture_kill(c);
	allotment_look(allotment, later + 1000000); /* too early */
	CHECK_EQ(allotment_changes(allotment), seen);
	allotment_look(allotment, later + 1000000000);
	CHECK_EQ(allotment_changes(allotment), seen + 1);
	allotment_look(allotment, later + 2000000000);
	CHECK_EQ(allotment_changes(allotment), seen + 1);
}

int main(void)
{
	struct cu_geometry geometry;

	CHECK_EQ(cu_geometry_of_node(&node, &geometry), 0);
	CHECK_EQ(cu_map_init(&geometry, &map), 0);
	amd_identity(&node, gpu);
	make_tenant(0, POLICY_COMPUTE_CAP, 250);
	make_tenant(1, POLICY_COMPUTE_CAP, 400);
	make_tenant(2, POLICY_COMPUTE_SHARE, 0);
	CHECK_EQ(allotment_open(dirs[0], &allotment), 0);
	test_shares();
	test_kills();
	test_forged();
	test_stuck();
	test_look();
	allotment_close(allotment);
	return 0;
}
