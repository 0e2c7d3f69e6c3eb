/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/top/columns.h"

#include <stdbool.h>

static int columns_clamp(int x, int least, int most)
{
	return x < least ? least : x > most ? most : x;
}

static int columns_sum(int n, const int *widths)
{
	int sum = 0;

	for (int i = 0; i < n; i++)
		if (widths[i])
			sum += widths[i] + (sum ? COLUMNS_GAP : 0);
	return sum;
}

/* The shown one that goes next, -1 for none. */
static int columns_worst(const struct column *columns, int n, const int *widths)
{
	int worst = -1;

	for (int i = 0; i < n; i++)
		if (widths[i] && columns[i].rank &&
		    (worst < 0 || columns[i].rank >= columns[worst].rank))
			worst = i;
	return worst;
}

/* A character for each of those that take more, round and round. */
static void columns_grow(const struct column *columns, int n, int left, int *widths)
{
	bool any = true;

	while (left > 0 && any) {
		any = false;
		for (int i = 0; i < n && left > 0; i++) {
			if (!widths[i] || columns[i].how != COLUMN_GROWS ||
			    widths[i] >= columns[i].most)
				continue;
			widths[i]++;
			left--;
			any = true;
		}
	}
}

/* By how much column i can be narrowed. */
static int columns_slack_of(const struct column *columns, int i, const int *widths)
{
	return columns[i].how == COLUMN_YIELDS && widths[i] > COLUMNS_YIELDED
		       ? widths[i] - COLUMNS_YIELDED
		       : 0;
}

static int columns_slack(const struct column *columns, int n, const int *widths)
{
	int slack = 0;

	for (int i = 0; i < n; i++)
		slack += columns_slack_of(columns, i, widths);
	return slack;
}

/* Takes each character from the column that has most to yield; `excess` is at most the slack. */
static void columns_narrow(const struct column *columns, int n, int excess, int *widths)
{
	for (; excess > 0; excess--) {
		int most = 0;

		for (int i = 1; i < n; i++)
			if (columns_slack_of(columns, i, widths) >
			    columns_slack_of(columns, most, widths))
				most = i;
		widths[most]--;
	}
}

void columns_fit(const struct column *columns, int n, const int *need, int width, int *ret)
{
	int worst, slack, excess;

	for (int i = 0; i < n; i++)
		ret[i] = !need[i] ? 0
				  : columns_clamp(columns[i].how == COLUMN_GROWS ? 0 : need[i],
						  columns[i].least, columns[i].most);
	while ((excess = columns_sum(n, ret) - width) > 0) {
		worst = columns_worst(columns, n, ret);
		slack = columns_slack(columns, n, ret);
		if (worst < 0 || (columns[worst].rank < COLUMNS_SPARE && excess <= slack)) {
			columns_narrow(columns, n, excess < slack ? excess : slack, ret);
			break;
		}
		ret[worst] = 0;
	}
	columns_grow(columns, n, width - columns_sum(n, ret), ret);
}

int columns_scroll(int n, int at, int room, int first)
{
	if (room < 1)
		return at;
	if (first > n - room)
		first = n - room;
	if (first > at)
		first = at;
	if (first < at - room + 1)
		first = at - room + 1;
	return first < 0 ? 0 : first;
}
