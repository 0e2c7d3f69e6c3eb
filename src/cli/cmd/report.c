/* SPDX-License-Identifier: Apache-2.0 */
/* allot report: adds up what tenants had of devices, from allotd's journal, or from what ended lately. */
#include <argp.h>
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/now.h"
#include "base/number.h"
#include "base/parse.h"
#include "cli/cmd/command.h"
#include "cli/ps/sums.h"
#include "cli/say/arguments.h"
#include "cli/say/exit_status.h"
#include "cli/say/say.h"
#include "cli/say/table.h"
#include "cli/tenant/runtime.h"
#include "cli/tenant/sweep.h"
#include "control/ask.h"
#include "ledger/tenant.h"
#include "node/ended.h"
#include "node/journal.h"
#include "node/process/user.h"
#include "node/tenants_json.h"
#include "text/json.h"
#include "text/units.h"

#define SINCE_DAYS 30
#define MOST_DAYS  36500

enum report_format { REPORT_TABLE, REPORT_CSV, REPORT_JSON };

static const char *const by_words[] = {
	[SUMS_USER] = "user", [SUMS_NAME] = "name", [SUMS_DAY] = "day"};

static const struct argp_option options[] = {
	{"since", 's', "DATE|Nd|Nh", 0, "from that day on, or the last N days or hours (default 30d)", 0},
	{"by", 'b', "user|name|day", 0, "what a line is for (default name)", 0},
	{"csv", 'c', NULL, 0, "print CSV, as RFC 4180 describes it", 0},
	{"json", 'j', NULL, 0, "print JSON, as docs/json.md describes it", 0},
	{0},
};

struct args {
	int64_t now_s, since_s;
	enum sums_by by;
	enum report_format format;
};

/* The beginning of a day of this time zone. */
static int report_parse_day(const char *text, int64_t *ret)
{
	struct tm tm = {.tm_isdst = -1};
	const char *end = strptime(text, "%Y-%m-%d", &tm);
	time_t at;

	if (!end || *end)
		return -EINVAL;
	at = mktime(&tm);
	if (at == (time_t)-1)
		return -EINVAL;
	*ret = max_i64(at, 0);
	return 0;
}

static int report_parse_since(const char *text, int64_t now_s, int64_t *ret)
{
	size_t n = strlen(text);
	char digits[16];
	bool days = n && text[n - 1] == 'd', hours = n && text[n - 1] == 'h';
	uint64_t number;

	if (!days && !hours)
		return report_parse_day(text, ret);
	snprintf(digits, sizeof(digits), "%.*s", (int)min_u64(n - 1, sizeof(digits) - 1), text);
	if (parse_u64(digits, 1, days ? MOST_DAYS : 24 * MOST_DAYS, &number) < 0)
		return -EINVAL;
	*ret = max_i64(now_s - (int64_t)number * (days ? JOURNAL_DAY_S : 3600), 0);
	return 0;
}

static error_t report_parse_option(int key, char *arg, struct argp_state *state)
{
	struct args *a = state->input;
	int word;

	switch (key) {
	case 's':
		if (report_parse_since(arg, a->now_s, &a->since_s) < 0)
			argp_error(state, "--since \"%s\": write a day like 2026-11-30, or a number of "
				   "days or hours like 7d or 12h", arg);
		return 0;
	case 'b':
		word = parse_word(arg, by_words, SUMS_DAY + 1);
		if (word < 0)
			argp_error(state, "--by \"%s\": it is user, name or day", arg);
		a->by = (enum sums_by)max_i64(word, 0);
		return 0;
	case 'c':
		a->format = REPORT_CSV;
		return 0;
	case 'j':
		a->format = REPORT_JSON;
		return 0;
	}
	return ARGP_ERR_UNKNOWN;
}

static const struct argp argp = {
	.options = options,
	.parser = report_parse_option,
	.doc = "Add up what tenants had of devices: hours busy, hours allotted, memory, refusals.\v"
	       "allotd keeps this for 90 days. root sees all tenants, a user the own ones.\n",
};

/* --- Where from ------------------------------------------------------------------------------- */

static int report_add(uid_t uid, const struct ended *e, void *arg)
{
	return sums_add(arg, uid, e);
}

/* root's allotd has all users' tenants, one of a user's own has that user's. */
static int report_find(char runtime[static PATH_MAX], char ret[static PATH_MAX], bool *ret_roots)
{
	*ret_roots = true;
	if (geteuid() && tenant_runtime_dir_of(0, runtime, PATH_MAX) == 0 &&
	    journal_find(runtime, ret) == 0)
		return 0;
	*ret_roots = !geteuid();
	if (runtime_find(runtime) < 0)
		return -ECANCELED;
	return journal_find(runtime, ret);
}

/* Without allotd the journal ends where that stopped. */
static void report_say_stopped(const char *runtime)
{
	struct control_request request = {.verb = CONTROL_ABOUT};
	struct control_answer answer;
	pid_t pid;
	int r = control_ask_within(runtime, 1, &request, &answer, &pid);

	if (r == -ECONNREFUSED || r == -ENOENT)
		say_note("no allotd answers: what tenants used since it stopped is not in these sums");
}

static int report_read_ended(const char *runtime, struct sums *sums)
{
	struct ended *list = NULL;
	uid_t uid;
	int n, r = 0;

	say_note("no allotd keeps what tenants of %s used: this is what \"allot ps --ended\" remembers",
		 runtime);
	sweep_runtime(runtime);
	n = ended_read(runtime, &list);
	if (n < 0)
		return say_fail(n, "cannot read what ended in %s: %s", runtime, say_errno(n));
	for (int i = 0; r == 0 && i < n; i++)
		r = sums_add(sums, tenant_name_owner(list[i].name, &uid) ? uid : geteuid(), &list[i]);
	free(list);
	return r;
}

/* 0, or a message and -errno. `dir` is "" without a journal. */
static int report_read(const struct args *a, char dir[static PATH_MAX], struct sums *sums)
{
	uid_t uid = geteuid() ? geteuid() : JOURNAL_ALL;
	char runtime[PATH_MAX];
	bool roots;
	int r = report_find(runtime, dir, &roots);

	if (r == -ECANCELED)
		return r;
	if (r < 0) {
		*dir = '\0';
		r = report_read_ended(runtime, sums);
	} else {
		r = journal_read(dir, uid, a->since_s, report_add, sums);
		if (r < 0 && r != -ENOMEM)
			return say_fail(r, "cannot read %s, where allotd keeps what tenants used: %s; %s", dir,
					say_errno(r), r == -EACCES ? "ask root for your part of it" :
					"see the log of allotd (journalctl -u allotd)");
		if (r == 0 && roots)
			report_say_stopped(runtime);
	}
	return r == -ENOMEM ? say_fail(r, "out of memory for the sums") : r;
}

/* --- Output ----------------------------------------------------------------------------------- */

static double report_hours(uint64_t ns)
{
	return (double)ns / (3600.0 * (double)NS_PER_S);
}

static double report_gib_hours(double byte_s)
{
	return byte_s / (double)(UINT64_C(1) << 30) / 3600.0;
}

static double report_watt_hours(uint64_t uj)
{
	return (double)uj / 1e6 / 3600.0;
}

static const char *report_who(const struct args *a, const struct sums_part *part,
			      char user[static USER_BYTES])
{
	if (a->by != SUMS_USER)
		return part->key;
	user_name(part->uid, user);
	return user;
}

static int report_print_table(const struct args *a, const struct sums *sums)
{
	static const char *const headings[] = {
		[SUMS_USER] = "USER|POD|>TENANTS|>BUSY H|>ALLOTTED H|>GIB H|>WH|>PEAK|>REFUSED",
		[SUMS_NAME] = "TENANT|POD|>TENANTS|>BUSY H|>ALLOTTED H|>GIB H|>WH|>PEAK|>REFUSED",
		[SUMS_DAY] = "DAY|POD|>TENANTS|>BUSY H|>ALLOTTED H|>GIB H|>WH|>PEAK|>REFUSED"};
	char user[USER_BYTES];
	struct table *t;

	if (!sums->n) {
		puts("no use of a device is recorded for that time");
		return 0;
	}
	t = table_new(headings[a->by]);
	for (size_t i = 0; i < sums->n; i++) {
		const struct sums_part *part = &sums->list[i];

		table_cell(t, "%s", report_who(a, part, user));
		table_cell(t, "%s", part->pod);
		table_cell(t, "%" PRIu64, part->tenants);
		table_cell(t, "%.3f", report_hours(part->busy_ns));
		table_cell(t, "%.3f", report_hours(part->allotted_ns));
		table_cell(t, "%.3f", report_gib_hours(part->byte_s));
		table_cell_if(t, part->energy_uj, "%.1f", report_watt_hours(part->energy_uj));
		table_cell(t, "%s", units_bytes(part->peak_bytes).s);
		table_cell(t, "%" PRIu64, part->refusals);
	}
	return table_end(t, "", stdout) < 0 ? say_error("out of memory for the table") : 0;
}

/* RFC 4180: a field with a comma, a quote or an end of line is in quotes, with its own doubled. */
static void report_put_field(const char *text)
{
	bool quoted = text[strcspn(text, ",\"\r\n")];

	if (quoted)
		putchar('"');
	for (; *text; text++) {
		if (*text == '"')
			putchar('"');
		putchar(*text);
	}
	if (quoted)
		putchar('"');
	putchar(',');
}

static void report_print_csv(const struct args *a, const struct sums *sums)
{
	char user[USER_BYTES];

	printf("%s,pod,tenants,busy_hours,allotted_hours,gib_hours,peak_bytes,refusals,watt_hours\r\n",
	       by_words[a->by]);
	for (size_t i = 0; i < sums->n; i++) {
		const struct sums_part *part = &sums->list[i];

		report_put_field(report_who(a, part, user));
		report_put_field(part->pod);
		printf("%" PRIu64 ",%.6f,%.6f,%.6f,%" PRIu64 ",%" PRIu64 ",%.6f\r\n", part->tenants,
		       report_hours(part->busy_ns), report_hours(part->allotted_ns),
		       report_gib_hours(part->byte_s), part->peak_bytes, part->refusals,
		       report_watt_hours(part->energy_uj));
	}
}

static void report_print_json(const struct args *a, const struct sums *sums, const char *dir)
{
	struct json j = {.out = stdout};
	char user[USER_BYTES];

	json_open(&j, NULL, '{');
	json_u64(&j, "version", TENANTS_JSON_VERSION);
	json_text(&j, "history_dir", *dir ? dir : NULL);
	json_i64(&j, "since_s", a->since_s);
	json_i64(&j, "until_s", a->now_s);
	json_text(&j, "by", by_words[a->by]);
	json_open(&j, "sums", '[');
	for (size_t i = 0; i < sums->n; i++) {
		const struct sums_part *part = &sums->list[i];

		json_open(&j, NULL, '{');
		json_text(&j, by_words[a->by], report_who(a, part, user));
		if (a->by != SUMS_DAY)
			json_u64(&j, "uid", part->uid);
		json_text(&j, "pod", *part->pod ? part->pod : NULL);
		json_u64(&j, "tenants", part->tenants);
		json_u64(&j, "busy_ns", part->busy_ns);
		json_u64(&j, "allotted_ns", part->allotted_ns);
		json_number(&j, "byte_seconds", part->byte_s);
		json_u64(&j, "peak_bytes", part->peak_bytes);
		json_u64(&j, "refusals", part->refusals);
		json_u64(&j, "energy_uj", part->energy_uj);
		json_close(&j, '}');
	}
	json_close(&j, ']');
	json_close(&j, '}');
}

int cmd_report(int argc, char **argv)
{
	struct args a = {.now_s = time(NULL), .by = SUMS_NAME};
	struct sums sums = {.n = 0};
	char dir[PATH_MAX];
	int r;

	a.since_s = a.now_s - SINCE_DAYS * JOURNAL_DAY_S;
	arguments_parse(&argp, argc, argv, 0, &a);
	sums_begin(&sums, a.by, a.since_s, a.now_s);
	r = report_read(&a, dir, &sums) < 0 ? EXIT_ALLOT : 0;
	sums_end(&sums);
	if (!r && a.format == REPORT_CSV)
		report_print_csv(&a, &sums);
	else if (!r && a.format == REPORT_JSON)
		report_print_json(&a, &sums, dir);
	else if (!r)
		r = report_print_table(&a, &sums);
	sums_free(&sums);
	return r;
}
