/* SPDX-License-Identifier: Apache-2.0 */
/* One has the role of deciding about memory, whoever is stopped, and whatever became of the file. */
#include "ledger/residency_file.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/unit/tenant_fixture.h"

static struct residency_file *open_file(void)
{
	struct residency_file *file;

	CHECK_EQ(residency_file_open(fixture_runtime_dir(), &file), 0);
	return file;
}

static int take(const struct residency_file *file, bool silent, struct residency_role *ret)
{
	return residency_file_take(fixture_runtime_dir(), file, silent, ret);
}

static struct residency_look look(void)
{
	struct residency_look seen;

	CHECK_EQ(residency_file_look(fixture_runtime_dir(), &seen), 0);
	return seen;
}

static void check_look(const struct residency_file *file)
{
	struct residency_role role = {0};
	uint32_t beats = look().beats;

	CHECK(!look().taken && !look().moves);
	CHECK_EQ(take(file, false, &role), 0);
	residency_file_beat(&role);
	residency_file_beat(&role);
	residency_file_say_moves(&role, true);
	CHECK(look().taken && look().moves);
	CHECK_EQ(look().beats, beats + 2);
	/* As if it was killed. */
	residency_file_drop(&role);
	CHECK(!look().taken && look().moves);
	CHECK_EQ(take(file, false, &role), 0);
	residency_file_say_moves(&role, false);
	residency_file_drop(&role);
	CHECK(!look().moves);
}

static void check_silent(const struct residency_file *file)
{
	struct residency_role stopped = {0}, role = {0}, other = {0};

	CHECK_EQ(take(file, true, &stopped), 0);
	CHECK(residency_file_has(&stopped));
	CHECK_EQ(take(file, false, &role), -EAGAIN);
	CHECK(!residency_file_has(&role));
	CHECK_EQ(take(file, true, &role), 0);
	CHECK(residency_file_has(&role));
	CHECK(!residency_file_has(&stopped));
	CHECK_EQ(take(file, false, &other), -EAGAIN);
	residency_file_drop(&stopped);
	CHECK_EQ(take(file, false, &other), -EAGAIN);
	residency_file_drop(&role);
	CHECK(!look().taken);
}

static void check_made_anew(const struct residency_file *former)
{
	struct residency_role role = {0}, other = {0};
	char path[PATH_MAX + sizeof("/.residency")];
	struct residency_file *file;

	snprintf(path, sizeof(path), "%s/.residency", fixture_runtime_dir());
	CHECK_EQ(unlink(path), 0);
	file = open_file();
	CHECK_EQ(take(file, false, &role), 0);
	CHECK_EQ(take(former, false, &other), -EAGAIN);
	residency_file_beat(&role);
	CHECK_EQ(take(former, true, &other), -EAGAIN);
	CHECK(residency_file_has(&role));
	residency_file_drop(&role);
	CHECK_EQ(take(former, false, &other), 0);
	CHECK_EQ(take(file, false, &role), -EAGAIN);
	residency_file_drop(&other);
}

/* What others see of who has it. */
static void check_said(struct residency_file *file)
{
	const struct residency_file *other = open_file();
	uint32_t missed = residency_file_missed(other);
	struct residency_role role = {NULL};

	CHECK_EQ(take(file, false, &role), 0);
	residency_file_say_moves(&role, true);
	CHECK_EQ(*residency_file_moves(other), 1);
	residency_file_say_moves(&role, false);
	CHECK_EQ(*residency_file_moves(other), 0);
	residency_file_miss(file);
	CHECK_EQ(residency_file_missed(other), missed + 1);
	CHECK_EQ(residency_file_full_ns(fixture_runtime_dir()), 0);
	residency_file_say_full(&role, 4711);
	CHECK_EQ(residency_file_full_ns(fixture_runtime_dir()), 4711);
	residency_file_drop(&role);
}

/* For as long as one lives that has it open: not a child, and not one that was killed. */
static void check_used(void)
{
	struct residency_file *file;
	pid_t pid, child;
	int up[2];

	CHECK(!residency_file_is_used(fixture_runtime_dir()));
	CHECK_EQ(pipe(up), 0);
	pid = fork();
	if (!pid) {
		file = open_file();
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
	(void)file;
}

int main(void)
{
	struct residency_file *file;

	check_used();
	file = open_file();
	check_look(file);
	check_silent(file);
	check_said(file);
	check_made_anew(file);
	return 0;
}
