/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/out/frame.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "amd/identity.h"
#include "cli/device/limits.h"
#include "cli/out/graph.h"
#include "node/compute_words.h"
#include "node/figures.h"
#include "node/moved.h"
#include "text/text.h"
#include "text/units.h"

#define MAX_ENTRIES 1024

/* One tenant on one device. */
struct entry {
	const struct tenant_entry *tenant;
	const struct snapshot_device *device; /* NULL: it used none yet */
	int permille;
};

static struct frame_line *frame_add_line(struct frame *f, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

static struct frame_line *frame_add_line(struct frame *f, const char *fmt, ...)
{
	struct frame_line *line = &f->line[f->n < FRAME_LINES ? f->n++ : FRAME_LINES - 1];
	va_list ap;

	memset(line, 0, sizeof(*line));
	line->bar_permille = -1;
	va_start(ap, fmt);
	vsnprintf(line->text, sizeof(line->text), fmt, ap);
	va_end(ap);
	text_make_printable(line->text);
	return line;
}

static int frame_permille_of(uint64_t part, uint64_t whole)
{
	double x = whole ? (double)part * 1000 / (double)whole : 0;

	return x > 1000 ? 1000 : (int)x;
}

static enum frame_level frame_level_of(int permille)
{
	return permille < 750 ? FRAME_CALM : permille < 950 ? FRAME_HIGH : FRAME_FULL;
}

static uint64_t frame_used_of(const struct entry *e)
{
	return e->device ? e->device->used_bytes : 0;
}

static uint64_t frame_refusals_of(const struct entry *e)
{
	return e->device ? e->device->refusals : 0;
}

/* Measured, that is. */
static bool frame_has_compute(const struct entry *e)
{
	return e->device && policy_meters(&e->tenant->snapshot->policy) &&
	       !amd_identity_is(e->device->uuid);
}

/* Of an AMD GPU's, on which nobody measures. */
static bool frame_has_units(const struct entry *e)
{
	return e->device && e->device->compute.units;
}

/* Over a minute, so that the order holds still. */
static uint32_t frame_achieved_of(const struct entry *e)
{
	return frame_has_compute(e) ? e->device->compute.achieved_60s_bp : 0;
}

static int frame_compare_names(const struct entry *x, const struct entry *y)
{
	int r = strcmp(x->tenant->name, y->tenant->name);

	if (r || !x->device || !y->device)
		return r;
	return memcmp(x->device->uuid, y->device->uuid, sizeof(x->device->uuid));
}

static int frame_compare_entries(const void *a, const void *b, void *sort)
{
	const struct entry *x = a, *y = b;
	uint64_t u = 0, v = 0;

	if (*(enum frame_sort *)sort == FRAME_BY_MEMORY) {
		u = frame_used_of(x);
		v = frame_used_of(y);
	} else if (*(enum frame_sort *)sort == FRAME_BY_COMPUTE) {
		u = frame_achieved_of(x);
		v = frame_achieved_of(y);
	} else if (*(enum frame_sort *)sort == FRAME_BY_REFUSALS) {
		u = frame_refusals_of(x);
		v = frame_refusals_of(y);
	}
	return u != v ? (u < v ? 1 : -1) : frame_compare_names(x, y);
}

static int frame_collect(const struct tenants *tenants, struct entry *entries)
{
	int n = 0;

	for (size_t i = 0; i < tenants->n; i++) {
		const struct tenant_entry *t = &tenants->list[i];

		if (t->error)
			continue;
		for (int d = 0; d < (t->snapshot->ndevices ? t->snapshot->ndevices : 1); d++) {
			struct entry e = {.tenant = t};

			if (n == MAX_ENTRIES)
				return n;
			if (t->snapshot->ndevices) {
				e.device = &t->snapshot->device[d];
				e.permille = frame_permille_of(e.device->used_bytes,
							       e.device->limit_bytes);
			}
			entries[n++] = e;
		}
	}
	return n;
}

/* The selection follows its tenant, wherever sorting puts it, and begins at its first device. */
static int frame_select_entry(const struct entry *entries, int n, struct frame_state *state)
{
	int at = -1;

	for (int i = 0; i < n; i++) {
		bool same = entries[i].device && !memcmp(entries[i].device->uuid, state->uuid, 16);

		if (!strcmp(entries[i].tenant->name, state->tenant) && (at < 0 || same))
			at = i;
	}
	at = (at < 0 ? 0 : at) + state->move;
	state->move = 0;
	at = at < 0 ? 0 : at >= n ? n - 1 : at;
	snprintf(state->tenant, sizeof(state->tenant), "%s", entries[at].tenant->name);
	if (entries[at].device)
		memcpy(state->uuid, entries[at].device->uuid, 16);
	return at;
}

/*
 * Puts words at the right edge, where the bars end. On a narrow screen they hide the words left of
 * them.
 */
static void frame_put_right(struct frame_line *line, const char *right, int width)
{
	int room = (int)sizeof(line->text) - 1;
	size_t len = strlen(line->text);

	room = (width < room ? width : room) - (int)strlen(right);
	if (room <= 1)
		return;
	if (len < (size_t)room)
		memset(line->text + len, ' ', (size_t)room - len);
	line->text[room - 1] = ' '; /* what is cut ends before it */
	snprintf(line->text + room, sizeof(line->text) - (size_t)room, "%s", right);
}

static void frame_add_bar(struct frame *f, int permille, enum frame_level level, int bar_lines)
{
	for (int i = 0; i < bar_lines; i++) {
		struct frame_line *line = frame_add_line(f, "%s", "");

		line->bar_permille = permille;
		line->level = level;
	}
}

/* A tenant in mode space has its part of the SMs, and may be busy there all the time. */
static uint32_t frame_time_target_of(const struct entry *e)
{
	return e->tenant->snapshot->policy.mode == POLICY_MODE_SPACE
		       ? 1000
		       : e->device->compute.target_permille;
}

/* A full bar is what the tenant may count on, and having that much is no reason for colours. */
static void frame_add_compute(struct frame *f, const struct entry *e, bool selected, int width,
			      int bar_lines)
{
	const struct snapshot_compute *compute = &e->device->compute;
	int permille = frame_permille_of(compute->achieved_1s_bp, frame_time_target_of(e) * 10);
	struct frame_line *line;
	char right[128];

	line = frame_add_line(f, "  %-16s %s", "compute",
			      compute_how(&e->tenant->snapshot->policy).s);
	if (e->tenant->snapshot->policy.mode == POLICY_MODE_SPACE)
		snprintf(line->text + strlen(line->text), sizeof(line->text) - strlen(line->text),
			 ", %s of the SMs", units_permille(compute->target_permille).s);
	if (compute->debt_ns > 0)
		snprintf(line->text + strlen(line->text), sizeof(line->text) - strlen(line->text),
			 ", owes %s", units_duration((uint64_t)compute->debt_ns).s);
	snprintf(right, sizeof(right), "%u.%u%% of %s  %3d%%", compute->achieved_1s_bp / 100,
		 compute->achieved_1s_bp / 10 % 10, units_permille(frame_time_target_of(e)).s,
		 permille / 10);
	frame_put_right(line, right, width);
	line->strong = true;
	line->selected = selected;
	frame_add_bar(f, permille, FRAME_CALM, bar_lines);
}

static void frame_add_units(struct frame *f, const struct entry *e, bool selected, int width)
{
	const struct snapshot_compute *compute = &e->device->compute;
	struct frame_line *line;
	char right[64];

	line = frame_add_line(f, "  %-16s %s", "compute",
			      compute_how(&e->tenant->snapshot->policy).s);
	snprintf(right, sizeof(right), "%" PRIu32 " units, %s", compute->units,
		 units_permille(compute->target_permille).s);
	frame_put_right(line, right, width);
	line->strong = true;
	line->selected = selected;
}

/* With its index in front, where a driver tells. */
static struct units_text frame_device_of(const struct entry *e)
{
	struct units_text name = units_uuid_short(e->device->uuid), t = name;
	int index = figures_index(e->device->uuid);

	if (index >= 0)
		snprintf(t.s, sizeof(t.s), "%d %.34s", index, name.s);
	return t;
}

/* Where its memory is, if not on the device, and how long it takes to come back. */
static void frame_append_swap(struct frame_line *line, const struct tenant_entry *tenant)
{
	struct moved moved = moved_of(tenant);
	size_t len = strlen(line->text);

	if (!(tenant->snapshot->policy.flags & POLICY_SWAPPABLE) || !moved.host_bytes)
		return;
	snprintf(line->text + len, sizeof(line->text) - len, "  %s away%s%s",
		 units_bytes(moved.host_bytes).s, moved.back_ns ? ", " : "",
		 moved.back_ns ? units_duration(moved.back_ns).s : "");
}

static void frame_add_entry(struct frame *f, const struct entry *e, bool selected, int width,
			    int bar_lines)
{
	unsigned int live = tenants_live(e->tenant->snapshot);
	struct units_text quota = limits_words(&e->tenant->snapshot->policy.device[0]);
	struct units_text device = {""};
	struct frame_line *line;
	char right[128];

	if (e->device && e->device->limit_bytes)
		quota = units_bytes(e->device->limit_bytes);
	snprintf(right, sizeof(right), "%s of %s  %3d%%", units_bytes(frame_used_of(e)).s, quota.s,
		 e->permille / 10);
	if (e->device)
		device = frame_device_of(e);
	/* A short name makes room for an AMD device's long one. */
	line = frame_add_line(f, "%c %-*.63s %s  %u process%s", selected ? '>' : ' ',
			      strlen(device.s) > 12 ? 8 : 16, e->tenant->name, device.s, live,
			      live == 1 ? "" : "es");
	frame_append_swap(line, e->tenant);
	if (frame_refusals_of(e))
		snprintf(line->text + strlen(line->text), sizeof(line->text) - strlen(line->text),
			 "  %" PRIu64 " refused", frame_refusals_of(e));
	frame_put_right(line, right, width);
	line->strong = true;
	line->selected = selected;
	frame_add_bar(f, e->permille, frame_level_of(e->permille), bar_lines);
	if (frame_has_compute(e))
		frame_add_compute(f, e, selected, width, bar_lines);
	if (frame_has_units(e))
		frame_add_units(f, e, selected, width);
}

/* The graph is shown where it leaves room for some processes. */
static void frame_add_graph(struct frame *f, const struct entry *e, int height)
{
	struct graph graph;

	if (height && f->n + GRAPH_ROWS + 2 + 4 > height)
		return;
	graph = graph_draw(e->device->compute.history_bp, frame_time_target_of(e));
	frame_add_line(f, "%s", "");
	for (int i = 0; i < GRAPH_ROWS; i++)
		frame_add_line(f, "%s", graph.row[i]);
	frame_add_line(f, "%s", "");
}

/* So that columns stand below each other. */
static int frame_gpu_width(const struct snapshot *v)
{
	int width = 12;

	for (int d = 0; d < v->ndevices; d++) {
		int len = (int)strlen(units_uuid_short(v->device[d].uuid).s);

		width = len > width ? len : width;
	}
	return width;
}

static void frame_add_processes(struct frame *f, const struct tenant_entry *t, int height)
{
	const struct snapshot *v = t->snapshot;
	int width = frame_gpu_width(v);

	frame_add_line(f, "  %9s %9s  %-*s  %9s  %9s  %s", "PID", "HOST PID", width, "GPU", "USED",
		       "DRIVER", "COMMAND")
		->strong = true;
	for (int p = 0; p < v->nprocesses; p++) {
		const struct snapshot_process *process = &v->process[p];

		if (!process->live)
			continue;
		for (int d = 0; d < v->ndevices; d++) {
			const struct snapshot_process_device *use = &process->device[d];

			if (!use->used_bytes && !use->driver_bytes && v->ndevices > 1)
				continue;
			/* The last line of the screen is for the keys. */
			if (height && f->n >= height - 1)
				return;
			frame_add_line(f, "  %9" PRIu32 " %9" PRIu32 "  %-*s  %9s  %9s  %s",
				       process->info.pid, process->host_pid, width,
				       units_uuid_short(v->device[d].uuid).s,
				       units_bytes(use->used_bytes).s,
				       use->driver_bytes ? units_bytes(use->driver_bytes).s : "-",
				       process->info.command);
		}
	}
}

static void frame_add_title(struct frame *f, const struct tenants *tenants,
			    const struct frame_state *state)
{
	static const char *const sorts[] = {"memory", "compute", "name", "refusals"};
	unsigned int live = 0, unreadable = 0;

	for (size_t i = 0; i < tenants->n; i++) {
		if (tenants->list[i].error)
			unreadable++;
		else
			live += tenants_live(tenants->list[i].snapshot);
	}
	frame_add_line(f, "allot: %zu tenant%s, %u process%s, by %s", tenants->n,
		       tenants->n == 1 ? "" : "s", live, live == 1 ? "" : "es", sorts[state->sort])
		->strong = true;
	if (unreadable)
		frame_add_line(f, "%u tenant%s cannot be read: see \"allot ps\"", unreadable,
			       unreadable == 1 ? "" : "s");
}

/* Of `lines` a bar with its words takes all, less one for air where there are more than two. */
static int frame_entry_height(const struct entry *e, int lines)
{
	int air = lines > 2;

	return (lines - air) * (frame_has_compute(e) ? 2 : 1) + frame_has_units(e) + air;
}

static bool frame_fit(const struct entry *entries, int n, int lines, int height)
{
	for (int i = 0; i < n; i++)
		height -= frame_entry_height(&entries[i], lines);
	return height >= 0;
}

/* The page that `at` is on. */
static void frame_turn_page(const struct entry *entries, int n, int lines, int height, int at,
			    int *ret_first, int *ret_last)
{
	int first = 0, used = 0, i;

	for (i = 0; i < n; i++) {
		int need = frame_entry_height(&entries[i], lines);

		if (used + need > height && i > first) {
			if (at < i)
				break;
			first = i;
			used = 0;
		}
		used += need;
	}
	*ret_first = first;
	*ret_last = i;
}

void frame_build(const struct tenants *tenants, struct frame_state *state, int width, int height,
		 struct frame *ret)
{
	static struct entry entries[MAX_ENTRIES];
	int n = frame_collect(tenants, entries), at, lines, first = 0, last = n;

	ret->n = 0;
	frame_add_title(ret, tenants, state);
	if (!n) {
		frame_add_line(ret, "no tenants in %s; \"allot run\" makes one", tenants->runtime);
		return;
	}
	qsort_r(entries, (size_t)n, sizeof(*entries), frame_compare_entries, &state->sort);
	at = frame_select_entry(entries, n, state);
	if (state->processes) {
		frame_add_entry(ret, &entries[at], true, width, 2);
		if (frame_has_compute(&entries[at]))
			frame_add_graph(ret, &entries[at], height);
		frame_add_processes(ret, entries[at].tenant, height);
		return;
	}
	/* Tall bars and air when all fit, then less of both, then pages. */
	height -= ret->n + 1;
	lines = 2;
	if (height >= 0 && frame_fit(entries, n, 4, height))
		lines = 4;
	else if (height >= 0 && frame_fit(entries, n, 3, height))
		lines = 3;
	if (height >= 0)
		frame_turn_page(entries, n, lines, height, at, &first, &last);
	for (int i = first; i < last; i++) {
		frame_add_entry(ret, &entries[i], height >= 0 && i == at, width, lines > 3 ? 2 : 1);
		if (lines > 2)
			frame_add_line(ret, "%s", "");
	}
}
