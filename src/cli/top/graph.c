/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/top/graph.h"

#include <stdio.h>
#include <string.h>

#define BARS 5

/* Hundredths of a percent at the upper edge: five steps of a size that reads well. */
static uint32_t graph_scale_of(const uint32_t *history_bp, uint32_t target_permille)
{
	static const uint32_t scales[] = {500, 1000, 2500, 5000};
	uint32_t most = 0;

	for (int i = 0; i < SNAPSHOT_SECONDS; i++)
		if (history_bp[i] > most)
			most = history_bp[i];
	/* A second that is a little above the target is cut rather than change the scale. */
	most -= most / 10;
	if (target_permille * 10 > most)
		most = target_permille * 10;
	for (size_t i = 0; i < sizeof(scales) / sizeof(scales[0]); i++)
		if (most <= scales[i])
			return scales[i];
	return 10000;
}

struct graph graph_draw(const uint32_t history_bp[static SNAPSHOT_SECONDS],
			uint32_t target_permille)
{
	uint32_t scale = graph_scale_of(history_bp, target_permille), step = scale / BARS;
	struct graph g;

	for (int i = 0; i < BARS; i++) {
		uint32_t high = scale - (uint32_t)i * step, low = high - step;
		uint32_t target = target_permille * 10;
		char *at = g.row[i];

		at += sprintf(at, "%6u%%|", high / 100);
		for (int s = 0; s < SNAPSHOT_SECONDS; s++)
			*at++ = history_bp[s] + step / 4 >= high	? '#'
				: history_bp[s] > low + step / 4	? ':'
				: target > low && target <= high	? '-'
									: ' ';
		*at = 0;
	}
	sprintf(g.row[BARS], "%7s+", "");
	memset(g.row[BARS] + 8, '-', SNAPSHOT_SECONDS);
	g.row[BARS][GRAPH_WIDTH] = 0;
	sprintf(g.row[BARS + 1], "%8s%-*s%s", "", SNAPSHOT_SECONDS - 3, "60 s ago", "now");
	return g;
}
