/* SPDX-License-Identifier: Apache-2.0 */
/* What processes tell each other about memory, and what others see of the role holder. */
#include "ledger/role/residency_file.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "roles/role.h"
#include "tests/unit/tenant_fixture.h"

static const char *any_dir(void)
{
	static char dir[PATH_MAX + 2];

	snprintf(dir, sizeof(dir), "%s/t", fixture_runtime_dir());
	return dir;
}

static struct role open_role(void)
{
	struct role role = {.stopped_ns = 1};

	CHECK_EQ(role_open(&role, &role_file_residency, any_dir()), 0);
	return role;
}

static struct residency_look look(void)
{
	struct residency_look seen;

	CHECK_EQ(residency_file_look(fixture_runtime_dir(), &seen), 0);
	return seen;
}

static void check_look(void)
{
	struct role role = open_role();
	uint32_t beats = look().beats;

	CHECK(!look().taken && !look().moves);
	CHECK(role_take(&role, 0));
	role_beat(&role, 0);
	residency_file_say_moves(role.held, true);
	CHECK(look().taken && look().moves);
	CHECK_EQ(look().beats, beats + 2);
	/* As if it was killed. */
	role_drop(&role);
	CHECK(!look().taken && look().moves);
	CHECK(role_take(&role, 0));
	residency_file_say_moves(role.held, false);
	role_close(&role);
	CHECK(!look().moves);
}

/* Others see by the term's lock, whichever term it is, that a process has the role. */
static void check_look_later(void)
{
	struct role stopped = open_role(), role = open_role();

	CHECK(role_take(&stopped, 1) && !role_take(&role, 1) && role_take(&role, 2));
	CHECK(look().taken);
	role_close(&stopped);
	CHECK(look().taken);
	role_close(&role);
	CHECK(!look().taken);
}

/* What others see of the role holder. */
static void check_said(void)
{
	struct role role = open_role(), others = open_role();
	const struct residency_file *other = others.map;
	uint32_t missed = residency_file_missed(other);

	CHECK(role_take(&role, 0));
	residency_file_say_moves(role.held, true);
	CHECK_EQ(*residency_file_moves(other), 1);
	residency_file_say_moves(role.held, false);
	CHECK_EQ(*residency_file_moves(other), 0);
	residency_file_miss(role.map);
	CHECK_EQ(residency_file_missed(other), missed + 1);
	CHECK_EQ(residency_file_full_ns(fixture_runtime_dir()), 0);
	residency_file_say_full(role.held, 4711);
	CHECK_EQ(residency_file_full_ns(fixture_runtime_dir()), 4711);
	role_close(&role);
	role_close(&others);
}

/* For as long as one lives that has it open: not a child, and not one that was killed. */
static void check_used(void)
{
	pid_t pid, child;
	int up[2];

	CHECK(!residency_file_is_used(fixture_runtime_dir()));
	CHECK_EQ(pipe(up), 0);
	pid = fork();
	if (!pid) {
		open_role();
		child = fork();
		if (child)
			CHECK_EQ(write(up[1], &child, sizeof(child)), sizeof(child));
		for (;;)
			pause();
	}
	CHECK_EQ(read(up[0], &child, sizeof(child)), sizeof(child));
	CHECK(residency_file_is_used(fixture_runtime_dir()));
	kill(pid, SIGKILL);
	CHECK_EQ(waitpid(pid, NULL, 0), pid);
	CHECK(!residency_file_is_used(fixture_runtime_dir()));
	kill(child, SIGKILL);
}

int main(void)
{
	check_used();
	check_look();
	check_look_later();
	check_said();
	return 0;
}
