/* SPDX-License-Identifier: Apache-2.0 */
/* The journal's files: lines that were cut, later versions' fields, names of strangers, old days. */
#include "node/journal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/tenant_fixture.h"

#define NOON INT64_C(1796040000) /* 2026-11-30 12:00 UTC */
#define DAY  JOURNAL_DAY_S

static char dir[PATH_MAX];
static struct ended found[64];
static uid_t found_uid[64];
static int nfound;

static int take(uid_t uid, const struct ended *e, void *arg)
{
	CHECK(nfound < 64);
	found[nfound] = *e;
	found_uid[nfound++] = uid;
	return arg && nfound == *(int *)arg ? -ECANCELED : 0;
}

static int read_all(uid_t uid, int64_t since_s)
{
	nfound = 0;
	CHECK_EQ(journal_read(dir, uid, since_s, take, NULL), 0);
	return nfound;
}

static struct ended part(const char *name)
{
	struct ended e = {.began_s = NOON - 7200, .since_s = NOON - 3600, .ended_s = NOON,
			  .used = true, .uuid = {1, 2}, .limit_bytes = 3, .peak_bytes = 4,
			  .busy_ns = 5, .refusals = 6, .alive_ns = 7, .byte_s = 8,
			  .busy_all_ns = 9, .refusals_all = 10,
			  .energy_uj = 11, .energy_all_uj = 12, .pod = "space/pod/main"};

	snprintf(e.name, sizeof(e.name), "%s", name);
	return e;
}

static void append(uid_t uid, const char *name, int64_t now_s)
{
	struct ended e = part(name);

	CHECK(journal_append(dir, uid, now_s, &e, UINT64_MAX) > 0);
}

static const char *file_of(uid_t uid, const char *day)
{
	static char path[PATH_MAX + 64];

	snprintf(path, sizeof(path), "%s/%u/%s", dir, (unsigned int)uid, day);
	return path;
}

static void write_text(const char *path, const char *text)
{
	FILE *file = fopen(path, "a");

	CHECK(file);
	fputs(text, file);
	fclose(file);
}

static void remove_all(void)
{
	journal_prune(dir, NOON + 4000 * DAY);
}

static void check_whole(void)
{
	struct ended want = part("job");

	append(0, "job", NOON);
	append(1000, "job@1000", NOON);
	CHECK_EQ(access(file_of(0, "2026-11-30.tsv"), F_OK), 0);
	CHECK_EQ(read_all(0, NOON), 1);
	CHECK(!memcmp(&found[0], &want, sizeof(want)));
	CHECK_EQ(read_all(1000, NOON), 1);
	CHECK_EQ(read_all(1001, NOON), 0);
	CHECK_EQ(read_all(JOURNAL_ALL, NOON), 2);
	CHECK_EQ(found_uid[0] + found_uid[1], 1000);
	CHECK_EQ(read_all(JOURNAL_ALL, NOON + DAY), 0);
	remove_all();
}

/* As `kill -9` and full disks leave them; and no line of those is a smaller line. */
static void check_cut(void)
{
	char text[1024] = "", whole[1024];
	FILE *file;
	size_t n;

	append(0, "job", NOON);
	file = fopen(file_of(0, "2026-11-30.tsv"), "r");
	CHECK(file);
	n = fread(text, 1, sizeof(text) - 1, file);
	fclose(file);
	for (size_t cut = 1; cut < n - strlen("space/pod/main\n"); cut++) {
		CHECK_EQ(truncate(file_of(0, "2026-11-30.tsv"), 0), 0);
		snprintf(whole, sizeof(whole), "%.*s", (int)cut, text);
		write_text(file_of(0, "2026-11-30.tsv"), whole);
		append(0, "next", NOON);
		CHECK_EQ(read_all(0, NOON), 1);
		CHECK(!strcmp(found[0].name, "next"));
	}
	remove_all();
}

static void check_rubbish(void)
{
	append(0, "job", NOON);
	write_text(file_of(0, "2026-11-30.tsv"),
		   "\nno line\n\n\xff\xfe\n\n-1 -1 -1\n"
		   "later\t1\t2\t-\t0\t0\t0\t1\t1\t2\t3\t4\t5\t6\t7\t1\t-\tnew\tfields\n");
	write_text(file_of(0, "2026-11-31.tsv.swp"), "\nx\t1\t2\t-\t0\t0\t0\t1\t1\t2\t3\t4\t5\t6\t7\t1\t-\n");
	CHECK_EQ(read_all(0, NOON), 2);
	CHECK(!strcmp(found[1].name, "later") && found[1].last && !found[1].used);
	CHECK_EQ(found[1].refusals_all, 5);
	remove_all();
	CHECK_EQ(unlink(file_of(0, "2026-11-31.tsv.swp")), 0);
}

/* A name is one field of one line, and obeyed by no terminal. */
static void check_names(void)
{
	static const char *const names[] = {"a\tb", "a\n1000 1 1 - 1 1 1 1", "\033[2Jx", "\xc3\xa9", ""};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		append(0, names[i], NOON);
		CHECK_EQ(read_all(0, NOON), i + 1);
		for (const char *c = found[i].name; *c; c++)
			CHECK(*c > ' ' && *c <= '~');
	}
	remove_all();
}

static void check_days(void)
{
	for (int day = 0; day <= 92; day++)
		append(1000, "job@1000", NOON - day * DAY);
	CHECK_EQ(journal_prune(dir, NOON), 2);
	CHECK_EQ(read_all(1000, NOON - 3 * DAY), 4);
	CHECK_EQ(found[3].began_s, NOON - 7200);
	CHECK_EQ(access(file_of(1000, "2026-09-01.tsv"), F_OK), 0);
	CHECK_EQ(access(file_of(1000, "2026-08-31.tsv"), F_OK), -1);
	/* A clock that was set back removes nothing. */
	CHECK_EQ(journal_prune(dir, 0), 0);
	CHECK(journal_bytes(dir, NOON) > 0);
	CHECK_EQ(journal_bytes(dir, NOON + DAY), 0);
	remove_all();
	CHECK_EQ(access(file_of(1000, ""), F_OK), -1);
}

static void check_bound(void)
{
	struct ended e = part("job");

	CHECK(journal_append(dir, 0, NOON, &e, 1) > 0);
	CHECK_EQ(journal_append(dir, 0, NOON, &e, 1), -EDQUOT);
	CHECK_EQ(read_all(0, NOON), 1);
	CHECK(journal_append(dir, 0, NOON + DAY, &e, 1) > 0);
	remove_all();
}

/* A fifo or a link in place of a file is not followed, and delays nobody. */
static void check_files(void)
{
	struct ended e = part("job");

	append(0, "job", NOON);
	CHECK_EQ(unlink(file_of(0, "2026-11-30.tsv")), 0);
	CHECK_EQ(symlink("/dev/null", file_of(0, "2026-11-30.tsv")), 0);
	CHECK_EQ(journal_append(dir, 0, NOON, &e, UINT64_MAX), -ELOOP);
	CHECK_EQ(unlink(file_of(0, "2026-11-30.tsv")), 0);
	CHECK_EQ(mkfifo(file_of(0, "2026-11-30.tsv"), 0600), 0);
	CHECK_EQ(journal_append(dir, 0, NOON, &e, UINT64_MAX), -ENXIO);
	remove_all();
}

static void check_place(void)
{
	char place[PATH_MAX], want[PATH_MAX];
	const char *runtime = fixture_runtime_dir();

	CHECK_EQ(journal_find(runtime, place), -ENOENT);
	CHECK_EQ(journal_choose(runtime, "", place), -ENOENT);
	CHECK_EQ(journal_choose(runtime, "/said", place), 0);
	CHECK(!strcmp(place, "/said"));
	setenv("STATE_DIRECTORY", "/var/lib/a:/var/lib/b", 1);
	CHECK_EQ(journal_choose(runtime, "", place), 0);
	CHECK(!strcmp(place, "/var/lib/a/history"));
	unsetenv("STATE_DIRECTORY");
	CHECK_EQ(journal_choose("/run/allot", "", place), 0);
	CHECK(!strcmp(place, "/var/lib/allot/history"));
	snprintf(want, sizeof(want), "%.*s/state/deep/history", PATH_MAX - 32, runtime);
	for (int i = 0; i < 2; i++) {
		CHECK_EQ(journal_make(runtime, want), 0);
		CHECK_EQ(journal_find(runtime, place), 0);
		CHECK(!strcmp(place, want));
	}
	CHECK_EQ(journal_make(runtime, "state"), -EINVAL);
	strcpy(dir, want);
}

int main(void)
{
	char users[PATH_MAX];

	check_place();
	check_whole();
	check_cut();
	check_rubbish();
	check_names();
	check_days();
	check_bound();
	check_files();
	/* Beside the runtime directory, which alone is removed at the end. */
	if (tenant_users_dir(fixture_runtime_dir(), users, sizeof(users)) == 0)
		nftw(users, fixture_unlink, 16, FTW_DEPTH | FTW_PHYS);
	return 0;
}
