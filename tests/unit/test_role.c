/* SPDX-License-Identifier: Apache-2.0 */
/* One process has a role, whoever is killed or stopped, and whatever became of the file. */
#include "roles/role.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/now.h"
#include "base/word.h"
#include "ledger/shared_file.h"
#include "tests/unit/tenant_fixture.h"

#define AT	   (INT64_C(1) << 40)
#define STOPPED_NS (100 * NS_PER_MS)

static const struct role_file *const with_terms[] = {&role_file_arbiter, &role_file_residency};

static const char *any_dir(void)
{
	static char dir[PATH_MAX + 2];

	snprintf(dir, sizeof(dir), "%s/t", fixture_runtime_dir());
	return dir;
}

static struct role open_role(const struct role_file *file)
{
	struct role role = {.stopped_ns = STOPPED_NS};

	CHECK_EQ(role_open(&role, file, any_dir()), 0);
	return role;
}

static struct role claim_role(const struct role_file *file)
{
	struct role role = {.stopped_ns = STOPPED_NS};

	CHECK_EQ(role_claim(&role, file, fixture_runtime_dir()), 0);
	return role;
}

static bool is_locked(const struct role_file *file, int64_t at)
{
	CLEANUP_CLOSE int fd = role_file_open(file, fixture_runtime_dir(), O_RDWR);

	CHECK(fd >= 0);
	return shared_file_locked(fd, at, 1) == 1;
}

/* The bytes and words that versions of allot have in common. */
static void check_bytes(void)
{
	struct role arbiter = open_role(&role_file_arbiter);
	struct role residency = open_role(&role_file_residency);

	CHECK_EQ(role_file_term_lock(&role_file_arbiter, 0), AT);
	CHECK_EQ(role_file_term_lock(&role_file_arbiter, 1), AT + 2);
	CHECK_EQ(role_file_term_lock(&role_file_residency, 0), AT);
	CHECK_EQ(role_file_term_lock(&role_file_residency, 1), AT + 1);
	CHECK_EQ(role_file_units.lock, AT);
	CHECK(!is_locked(&role_file_arbiter, AT + 1) && is_locked(&role_file_residency, AT - 1));
	CHECK(role_take(&arbiter, 4711) && role_take(&residency, 4711));
	CHECK(is_locked(&role_file_arbiter, AT) && is_locked(&role_file_residency, AT));
	CHECK_EQ(((uint64_t *)arbiter.map)[2], 4711);
	CHECK_EQ(((uint32_t *)residency.map)[3], 1);
	role_close(&arbiter);
	role_close(&residency);
	CHECK(!is_locked(&role_file_residency, AT) && !is_locked(&role_file_residency, AT - 1));
	arbiter = claim_role(&role_file_arbiter);
	residency = claim_role(&role_file_residency);
	CHECK(is_locked(&role_file_arbiter, AT + 1) && !is_locked(&role_file_arbiter, AT));
	CHECK(is_locked(&role_file_residency, AT - 2) && !is_locked(&role_file_residency, AT));
	CHECK(!is_locked(&role_file_residency, AT - 1)); /* a daemon does not overcommit */
	CHECK_EQ(((uint32_t *)arbiter.map)[2], 1);
	CHECK_EQ(((uint32_t *)residency.map)[9], 1);
	role_close(&arbiter);
	role_close(&residency);
	CHECK(!is_locked(&role_file_arbiter, AT + 1) && !is_locked(&role_file_residency, AT - 2));
}

static void check_one_has_it(const struct role_file *file)
{
	struct role one = open_role(file), other = open_role(file);
	uint32_t rung = role_rung(&other);

	CHECK(!role_held(&one) && role_take(&one, 1) && role_take(&one, 1) && role_held(&one));
	CHECK(!role_take(&other, 1) && !role_held(&other));
	role_ring(&one);
	CHECK(role_rung(&other) == rung + 1);
	role_sleep(&other, rung, UINT64_MAX);
	role_drop(&one);
	CHECK(!role_held(&one) && role_take(&other, 1));
	role_close(&other);
	role_close(&one);
}

/* A role holder that makes no step loses the role to one of those that try, and finds that out. */
static void check_stopped(const struct role_file *file)
{
	struct role stopped = open_role(file), other = open_role(file), third = open_role(file);
	uint64_t now = 7 * NS_PER_S;

	CHECK(role_take(&stopped, now));
	CHECK(!role_take(&other, now));
	role_beat(&stopped, now + 1);
	CHECK(!role_take(&other, now += STOPPED_NS + 1)); /* a step was made */
	role_look_away(&other);
	CHECK(!role_take(&other, now += 2 * STOPPED_NS)); /* and perhaps since then */
	CHECK(!role_take(&third, now) && !role_take(&other, now + STOPPED_NS - 1));
	CHECK(role_take(&other, now += STOPPED_NS));
	CHECK(role_held(&other) && !role_held(&stopped));
	CHECK(!role_take(&third, now) && role_held(&other)); /* it saw the stopped one's steps */
	CHECK(!role_take(&stopped, now) && role_held(&other));
	role_close(&stopped);
	CHECK(!role_take(&third, now) && role_held(&other));
	role_close(&other);
	CHECK(role_take(&third, now));
	role_close(&third);
}

/* Of a role holder that was stopped before its first step others know, too. */
static void check_stopped_at_once(const struct role_file *file)
{
	struct role stopped = open_role(file), other = open_role(file);
	uint64_t now = 9 * NS_PER_S;

	CHECK(role_take(&stopped, now) && !role_take(&other, now));
	CHECK(role_take(&other, now + STOPPED_NS));
	role_close(&stopped);
	role_close(&other);
}

/* A daemon goes before tenants, and has the role back after it was stopped. */
static void check_claimed(const struct role_file *file)
{
	struct role tenant = open_role(file), second = {0}, daemon;
	uint64_t now = 17 * NS_PER_S;

	CHECK(role_take(&tenant, now) && !role_is_claimed(&tenant));
	daemon = claim_role(file);
	CHECK_EQ(role_claim(&second, file, fixture_runtime_dir()), -EAGAIN);
	CHECK(role_is_claimed(&tenant) && !role_take(&daemon, now));
	role_drop(&tenant);
	CHECK(!role_take(&tenant, now) && role_take(&daemon, now));
	/* The daemon is stopped: to take its role is no reason to hand it over at once. */
	CHECK(!role_take(&tenant, now += 1) && role_take(&tenant, now += STOPPED_NS));
	CHECK(!role_is_claimed(&tenant));
	/* While it is stopped the tenant takes the role again without a wait. */
	role_drop(&tenant);
	CHECK(role_take(&tenant, now += 1) && !role_is_claimed(&tenant));
	CHECK(!role_take(&daemon, now) && role_is_claimed(&tenant));
	CHECK(!role_is_claimed(&tenant));
	/* A process may have noted the claim without handing over: the daemon repeats it. */
	CHECK(!role_take(&daemon, now + STOPPED_NS - 1) && !role_is_claimed(&tenant));
	role_beat(&tenant, now += STOPPED_NS);
	CHECK(!role_take(&daemon, now) && role_is_claimed(&tenant));
	role_drop(&tenant);
	CHECK(role_take(&daemon, now));
	role_close(&daemon);
	CHECK(role_take(&tenant, now));
	/* One that is gone by now claims nothing. */
	daemon = claim_role(file);
	role_close(&daemon);
	CHECK(!role_is_claimed(&tenant));
	role_close(&tenant);
}

/* A daemon that is stopped behind its claim, before it takes the role, keeps nobody from it. */
static void check_stopped_behind_its_claim(const struct role_file *file)
{
	struct role tenant = open_role(file), daemon = claim_role(file);
	uint64_t now = 23 * NS_PER_S;

	CHECK(!role_take(&tenant, now) && !role_take(&tenant, now + STOPPED_NS - 1));
	CHECK(role_take(&tenant, now += STOPPED_NS) && !role_is_claimed(&tenant));
	CHECK(!role_take(&daemon, now) && role_is_claimed(&tenant));
	role_drop(&tenant);
	CHECK(!role_take(&tenant, now) && role_take(&daemon, now));
	/* The same between the daemon's last step and the next time that it takes the role. */
	role_drop(&daemon);
	CHECK(!role_take(&tenant, now += 1) && role_take(&tenant, now += STOPPED_NS));
	role_close(&daemon);
	role_close(&tenant);
}

/* One that was stopped between a term's lock and its first step says nothing, and has the lock. */
static void check_stopped_with_the_lock(const struct role_file *file)
{
	struct role other = open_role(file), third = open_role(file);
	CLEANUP_CLOSE int fd = role_file_join(file, fixture_runtime_dir());
	uint64_t now = 29 * NS_PER_S;
	uint32_t term = word_check((uint32_t *)((char *)other.map + file->term));

	CHECK(fd >= 0 && !shared_file_lock(fd, role_file_term_lock(file, term), 1));
	CHECK(!role_take(&other, now) && !role_take(&other, now + STOPPED_NS - 1));
	CHECK(role_take(&other, now += STOPPED_NS) && !role_take(&third, now));
	role_close(&third);
	role_close(&other);
}

/* With another file of that name, all elect by the new one; steps in it count, those in the old do not. */
static void check_made_anew(const struct role_file *file)
{
	struct role former = open_role(file), present;
	uint64_t now = 11 * NS_PER_S;
	char path[PATH_MAX];

	CHECK_EQ(role_file_path(file, fixture_runtime_dir(), path), 0);
	CHECK_EQ(unlink(path), 0);
	present = open_role(file);
	CHECK(role_take(&present, now) && !role_take(&former, now));
	role_beat(&present, now + 1);
	CHECK(!role_take(&former, now += 2 * STOPPED_NS) && role_held(&present));
	role_close(&present);
	CHECK(role_take(&former, now));
	present = open_role(file);
	CHECK(!role_take(&present, now));
	role_close(&present);
	role_close(&former);
}

/* Killed with the role, which a child has no part of: the next one has it. */
static void check_killed(const struct role_file *file)
{
	struct role role = open_role(file);
	pid_t pid, child;
	int up[2];

	CHECK_EQ(pipe(up), 0);
	pid = fork();
	if (!pid) {
		struct role own = open_role(file);

		CHECK(role_take(&own, 1));
		child = fork();
		if (child)
			CHECK_EQ(write(up[1], &child, sizeof(child)), sizeof(child));
		for (;;)
			pause();
	}
	CHECK_EQ(read(up[0], &child, sizeof(child)), sizeof(child));
	CHECK(!role_take(&role, 1));
	kill(pid, SIGKILL);
	CHECK_EQ(waitpid(pid, NULL, 0), pid);
	CHECK(role_take(&role, 1));
	kill(child, SIGKILL);
	role_close(&role);
	close(up[0]);
	close(up[1]);
}

/* Whatever another process writes into the file, there is one role holder and no more. */
static void check_forged(const struct role_file *file)
{
	struct role one = open_role(file), other = open_role(file);
	uint64_t now = 13 * NS_PER_S;

	for (uint64_t byte = 0; byte <= 0xff; byte += 0x55) {
		memset(one.map, (int)byte, 24);
		CHECK(role_take(&one, now) && !role_take(&other, now));
		memset(one.map, (int)byte, 24);
		for (int i = 0; i < 4 && !role_take(&other, now); i++)
			now += STOPPED_NS;
		CHECK(role_held(&one) != role_held(&other));
		role_drop(&one);
		role_drop(&other);
	}
	memset(one.map, 0, 24);
	role_close(&one);
	role_close(&other);
}

int main(void)
{
	check_bytes();
	for (size_t i = 0; i < sizeof(with_terms) / sizeof(*with_terms); i++) {
		check_one_has_it(with_terms[i]);
		check_stopped(with_terms[i]);
		check_stopped_at_once(with_terms[i]);
		check_claimed(with_terms[i]);
		check_stopped_behind_its_claim(with_terms[i]);
		check_stopped_with_the_lock(with_terms[i]);
		check_killed(with_terms[i]);
		check_forged(with_terms[i]);
		check_made_anew(with_terms[i]);
	}
	return 0;
}
