/* SPDX-License-Identifier: Apache-2.0 */
/* The role of residency among tenants of which one is in a container and not to be believed. */
#include "roles/residency_host.h"

#include <stdio.h>

#include "base/now.h"
#include "ledger/role/residency_file.h"
#include "tests/unit/tenant_fixture.h"

/* A tenant that takes turns, with this process in it. */
static struct residency_host *take_role(char dir[static PATH_MAX])
{
	struct policy policy = fixture_policy(24 * GIB);
	struct residency_host *host;

	policy.flags |= POLICY_SWAPPABLE | POLICY_OVERCOMMIT;
	CHECK_EQ(tenant_create(fixture_runtime_dir(), "turns", &policy, dir, PATH_MAX), 0);
	fixture_join(dir);
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
}

int main(void)
{
	check_cut();
	return 0;
}
