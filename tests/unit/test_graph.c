/* SPDX-License-Identifier: Apache-2.0 */
/* The graph of `allot top`: every row of one width, whatever was had. */
#include "cli/top/graph.h"

#include <string.h>

#include "tests/check.h"

static uint32_t history[SNAPSHOT_SECONDS];

static struct graph draw(uint32_t target_permille)
{
	struct graph g = graph_draw(history, target_permille);

	for (int i = 0; i < GRAPH_ROWS; i++)
		CHECK_EQ(strlen(g.row[i]), GRAPH_WIDTH);
	return g;
}

static void all(uint32_t bp)
{
	for (int i = 0; i < SNAPSHOT_SECONDS; i++)
		history[i] = bp;
}

/* The characters of a row, as often as they come in all. */
static int count(const char *row, char c)
{
	int n = 0;

	for (const char *p = row + 8; *p; p++)
		n += *p == c;
	return n;
}

static void check_bars(void)
{
	struct graph g;

	all(0);
	g = draw(250);
	CHECK(!strncmp(g.row[0], "    25%|", 8));
	CHECK(!strncmp(g.row[4], "     5%|", 8));
	CHECK_EQ(count(g.row[0], '-'), SNAPSHOT_SECONDS); /* the target */
	CHECK_EQ(count(g.row[1], ' '), SNAPSHOT_SECONDS);
	CHECK(strstr(g.row[6], "60 s ago") && strstr(g.row[6], "now"));
	/* A little less and a little more than the target are the target. */
	for (uint32_t bp = 2480; bp <= 2550; bp += 70) {
		all(bp);
		g = draw(250);
		CHECK(!strncmp(g.row[0], "    25%|", 8));
		CHECK_EQ(count(g.row[0], '#'), SNAPSHOT_SECONDS);
	}
	history[59] = 1200;
	history[0] = 0;
	g = draw(250);
	CHECK_EQ(g.row[0][8 + 59], '-');
	CHECK_EQ(g.row[2][8 + 59], ':');
	CHECK_EQ(g.row[3][8 + 59], '#');
	CHECK_EQ(g.row[4][8], ' ');
	CHECK_EQ(g.row[4][9], '#');
}

/* More than the target, as a share may have, changes the scale; nothing leaves it. */
static void check_scale(void)
{
	struct graph g;

	all(10000);
	g = draw(250);
	CHECK(!strncmp(g.row[0], "   100%|", 8));
	CHECK_EQ(count(g.row[0], '#'), SNAPSHOT_SECONDS);
	all(0);
	g = draw(1000);
	CHECK(!strncmp(g.row[0], "   100%|", 8));
	g = draw(1);
	CHECK(!strncmp(g.row[0], "     5%|", 8));
	CHECK_EQ(count(g.row[4], '-'), SNAPSHOT_SECONDS);
	all(UINT32_MAX);
	draw(UINT32_MAX);
}

int main(void)
{
	check_bars();
	check_scale();
	return 0;
}
