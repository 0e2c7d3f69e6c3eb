/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/top/frame_one.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "cli/top/frame_table.h"
#include "cli/top/graph.h"
#include "cli/top/spark.h"
#include "node/compute_words.h"
#include "node/moved.h"
#include "text/text.h"
#include "text/units.h"

/* With room for some processes below, and the line of keys. */
static bool frame_one_fits(const struct frame *f, int lines, int height)
{
	return !height || f->n + lines + 4 <= height;
}

static void frame_one_add_memory(struct frame *f, const struct view *view,
				 const struct frame_state *state, const struct row *row)
{
	const struct trail *trail =
		row->uuid ? trail_find(&view->trails, row->name, row->uuid) : NULL;
	char spark[SPARK_BYTES(TRAIL_SAMPLES)];

	if (!trail)
		return;
	spark_draw(trail->sample, TRAIL_SAMPLES, rows_memory_whole(row, view), TRAIL_SAMPLES,
		   state->utf8, spark);
	frame_line_add(f, "memory |%s", spark);
}

/* The place of its memory, if not on the device, and how long moving it back takes. */
static void frame_one_add_away(struct frame *f, const struct row *row)
{
	struct moved moved = moved_of(row->tenant);
	uint64_t away = moved.host_bytes + moved.file_bytes;

	if (row->tenant->snapshot->policy.flags & POLICY_SWAPPABLE && away)
		frame_line_add(f, "away    %s%s%s%s%s", units_bytes(away).s,
			       moved.file_bytes ? ", on disk " : "",
			       moved.file_bytes ? units_bytes(moved.file_bytes).s : "",
			       moved.back_ns ? ", back in " : "",
			       moved.back_ns ? units_duration(moved.back_ns).s : "");
}

/* The graph is ASCII, and a terminal may have better. */
static void frame_one_add_graph(struct frame *f, const struct graph *graph, bool utf8)
{
	for (int i = 0; i < GRAPH_ROWS; i++) {
		char *at = frame_line_add(f, "%.*s", 8, graph->row[i])->text + 8;
		bool bars = utf8 && i < GRAPH_ROWS - 2;

		for (const char *p = graph->row[i] + 8; *p; p++)
			at = stpcpy(at, bars && *p == '#'   ? "█"
					: bars && *p == ':' ? "▄"
							    : (char[]){*p, 0});
	}
}

static void frame_one_add_share(struct frame *f, const struct row *row, bool utf8, int height)
{
	const struct snapshot_compute *compute = &row->device->compute;
	const struct policy *policy = &row->tenant->snapshot->policy;
	struct frame_line *line;
	struct graph graph;
	size_t len;

	line = frame_line_add(f, "share   %u.%u%% of %s, %s", compute->achieved_1s_bp / 100,
			      compute->achieved_1s_bp / 10 % 10,
			      units_permille(rows_target_permille(row)).s, compute_how(policy).s);
	len = strlen(line->text);
	if (policy->mode == POLICY_MODE_SPACE)
		len += (size_t)snprintf(line->text + len, 64, ", %s of the SMs",
					units_permille(compute->target_permille).s);
	if (compute->debt_ns > 0)
		snprintf(line->text + len, 64, ", owes %s",
			 units_duration((uint64_t)compute->debt_ns).s);
	if (!frame_one_fits(f, GRAPH_ROWS, height))
		return;
	graph = graph_draw(compute->history_bp, rows_target_permille(row));
	frame_one_add_graph(f, &graph, utf8);
}

/* So that columns stand below each other. */
static int frame_one_gpu_width(const struct snapshot *v)
{
	int width = 12;

	for (int d = 0; d < v->ndevices; d++) {
		int len = (int)strlen(units_uuid_short(v->device[d].uuid).s);

		width = len > width ? len : width;
	}
	return width;
}

/* The p-th process to be shown: each behind its parent, or as the ledger has them. */
static struct program frame_one_pick(const struct programs *programs, int p)
{
	return programs->n ? programs->list[p] : (struct program){p, 0, UINT64_MAX};
}

static void frame_one_add_process(struct frame *f, const struct programs *programs,
				  const struct snapshot *v, const struct program *program, int d,
				  int gpu_width, bool wide)
{
	const struct snapshot_process *process = &v->process[program->at];
	const struct snapshot_process_device *use = &process->device[d];
	int busy = programs_busy(programs, (pid_t)process->host_pid, v->device[d].uuid);
	char more[96] = "", percent[16] = "-";

	if (busy >= 0)
		snprintf(percent, sizeof(percent), "%d%%", busy);
	if (wide)
		snprintf(more, sizeof(more), "%5s %9s  ", percent,
			 program->host_bytes == UINT64_MAX ? "-"
							   : units_bytes(program->host_bytes).s);
	frame_line_add(f, "  %9" PRIu32 " %9" PRIu32 "  %-*s  %9s  %9s  %s%*s%s%s",
		       process->info.pid, process->host_pid, gpu_width,
		       units_uuid_short(v->device[d].uuid).s, units_bytes(use->used_bytes).s,
		       use->driver_bytes ? units_bytes(use->driver_bytes).s : "-", more,
		       program->depth ? program->depth * 2 - 2 : 0, "", program->depth ? "`-" : "",
		       process->info.command);
}

/* The columns of SMs and of the host's memory have room on a wide screen alone. */
#define PROCESSES_WIDE 100

static void frame_one_add_processes(struct frame *f, const struct programs *programs,
				    const struct snapshot *v, int columns, int height)
{
	int width = frame_one_gpu_width(v), hidden = 0;
	int n = programs->n ? (int)programs->n : v->nprocesses;
	bool wide = columns >= PROCESSES_WIDE;

	frame_line_add(f, "  %9s %9s  %-*s  %9s  %9s  %s%s", "PID", "HOST PID", width, "GPU",
		       "USED", "DRIVER", wide ? "   SM      HOST  " : "", "COMMAND")
		->style = FRAME_HEADING;
	for (int p = 0; p < n; p++) {
		struct program program = frame_one_pick(programs, p);
		const struct snapshot_process *process = &v->process[program.at];

		for (int d = 0; process->live && d < v->ndevices; d++) {
			const struct snapshot_process_device *use = &process->device[d];

			if (!use->used_bytes && !use->driver_bytes && v->ndevices > 1)
				continue;
			/* The last lines of the screen are for the keys, and for how many more. */
			if (height && f->n >= height - 2)
				hidden++;
			else
				frame_one_add_process(f, programs, v, &program, d, width, wide);
		}
	}
	if (hidden)
		frame_line_add(f, "  %d more", hidden)->style = FRAME_HEADING;
}

static void frame_one_add_outsider(struct frame *f, const struct outsider_found *found)
{
	const struct outsider *o = &found->outsider;

	if (o->standing == OUTSIDER_UNREAD)
		frame_line_add(f, "keeps to a ledger that cannot be read, as of another version of "
				  "allot");
	else if (o->standing == OUTSIDER_TOOL)
		frame_line_add(f, "a measurement of allot's, by root");
	else if (o->standing == OUTSIDER_HIDDEN)
		frame_line_add(f, "another user's: what limits it cannot be seen from here");
	else
		frame_line_add(f, "%s%s: nothing limits it",
			       *o->tenant ? o->by_quota
						    ? "has more than the quota leaves it in tenant "
						    : "has more than its ledger knows of in tenant "
					  : "in no tenant that is seen from here",
			       o->tenant);
	frame_line_add(f, "pid       %d", o->pid);
	frame_line_add(f, "user      %s", found->process.user);
	if (*found->process.container)
		frame_line_add(f, "container %.12s", found->process.container);
	if (*o->tenant)
		frame_line_add(f, "ledger    %s", units_bytes(o->ledger_bytes).s);
	frame_line_add(f, "command   %s", found->process.command);
}

void frame_one(struct frame *frame, const struct view *view, struct frame_state *state,
	       const struct rows *rows, int width, int height)
{
	size_t at = rows_select(rows, &state->choice);
	const struct row *row = &rows->list[at];
	static const struct programs none;

	frame_table_rows(frame, view, state, rows, width, at, at + 1, (long)at);
	frame_one_add_memory(frame, view, state, row);
	if (row->outside) {
		frame_one_add_outsider(frame, row->outside);
		return;
	}
	frame_one_add_away(frame, row);
	if (row->device && row->device->refusals)
		frame_line_add(frame, "refused %" PRIu64, row->device->refusals);
	if (row->device && row->device->energy_uj)
		frame_line_add(frame, "energy  %s%s%s", units_energy(row->device->energy_uj).s,
			       row->device->milliwatt != DEVICE_TIME_NO_POWER ? ", now " : "",
			       row->device->milliwatt != DEVICE_TIME_NO_POWER
				       ? units_power(row->device->milliwatt).s : "");
	if (rows_has_share(row))
		frame_one_add_share(frame, row, state->utf8, height);
	else if (row->device && row->device->compute.units)
		frame_line_add(frame, "share   %" PRIu32 " units, %s, %s",
			       row->device->compute.units,
			       units_permille(row->device->compute.target_permille).s,
			       compute_how(&row->tenant->snapshot->policy).s);
	frame_one_add_processes(frame, strcmp(row->name, view->asked) ? &none : &view->programs,
				row->tenant->snapshot, width, height);
}
