/* SPDX-License-Identifier: Apache-2.0 */
/* Sums of parts: cut at the beginning, divided among days, tenants counted once. */
#include "cli/ps/sums.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tests/check.h"

#define HOUR  INT64_C(3600)
#define NIGHT INT64_C(1796083200) /* 2026-12-01 00:00 UTC */

static struct sums sums;

static void add(const char *name, int64_t began_s, int64_t since_s, int64_t ended_s)
{
	struct ended e = {.began_s = began_s, .since_s = since_s, .ended_s = ended_s, .used = true,
			  .busy_ns = 1000, .alive_ns = 4000, .byte_s = 8000, .refusals = 3,
			  .energy_uj = 6000,
			  .peak_bytes = (uint64_t)(ended_s - since_s)};

	snprintf(e.name, sizeof(e.name), "%s", name);
	snprintf(e.pod, sizeof(e.pod), "pod/%s", name);
	CHECK_EQ(sums_add(&sums, strchr(name, '@') ? 1000 : 0, &e), 0);
}

static void check(size_t i, const char *key, uint64_t tenants, uint64_t busy_ns, uint64_t refusals)
{
	CHECK(i < sums.n);
	CHECK(!strcmp(sums.list[i].key, key));
	CHECK_EQ(sums.list[i].tenants, tenants);
	CHECK_EQ(sums.list[i].busy_ns, busy_ns);
	CHECK_EQ(sums.list[i].allotted_ns, 4 * busy_ns);
	CHECK_EQ(sums.list[i].byte_s, 8 * busy_ns);
	CHECK_EQ(sums.list[i].energy_uj, 6 * busy_ns);
	CHECK_EQ(sums.list[i].refusals, refusals);
}

static void check_names(void)
{
	sums_begin(&sums, SUMS_NAME, NIGHT - 10 * HOUR, NIGHT + 10 * HOUR);
	add("b", NIGHT, NIGHT, NIGHT + HOUR);
	add("a@1000", NIGHT, NIGHT, NIGHT + HOUR);
	add("a@1000", NIGHT, NIGHT + HOUR, NIGHT + 2 * HOUR); /* the same tenant */
	add("a@1000", NIGHT + 3 * HOUR, NIGHT + 3 * HOUR, NIGHT + 5 * HOUR);
	add("old", 0, 0, NIGHT - 11 * HOUR);
	add("later", NIGHT, NIGHT, NIGHT + 11 * HOUR); /* of a clock that was wrong */
	add("half", NIGHT - 11 * HOUR, NIGHT - 11 * HOUR, NIGHT - 9 * HOUR);
	add("back", NIGHT, NIGHT + 2 * HOUR, NIGHT); /* the clock was set back */
	add("boot", 0, 0, NIGHT); /* or from 1970 */
	sums_end(&sums);
	CHECK_EQ(sums.n, 5);
	check(0, "a@1000", 2, 3000, 9);
	CHECK_EQ(sums.list[0].peak_bytes, 2 * HOUR);
	CHECK(!strcmp(sums.list[0].pod, "pod/a@1000"));
	check(1, "b", 1, 1000, 3);
	CHECK(!strcmp(sums.list[2].key, "back"));
	CHECK(!strcmp(sums.list[3].key, "boot"));
	CHECK(sums.list[3].busy_ns > 200);
	check(4, "half", 1, 500, 3);
	sums_free(&sums);
}

static void check_users(void)
{
	sums_begin(&sums, SUMS_USER, NIGHT, NIGHT + 10 * HOUR);
	for (int i = 0; i < 1000; i++) {
		add("a@1000", NIGHT, NIGHT, NIGHT + HOUR);
		add(i % 2 ? "c" : "b", NIGHT + i / 2, NIGHT, NIGHT + HOUR);
	}
	sums_end(&sums);
	CHECK_EQ(sums.n, 2);
	check(0, "0000000000", 1000, 1000000, 3000);
	check(1, "0000001000", 1, 1000000, 3000);
	CHECK_EQ(sums.list[1].uid, 1000);
	sums_free(&sums);
}

static void check_days(void)
{
	sums_begin(&sums, SUMS_DAY, NIGHT - 100 * HOUR, NIGHT + 100 * HOUR);
	add("a", NIGHT - 30 * HOUR, NIGHT - 30 * HOUR, NIGHT + 10 * HOUR);
	add("b", NIGHT, NIGHT, NIGHT + HOUR);
	sums_end(&sums);
	CHECK_EQ(sums.n, 3);
	check(0, "2026-11-29", 1, 150, 0);
	check(1, "2026-11-30", 1, 600, 0);
	check(2, "2026-12-01", 2, 1250, 6);
	sums_free(&sums);
}

int main(void)
{
	setenv("TZ", "UTC", 1);
	tzset();
	check_names();
	check_users();
	check_days();
	return 0;
}
