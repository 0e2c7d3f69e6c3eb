/* SPDX-License-Identifier: Apache-2.0 */
/* `allot top`: what is left out first, what grows, where a list stands, what is typed. */
#include "cli/top/columns.h"

#include <string.h>

#include "cli/top/prompt.h"
#include "cli/top/spark.h"
#include "cli/top/trail.h"
#include "tests/check.h"

static const struct column columns[] = {
	{"NAME", 4, 10, 0, COLUMN_LEFT, COLUMN_FITS},
	{"BAR", 5, 20, 1, COLUMN_LEFT, COLUMN_GROWS},
	{"USER", 4, 8, 2, COLUMN_LEFT, COLUMN_FITS},
	{"STATE", 5, 8, 2, COLUMN_LEFT, COLUMN_FITS},
	{"USED", 6, 6, 0, COLUMN_RIGHT, COLUMN_FITS},
};
#define N 5

static int sum(const int *widths)
{
	int n = 0;

	for (int i = 0; i < N; i++)
		n += widths[i] ? widths[i] + 1 : 0;
	return n - 1;
}

static void fit(int width, const int need[N], const int expected[N])
{
	int widths[N];

	columns_fit(columns, N, need, width, widths);
	for (int i = 0; i < N; i++)
		CHECK_EQ(widths[i], expected[i]);
}

static void check_columns(void)
{
	static const int need[N] = {8, 1, 5, 7, 6};

	/* All of it, and a bar that has what is left, as far as it goes. */
	fit(80, need, (int[]){8, 20, 5, 7, 6});
	fit(40, need, (int[]){8, 10, 5, 7, 6});
	fit(35, need, (int[]){8, 5, 5, 7, 6});
	/* The last of the highest rank goes first, and the bar takes its room. */
	fit(34, need, (int[]){8, 12, 5, 0, 6});
	fit(26, need, (int[]){8, 10, 0, 0, 6});
	fit(20, need, (int[]){8, 0, 0, 0, 6});
	/* What stays stays. */
	fit(3, need, (int[]){8, 0, 0, 0, 6});
	/* A long name is cut at what a name may have; nothing in a column is no column. */
	fit(40, (int[]){30, 1, 0, 0, 2}, (int[]){10, 20, 0, 0, 6});
	for (int width = 15; width < 300; width++) {
		int widths[N];

		columns_fit(columns, N, need, width, widths);
		CHECK(sum(widths) <= width);
	}
}

/* One long name costs the screen what nobody misses, then its own end, and no other column. */
static void check_a_long_name(void)
{
	static const struct column yields[N] = {
		{"NAME", 4, 20, 0, COLUMN_LEFT, COLUMN_YIELDS},
		{"BAR", 5, 20, 1, COLUMN_LEFT, COLUMN_GROWS},
		{"USER", 4, 8, 2, COLUMN_LEFT, COLUMN_FITS},
		{"COMMAND", 5, 8, COLUMNS_SPARE, COLUMN_LEFT, COLUMN_GROWS},
		{"USED", 6, 6, 0, COLUMN_RIGHT, COLUMN_FITS},
	};
	static const struct {
		int width, expected[N];
	} cases[] = {
		{48, {20, 7, 5, 6, 6}}, {41, {20, 7, 5, 0, 6}}, {39, {20, 5, 5, 0, 6}},
		{38, {19, 5, 5, 0, 6}}, {31, {12, 5, 5, 0, 6}}, {30, {17, 5, 0, 0, 6}},
		{25, {12, 5, 0, 0, 6}}, {24, {17, 0, 0, 0, 6}}, {19, {12, 0, 0, 0, 6}},
		{5, {12, 0, 0, 0, 6}},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		int widths[N];

		columns_fit(yields, N, (int[]){30, 1, 5, 1, 6}, cases[i].width, widths);
		for (int c = 0; c < N; c++)
			CHECK_EQ(widths[c], cases[i].expected[c]);
	}
}

static void check_scroll(void)
{
	CHECK_EQ(columns_scroll(5, 4, 10, 0), 0);
	CHECK_EQ(columns_scroll(50, 9, 10, 0), 0);
	CHECK_EQ(columns_scroll(50, 10, 10, 0), 1);
	CHECK_EQ(columns_scroll(50, 49, 10, 0), 40);
	CHECK_EQ(columns_scroll(50, 45, 10, 40), 40);
	CHECK_EQ(columns_scroll(50, 39, 10, 40), 39);
	/* The list became shorter, the screen became higher. */
	CHECK_EQ(columns_scroll(12, 11, 10, 40), 2);
	CHECK_EQ(columns_scroll(50, 45, 40, 40), 10);
	CHECK_EQ(columns_scroll(0, 0, 10, 3), 0);
	CHECK_EQ(columns_scroll(5, 3, 0, 0), 3);
}

static void check_spark(void)
{
	static const uint64_t samples[] = {SPARK_NONE, 0, 1, 50, 100, 1000};
	char text[SPARK_BYTES(10)];

	spark_draw(samples, 6, 100, 6, true, text);
	CHECK(!strcmp(text, " ▁▂▅██"));
	spark_draw(samples, 6, 100, 8, false, text);
	CHECK(!strcmp(text, "   _.=##"));
	spark_draw(samples, 6, 100, 2, true, text);
	CHECK(!strcmp(text, "██"));
	/* As much as there can be, of nothing. */
	spark_draw((uint64_t[]){UINT64_MAX - 1, 5}, 2, UINT64_MAX - 1, 2, false, text);
	CHECK(!strcmp(text, "#."));
	spark_draw(samples, 6, 0, 3, false, text);
	CHECK(!strcmp(text, "___"));

	spark_bar(500, 10, true, text);
	CHECK(!strcmp(text, "█████░░░░░"));
	spark_bar(550, 10, true, text);
	CHECK(!strcmp(text, "█████▌░░░░"));
	spark_bar(1, 4, true, text);
	CHECK(!strcmp(text, "▏░░░"));
	spark_bar(0, 4, true, text);
	CHECK(!strcmp(text, "░░░░"));
	spark_bar(7000, 4, false, text);
	CHECK(!strcmp(text, "####"));
	spark_bar(1, 4, false, text);
	CHECK(!strcmp(text, "-..."));
}

static void check_trail(void)
{
	static const uint8_t a[16] = {1}, b[16] = {2};
	struct trails trails = {0};

	trail_begin(&trails);
	trail_note(&trails, "job", a, 7);
	trail_note(&trails, "job", b, 8);
	trail_begin(&trails);
	trail_note(&trails, "job", a, 9);
	CHECK_EQ(trail_find(&trails, "job", a)->sample[TRAIL_SAMPLES - 1], 9);
	CHECK_EQ(trail_find(&trails, "job", a)->sample[TRAIL_SAMPLES - 2], 7);
	CHECK(trail_find(&trails, "job", a)->sample[0] == SPARK_NONE);
	CHECK(trail_find(&trails, "job", b)->sample[TRAIL_SAMPLES - 1] == SPARK_NONE);
	CHECK(!trail_find(&trails, "jo", a));
	/* One that does not come again is forgotten. */
	for (int i = 0; i < TRAIL_SAMPLES; i++) {
		trail_begin(&trails);
		trail_note(&trails, "job", a, 1);
	}
	CHECK(!trail_find(&trails, "job", b));
	CHECK_EQ(trails.n, 1);
	trail_free(&trails);
}

static enum prompt_state type(struct prompt *prompt, const char *keys)
{
	enum prompt_state state = PROMPT_GOES_ON;

	for (; *keys; keys++)
		state = prompt_key(prompt, (unsigned char)*keys);
	return state;
}

static void check_prompt(void)
{
	struct prompt prompt = {{0}};

	CHECK_EQ(type(&prompt, "8GiX\177B"), PROMPT_GOES_ON);
	CHECK(!strcmp(prompt.text, "8GiB"));
	/* Nothing of it is for a terminal. */
	type(&prompt, "\001\t\303\274\233");
	prompt_key(&prompt, 512);
	prompt_key(&prompt, 0);
	CHECK(!strcmp(prompt.text, "8GiB"));
	CHECK_EQ(prompt_key(&prompt, '\n'), PROMPT_DONE);
	CHECK_EQ(prompt_key(&prompt, PROMPT_ESCAPE), PROMPT_CANCELLED);
	prompt_key(&prompt, PROMPT_KILL);
	type(&prompt, "\177\b");
	CHECK(!*prompt.text);
	for (int i = 0; i < 2 * PROMPT_BYTES; i++)
		prompt_key(&prompt, 'x');
	CHECK_EQ(strlen(prompt.text), PROMPT_BYTES - 1);
}

int main(void)
{
	check_prompt();
	check_columns();
	check_a_long_name();
	check_scroll();
	check_spark();
	check_trail();
	return 0;
}
