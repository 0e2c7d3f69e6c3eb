/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The role of residency where its holder is disturbed: by a tenant in a container that is not to be
 * believed, and by being stopped itself.
 */
#include "roles/residency_host.h"

#include <stdio.h>

#include "base/now.h"
#include "ledger/role/residency_file.h"
#include "ledger/swap.h"
#include "sched/tuning.h"
#include "tests/unit/tenant_fixture.h"

/* A tenant that takes turns, with this process in it, which answers nothing. */
static struct slot *join(const char *name, char dir[static PATH_MAX])
{
	struct policy policy = fixture_policy(24 * GIB);

	policy.flags |= POLICY_SWAPPABLE | POLICY_OVERCOMMIT;
	CHECK_EQ(tenant_create(fixture_runtime_dir(), name, &policy, dir, PATH_MAX), 0);
	return fixture_join(dir);
}

static struct residency_host *take_role(const char *dir)
{
	struct residency_host *host;

	CHECK_EQ(residency_host_open(dir, &host), 0);
	CHECK(residency_host_take(host, now_monotonic_ns()));
	return host;
}

static uint64_t promised(struct residency_host *host)
{
	return residency_file_promised(residency_host_file(host), fixture_uuid);
}

/*
 * A process of the container cuts the tenant's ledger short. What it is promised counts as long as
 * it lives, and the role holder lives on.
 */
static void check_cut(void)
{
	char dir[PATH_MAX], other[PATH_MAX], ledger[PATH_MAX + 8];
	struct slot *slot = join("turns", dir);
	struct residency_host *host = take_role(dir);
	uint64_t now = now_monotonic_ns();
	pid_t pid;
	int ready[2];
	char c;

	snprintf(other, sizeof(other), "%s", fixture_tenant("apart"));
	CHECK_EQ(tenant_open_to_all(fixture_runtime_dir(), "apart"), 0);
	CHECK_EQ(pipe(ready), 0);
	pid = fixture_fork();
	if (pid == 0) {
		fixture_join(other);
		CHECK_EQ(write(ready[1], "", 1), 1);
		pause();
		_exit(0);
	}
	CHECK_EQ(read(ready[0], &c, 1), 1);
	residency_host_step(host, now += NS_PER_S);
	CHECK_EQ(promised(host), GIB);
	snprintf(ledger, sizeof(ledger), "%s/ledger", other);
	for (off_t bytes = 1 << 20; bytes >= 0; bytes -= 1 << 18) {
		CHECK_EQ(truncate(ledger, bytes), 0);
		residency_host_step(host, now += NS_PER_MS);
		CHECK_EQ(promised(host), GIB);
	}
	residency_host_step(host, now += 2 * NS_PER_S);
	fixture_kill(pid);
	residency_host_step(host, now += 2 * NS_PER_S);
	CHECK_EQ(promised(host), 0);
	residency_host_close(host);
	CHECK_EQ(tenant_remove(fixture_runtime_dir(), "apart"), 0);
	ledger_close(slot_ledger(slot));
}

/*
 * The role holder is stopped for a moment, perhaps with the tenant that it has just asked to leave.
 * The tenant has as long to answer as otherwise: it is silent while somebody hears.
 */
static void check_late(void)
{
	char dir[PATH_MAX], other[PATH_MAX];
	struct slot *waits = join("waits", dir), *holds = join("holds", other);
	struct residency_host *host = take_role(dir);
	uint64_t now = now_monotonic_ns(), gone_on;
	struct policy_map *policy;

	CHECK_EQ(policy_open(other, &policy), 0);
	quota_charge(holds, 0, CAT_DATA, 20 * GIB);
	swap_wish_of(slot_ledger(waits), slot_index(waits), 0)->more_bytes = 10 * GIB;
	swap_use_of(slot_ledger(waits), slot_index(waits))->waiting = 1;
	residency_host_step(host, now);
	for (int i = 0; i < 1000 && swap_phase_of(*swap_request(policy)) != SWAP_PREPARE; i++)
		residency_host_step(host, now += 5 * NS_PER_MS);
	CHECK_EQ(swap_phase_of(*swap_request(policy)), SWAP_PREPARE);
	for (int i = 0; i < 300; i++)
		residency_host_step(host, now += NS_PER_MS);
	gone_on = now += 9 * NS_PER_S / 10;
	for (; now < gone_on + TUNING_RESIDENCY_ASLEEP_NS - NS_PER_S / 2; now += NS_PER_MS) {
		residency_host_step(host, now);
		CHECK_EQ(swap_phase_of(*swap_request(policy)), SWAP_PREPARE);
	}
	for (; now < gone_on + TUNING_RESIDENCY_ASLEEP_NS; now += NS_PER_MS)
		residency_host_step(host, now);
	CHECK_EQ(swap_phase_of(*swap_request(policy)), SWAP_RUN);
	residency_host_close(host);
	policy_close(policy);
	ledger_close(slot_ledger(waits));
	ledger_close(slot_ledger(holds));
}

int main(void)
{
	check_cut();
	check_late();
	return 0;
}
