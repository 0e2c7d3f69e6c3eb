/* SPDX-License-Identifier: Apache-2.0 */
/* A small graph of a tenant's part of a device's time, in text of a fixed size. Pure. */
#ifndef ALLOT_CLI_TOP_GRAPH_H
#define ALLOT_CLI_TOP_GRAPH_H

#include <stdint.h>

#include "ledger/reader/snapshot.h"

#define GRAPH_ROWS  7 /* five of bars, the axis and its words */
#define GRAPH_WIDTH (8 + SNAPSHOT_SECONDS)

struct graph {
	char row[GRAPH_ROWS][GRAPH_WIDTH + 1];
};

/*
 * `history_bp` is in hundredths of a percent, the oldest second first. The scale follows the larger
 * of the history and the target, which is a dashed line behind the bars.
 */
struct graph graph_draw(const uint32_t history_bp[static SNAPSHOT_SECONDS],
			uint32_t target_permille);

#endif
