/* SPDX-License-Identifier: Apache-2.0 */
/* The tenants that a job of a role knows: each that lives, once, and nothing of one that is gone. */
#include "roles/roster.h"

#include <stdio.h>

#include "base/now.h"
#include "tests/unit/tenant_fixture.h"

#define LOOK_NS (50 * NS_PER_MS)

static struct role role;
static struct roster roster;
static bool lives = true, refuses;
static int asked, joined[ROSTER_TENANTS];

static const char *any_dir(void)
{
	static char dir[PATH_MAX + 2];

	snprintf(dir, sizeof(dir), "%s/t", fixture_runtime_dir());
	return dir;
}

static bool job_lives(const char *dir)
{
	(void)dir;
	asked++;
	return lives;
}

static int job_join(void *arg, int i, const char *dir)
{
	(void)dir;
	CHECK(arg == &roster && !joined[i]);
	joined[i] = 1;
	return refuses ? -1 : 0;
}

static void job_leave(void *arg, int i)
{
	CHECK(arg == &roster && joined[i]);
	joined[i] = 0;
}

static const struct roster_job job = {job_lives, job_join, job_leave, LOOK_NS};

static void make(const char *name)
{
	const struct policy policy = fixture_policy(GIB);
	char dir[PATH_MAX];

	CHECK_EQ(tenant_create(fixture_runtime_dir(), name, &policy, dir, sizeof(dir)), 0);
}

static void destroy(const char *name)
{
	CHECK_EQ(tenant_remove(fixture_runtime_dir(), name), 0);
}

static const char *path_of(const char *name)
{
	static char dir[PATH_MAX];

	CHECK_EQ(tenant_path(fixture_runtime_dir(), name, dir, sizeof(dir)), 0);
	return dir;
}

static int count(void)
{
	int n = 0;

	for (int i = 0; i < roster.n; i++) {
		CHECK_EQ(joined[i], roster_has(&roster, i));
		n += joined[i];
	}
	return n;
}

static int scan(uint64_t now_ns)
{
	asked = 0;
	roster_scan(&roster, &role, now_ns);
	return count();
}

/* A tenant is found when it rings, or a second later. */
static void check_comes(void)
{
	uint64_t now = NS_PER_S;

	make("a");
	CHECK_EQ(scan(now), 1);
	CHECK(!roster_scan(&roster, &role, now + 1));
	make("b");
	CHECK_EQ(scan(now += LOOK_NS), 1);
	CHECK_EQ(asked, 1);
	role_file_tell(&role_file_residency, fixture_runtime_dir());
	CHECK_EQ(scan(now), 2);
	make("c");
	CHECK_EQ(scan(now += NS_PER_S), 3);
	CHECK(!strcmp(roster.entry[2].name, "c"));
}

/* One that has died or was removed goes, and its entry is the next comer's. */
static void check_goes(void)
{
	uint64_t now = 10 * NS_PER_S;

	CHECK_EQ(scan(now), 3);
	destroy("b");
	CHECK_EQ(scan(now += NS_PER_S), 2);
	make("d");
	CHECK_EQ(scan(now += NS_PER_S), 3);
	CHECK(!strcmp(roster.entry[1].name, "d"));
	/* Removed and made again between two looks. */
	destroy("a");
	make("a");
	CHECK_EQ(scan(now += NS_PER_S), 3);
	CHECK(policy_is_of(roster.entry[0].policy, path_of("a")));
	lives = false;
	CHECK_EQ(scan(now += LOOK_NS), 0);
	lives = true;
	CHECK_EQ(scan(now += NS_PER_S), 3);
	roster_leave_all(&roster);
	CHECK_EQ(count(), 0);
	CHECK_EQ(scan(now), 3);
}

/* Of a tenant that the job cannot open nothing is kept, and it is tried again. */
static void check_refused(void)
{
	uint64_t now = 20 * NS_PER_S;

	roster_leave_all(&roster);
	refuses = true;
	CHECK_EQ(scan(now), 0);
	CHECK(!joined[0] && !roster_has(&roster, 0));
	refuses = false;
	CHECK_EQ(scan(now += NS_PER_S), 3);
}

static void check_full(void)
{
	uint64_t now = 30 * NS_PER_S;
	char name[16];

	for (int i = 0; i < ROSTER_TENANTS; i++) {
		snprintf(name, sizeof(name), "n%d", i);
		make(name);
	}
	CHECK_EQ(scan(now), ROSTER_TENANTS);
	destroy("a");
	CHECK_EQ(scan(now += NS_PER_S), ROSTER_TENANTS - 1);
	CHECK_EQ(scan(now += NS_PER_S), ROSTER_TENANTS); /* one of those beyond has its place */
	roster_leave_all(&roster);
}

int main(void)
{
	CHECK_EQ(role_open(&role, &role_file_residency, any_dir()), 0);
	roster.job = &job;
	roster.arg = &roster;
	check_comes();
	check_goes();
	check_refused();
	check_full();
	role_close(&role);
	return 0;
}
