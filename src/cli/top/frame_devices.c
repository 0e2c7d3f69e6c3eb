/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/top/frame_devices.h"

#include <inttypes.h>
#include <string.h>

#include "cli/top/cells.h"
#include "text/units.h"

enum {
	DEVICE_INDEX,
	DEVICE_MODEL,
	DEVICE_TOTAL,
	DEVICE_USED,
	DEVICE_PROMISED,
	DEVICE_FREE,
	DEVICE_UTIL,
	DEVICE_TEMP,
	DEVICE_POWER,
	DEVICE_BAR,
	DEVICE_TRAIL,
	DEVICE_UTIL_TRAIL,
	DEVICE_ENCODER,
	DEVICE_DECODER,
	DEVICE_SM,
	DEVICE_CLOCK,
	DEVICE_LIMIT,
	DEVICE_LINK,
	DEVICE_SENT,
	DEVICE_RECEIVED,
	DEVICE_COLUMNS
};

_Static_assert(DEVICE_COLUMNS <= COLUMNS_MOST, "the table fits");

/* The columns of the two views: the devices' memory, and their clocks. */
static const int device_memory[] = {DEVICE_INDEX,    DEVICE_MODEL, DEVICE_TOTAL, DEVICE_USED,
				    DEVICE_PROMISED, DEVICE_FREE,  DEVICE_UTIL,	 DEVICE_TEMP,
				    DEVICE_POWER,    DEVICE_BAR,   DEVICE_TRAIL};
static const int device_clocks[] = {DEVICE_INDEX,    DEVICE_MODEL,     DEVICE_UTIL,  DEVICE_ENCODER,
				    DEVICE_DECODER,  DEVICE_SM,	       DEVICE_CLOCK, DEVICE_TEMP,
				    DEVICE_POWER,    DEVICE_LIMIT,     DEVICE_LINK,  DEVICE_SENT,
				    DEVICE_RECEIVED, DEVICE_UTIL_TRAIL};

static const struct column device_columns[DEVICE_COLUMNS] = {
	[DEVICE_INDEX] = {"GPU", 3, 3, 0, COLUMN_RIGHT, COLUMN_FITS},
	[DEVICE_MODEL] = {"MODEL", 5, 28, 5, COLUMN_LEFT, COLUMN_FITS},
	[DEVICE_TOTAL] = {"TOTAL", 5, 10, 3, COLUMN_RIGHT, COLUMN_FITS},
	[DEVICE_USED] = {"USED", 8, 10, 0, COLUMN_RIGHT, COLUMN_FITS},
	[DEVICE_PROMISED] = {"PROMISED", 8, 10, 1, COLUMN_RIGHT, COLUMN_FITS},
	[DEVICE_FREE] = {"FREE", 8, 10, 0, COLUMN_RIGHT, COLUMN_FITS},
	[DEVICE_UTIL] = {"UTIL", 4, 4, 0, COLUMN_RIGHT, COLUMN_FITS},
	[DEVICE_TEMP] = {"TEMP", 4, 5, 2, COLUMN_RIGHT, COLUMN_FITS},
	[DEVICE_POWER] = {"POWER", 5, 6, 2, COLUMN_RIGHT, COLUMN_FITS},
	[DEVICE_BAR] = {"MEMORY", 8, 40, 4, COLUMN_LEFT, COLUMN_GROWS},
	[DEVICE_TRAIL] = {"OVER TIME", 9, TRAIL_SAMPLES, 6, COLUMN_LEFT, COLUMN_GROWS},
	[DEVICE_UTIL_TRAIL] = {"UTIL OVER TIME", 14, TRAIL_SAMPLES, 6, COLUMN_LEFT, COLUMN_GROWS},
	[DEVICE_ENCODER] = {"ENC", 4, 4, 3, COLUMN_RIGHT, COLUMN_FITS},
	[DEVICE_DECODER] = {"DEC", 4, 4, 3, COLUMN_RIGHT, COLUMN_FITS},
	[DEVICE_SM] = {"SM MHZ", 6, 6, 1, COLUMN_RIGHT, COLUMN_FITS},
	[DEVICE_CLOCK] = {"MEM MHZ", 7, 7, 2, COLUMN_RIGHT, COLUMN_FITS},
	[DEVICE_LIMIT] = {"LIMIT", 5, 6, 3, COLUMN_RIGHT, COLUMN_FITS},
	[DEVICE_LINK] = {"PCIE", 4, 6, 4, COLUMN_RIGHT, COLUMN_FITS},
	[DEVICE_SENT] = {"SENT/S", 8, 10, 2, COLUMN_RIGHT, COLUMN_FITS},
	[DEVICE_RECEIVED] = {"RECV/S", 8, 10, 2, COLUMN_RIGHT, COLUMN_FITS},
};

static const enum cells_draw device_draw[DEVICE_COLUMNS] = {
	[DEVICE_BAR] = CELLS_BAR, [DEVICE_TRAIL] = CELLS_TRAIL, [DEVICE_UTIL_TRAIL] = CELLS_TRAIL};

/* "-" where the driver does not tell. */
static void frame_devices_put(struct cells *cells, int column, uint32_t value, uint32_t divisor,
			      const char *unit)
{
	cells_put(cells, column, "-");
	if (value != GAUGE_UNKNOWN)
		cells_put(cells, column, "%" PRIu32 "%s", value / divisor, unit);
}

static void frame_devices_put_traffic(struct cells *cells, int column, uint32_t kbps)
{
	cells_put(cells, column, "%s",
		  kbps == GAUGE_UNKNOWN ? "-" : units_bytes(kbps * UINT64_C(1000)).s);
}

static void frame_devices_fill_clocks(const struct view *view, const struct gauge *g,
				      struct cells *cells)
{
	frame_devices_put(cells, DEVICE_ENCODER, g->encoder_percent, 1, "%");
	frame_devices_put(cells, DEVICE_DECODER, g->decoder_percent, 1, "%");
	frame_devices_put(cells, DEVICE_SM, g->sm_mhz, 1, "");
	frame_devices_put(cells, DEVICE_CLOCK, g->memory_mhz, 1, "");
	frame_devices_put(cells, DEVICE_LIMIT, g->limit_milliwatt, 1000, " W");
	cells_put(cells, DEVICE_LINK, "-");
	if (g->pcie_generation != GAUGE_UNKNOWN && g->pcie_lanes != GAUGE_UNKNOWN)
		cells_put(cells, DEVICE_LINK, "%" PRIu32 " x%" PRIu32, g->pcie_generation,
			  g->pcie_lanes);
	frame_devices_put_traffic(cells, DEVICE_SENT, g->sent_kbps);
	frame_devices_put_traffic(cells, DEVICE_RECEIVED, g->received_kbps);
	cells_put_trail(cells, DEVICE_UTIL_TRAIL, view, VIEW_UTIL, g->uuid, 100);
}

static void frame_devices_fill(const struct view *view, const struct gauge *g, bool clocks,
			       struct cells *cells)
{
	struct tenants_sum sum = tenants_sum(&view->tenants, g->uuid, g->total_bytes);
	bool known = g->used_bytes != GAUGE_BYTES_UNKNOWN;

	*cells = (struct cells){.permille = -1};
	cells_put(cells, DEVICE_INDEX, "%u", g->index);
	cells_put(cells, DEVICE_MODEL, "%s", g->model);
	cells_put(cells, DEVICE_TOTAL, "%s", g->total_bytes ? units_bytes(g->total_bytes).s : "-");
	cells_put(cells, DEVICE_USED, "%s", known ? units_bytes(g->used_bytes).s : "-");
	cells_put(cells, DEVICE_PROMISED, "%s", units_bytes(sum.promised_bytes).s);
	cells_put(cells, DEVICE_FREE, "%s",
		  known && g->total_bytes >= g->used_bytes
			  ? units_bytes(g->total_bytes - g->used_bytes).s
			  : "-");
	frame_devices_put(cells, DEVICE_UTIL, g->busy_percent, 1, "%");
	frame_devices_put(cells, DEVICE_TEMP, g->celsius, 1, " C");
	frame_devices_put(cells, DEVICE_POWER, g->milliwatt, 1000, " W");
	cells_put_bar(cells, DEVICE_BAR,
		      known && g->total_bytes
			      ? (int)((double)g->used_bytes * 1000 / (double)g->total_bytes)
			      : -1);
	if (clocks)
		frame_devices_fill_clocks(view, g, cells);
	else
		cells_put_trail(cells, DEVICE_TRAIL, view, VIEW_DEVICE, g->uuid, g->total_bytes);
}

void frame_devices(struct frame *frame, const struct view *view, const struct frame_state *state,
		   int width, int most)
{
	struct cells_layout l = {device_columns, device_draw, DEVICE_COLUMNS, {0}, 0, {0}};
	unsigned int n = view->gauges.n;
	int need[COLUMNS_MOST] = {0};
	static struct cells cells;

	if (!n)
		return;
	l.norder = state->clocks ? sizeof(device_clocks) / sizeof(*device_clocks)
				 : sizeof(device_memory) / sizeof(*device_memory);
	memcpy(l.order, state->clocks ? device_clocks : device_memory,
	       (size_t)l.norder * sizeof(*l.order));
	if (most && n > (unsigned int)most)
		n = most > 1 ? (unsigned int)most - 1 : 1;
	for (unsigned int i = 0; i < n; i++) {
		frame_devices_fill(view, &view->gauges.list[i], state->clocks, &cells);
		cells_measure(&l, &cells, need);
	}
	cells_fit(&l, need, width);
	cells_add_headings(frame, &l);
	for (unsigned int i = 0; i < n; i++) {
		frame_devices_fill(view, &view->gauges.list[i], state->clocks, &cells);
		cells_add_line(frame, &l, &cells, state->utf8);
	}
	if (n < view->gauges.n)
		frame_line_add(frame, "  %s",
			       units_count(view->gauges.n - n, "more device", "more devices").s);
}
