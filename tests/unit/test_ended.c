/* SPDX-License-Identifier: Apache-2.0 */
/* What is left of tenants that ended: so much, whoever's they were. */
#include "node/ended.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "tests/unit/tenant_fixture.h"

/* More than the file keeps, several times over. */
#define MANY  3000
#define MOST  (65536 + 256)
#define USERS 400

static void note(const char *name, uint64_t peak)
{
	struct snapshot_device device = {.uuid = {1}, .peak_bytes = peak};
	struct snapshot snapshot = {.ndevices = 1, .device = &device};

	CHECK_EQ(ended_note(fixture_runtime_dir(), name, &snapshot, 1), 0);
}

static const char *notes(void)
{
	static char path[PATH_MAX + sizeof("/.ended")];

	snprintf(path, sizeof(path), "%s/.ended", fixture_runtime_dir());
	return path;
}

static off_t size(void)
{
	struct stat st;

	CHECK_EQ(stat(notes(), &st), 0);
	return st.st_size;
}

/* How many there are of a name, the last with that peak; all in the order of their ends. */
static int count(const char *name, uint64_t last)
{
	struct ended *list;
	int n = ended_read(fixture_runtime_dir(), &list), found = 0;
	uint64_t peak = 0;

	CHECK(n >= 0);
	for (int i = 0; i < n; i++) {
		if (strcmp(list[i].name, name) != 0)
			continue;
		CHECK(!found || list[i].peak_bytes > peak);
		peak = list[i].peak_bytes;
		found++;
	}
	CHECK(!found || peak == last);
	free(list);
	return found;
}

static void check_users(void)
{
	note("quiet@1000", 1);
	note("roots", 1);
	note("quiet@1000", 2);
	for (uint64_t i = 1; i <= MANY; i++) {
		note("loud@1001", i);
		CHECK(size() < MOST);
	}
	CHECK(count("loud@1001", MANY) > 100);
	CHECK_EQ(count("quiet@1000", 2), 2);
	CHECK_EQ(count("roots", 1), 1);
	note("quiet@1000", 3);
	CHECK_EQ(count("quiet@1000", 3), 3);
}

/* So many that not even the last of each has a place. */
static void check_many_users(void)
{
	char name[POLICY_NAME_BYTES];

	for (int i = 0; i < MANY; i++) {
		snprintf(name, sizeof(name), "%s@%d", "a-name-that-is-quite-long", 2000 + i % 900);
		note(name, (uint64_t)i + 1);
		CHECK(size() < MOST);
	}
	CHECK_EQ(count(name, MANY), 1);
}

/* What no writer wrote hides no line, and what is too long to be kept none of other users. */
static void check_rubbish(void)
{
	FILE *file;

	note("before", 1);
	file = fopen(notes(), "a");
	CHECK(file);
	fputc(0, file);
	fflush(file);
	note("after", 1);
	CHECK_EQ(count("after", 1), 1);
	fprintf(file, "\nlong@1001 1 1 - 1 1 1 1 %070000d\n", 1);
	fclose(file);
	note("after", 2);
	CHECK(size() < MOST);
	CHECK_EQ(count("after", 2), 2);
}

int main(void)
{
	check_rubbish();
	check_users();
	check_many_users();
	return 0;
}
