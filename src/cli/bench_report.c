/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/bench_report.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/bench_svg.h"
#include "cli/bench_targets.h"
#include "cli/json.h"
#include "cli/say.h"
#include "cli/table.h"

static void finish_table(struct table *t)
{
	fputs("\n", stdout);
	if (table_print(t, stdout) < 0)
		say_note("no memory for a table");
	table_free(t);
	fflush(stdout);
}

static struct table *begin_table(const char *title, const char *headings)
{
	struct table *t = table_new(headings);

	if (!t)
		exit(say_error("no memory for a table"));
	printf("\n%s\n", title);
	return t;
}

/* 0.1 ms, 1 ms, 10 ms */
static const char *kernel_words(double us, char buf[static 16])
{
	snprintf(buf, 16, "%g ms", us / 1e3);
	return buf;
}

/* The last cell of a row. */
static void verdict_cell(struct table *t, bool kept)
{
	if (!kept)
		table_style(t, TABLE_ALERT);
	table_cell(t, "%s", kept ? "" : "missed");
}

static bool caps_kept(const struct bench_caps *c)
{
	bool kept = c->worst_error * 100 <= BENCH_SECOND_POINTS;

	for (unsigned int p = 0; p < c->nphases; p++)
		kept &= fabs(c->phase[p].share - c->phase[p].target) * 100 <= BENCH_CAP_POINTS;
	return kept;
}

static unsigned int count_controllers(const struct bench_report *report)
{
	unsigned int n = 0;

	for (unsigned int i = 0; i < report->ncaps; i++)
		n += !i || report->caps[i].controller != report->caps[i - 1].controller;
	return n;
}

void bench_print_caps(const struct bench_report *report)
{
	struct table *t;
	char headings[256] = "CONTROLLER|KERNEL", kernel[16];
	double mean = 0, worst = 0;
	bool late = false;

	if (!report->ncaps)
		return;
	for (unsigned int i = 0; i < report->caps[0].nphases; i++)
		sprintf(headings + strlen(headings), "|>%.0f %%",
			report->caps[0].phase[i].target * 100);
	strcat(headings, "|>MEAN OFF|>WORST SECOND|");
	t = begin_table(
		"A tenant alone, its cap changed while it runs: percent of the device's time "
		"that it had",
		headings);
	for (unsigned int i = 0; i < report->ncaps; i++) {
		const struct bench_caps *c = &report->caps[i];

		table_cell(t, "%s", c->controller);
		table_cell(t, "%s", kernel_words(c->kernel_us, kernel));
		for (unsigned int p = 0; p < c->nphases; p++)
			table_cell(t, "%.1f", c->phase[p].share * 100);
		table_cell(t, "%.1f", c->mean_error * 100);
		table_cell(t, "%.1f", c->worst_error * 100);
		if (c->late)
			table_cell(t, "doubtful: the processor was busy");
		else
			verdict_cell(t, caps_kept(c));
		mean += c->mean_error / report->ncaps;
		worst = fmax(worst, c->worst_error);
		late |= c->late;
	}
	finish_table(t);
	if (count_controllers(report) == 1)
		printf("off by %.1f points on average, %.1f in the worst second; promised: %.1f, "
		       "%.1f "
		       "at most and %.1f\n",
		       mean * 100, worst * 100, BENCH_MEAN_POINTS, BENCH_CAP_POINTS,
		       BENCH_SECOND_POINTS);
	if (late)
		puts("run it again while the machine is idle");
}

void bench_print_controllers(const struct bench_report *report)
{
	struct table *t;

	if (count_controllers(report) < 2)
		return;
	t = begin_table("The controllers side by side",
			"CONTROLLER|>MEAN OFF|>WORST SECOND|>THROUGHPUT KEPT");
	for (unsigned int i = 0; i < report->ncaps;) {
		const char *controller = report->caps[i].controller;
		double mean = 0, worst = 0, kept = 0;
		unsigned int n = 0;

		for (; i < report->ncaps && report->caps[i].controller == controller; i++, n++) {
			mean += report->caps[i].mean_error;
			worst = fmax(worst, report->caps[i].worst_error);
			kept += report->caps[i].kept;
		}
		table_cell(t, "%s", controller);
		table_cell(t, "%.1f points", mean / n * 100);
		table_cell(t, "%.1f points", worst * 100);
		table_cell(t, "%.1f %%", kept / n * 100);
	}
	finish_table(t);
}

static bool pair_kept(const struct bench_pair *p)
{
	double part = bench_pair_part(p);

	return fabs(p->share[0] - part) * 100 <= BENCH_WEIGHT_POINTS &&
	       fabs(p->share[1] - (1 - part)) * 100 <= BENCH_WEIGHT_POINTS &&
	       (p->share[0] + p->share[1]) * 100 >= BENCH_TOGETHER_PERCENT;
}

void bench_print_pairs(const struct bench_report *report)
{
	struct table *t;
	char kernel[16];

	if (!report->has_pairs)
		return;
	t = begin_table("Two that always want the device: percent of what one has alone",
			"|KERNEL|>FIRST|>SECOND|>TOGETHER|PROMISED|");
	for (int i = 0; i < BENCH_PAIRS; i++) {
		const struct bench_pair *p = &report->pair[i];
		double part = bench_pair_part(p) * 100;

		table_cell(t, "%s", p->name);
		table_cell(t, "%s", kernel_words(p->kernel_us, kernel));
		table_cell(t, "%.1f", p->share[0] * 100);
		table_cell(t, "%.1f", p->share[1] * 100);
		table_cell(t, "%.1f", (p->share[0] + p->share[1]) * 100);
		if (part > 0)
			table_cell(t, "%g + %g within %g, %g together", part, 100 - part,
				   BENCH_WEIGHT_POINTS, BENCH_TOGETHER_PERCENT);
		else
			table_cell(t, "%s", "");
		verdict_cell(t, part <= 0 || pair_kept(p));
	}
	finish_table(t);
}

static void promise_cell(struct table *t, const struct bench_request *q)
{
	char words[64];

	if (q->most_us <= 0)
		words[0] = 0;
	else if (q->least > 0)
		snprintf(words, sizeof(words), "%.1f ms, neighbour %.0f %%", q->most_us / 1e3,
			 q->least * 100);
	else
		snprintf(words, sizeof(words), "%.1f ms", q->most_us / 1e3);
	table_cell(t, "%s", words);
}

void bench_print_requests(const struct bench_report *report)
{
	struct table *t;

	if (!report->has_requests)
		return;
	t = begin_table("A request of 1 ms each 10 ms: how long it takes",
			"|>HALF WITHIN|>99 % WITHIN|>NEIGHBOUR HAS|PROMISED|");
	for (int i = 0; i < BENCH_REQUESTS; i++) {
		const struct bench_request *q = &report->request[i];

		table_cell(t, "%s", q->name);
		table_cell(t, "%.2f ms", q->p50_us / 1e3);
		table_cell(t, "%.2f ms", q->p99_us / 1e3);
		if (q->neighbour_us > 0)
			table_cell(t, "%.1f %%", q->neighbour * 100);
		else
			table_cell(t, "%s", "");
		promise_cell(t, q);
		verdict_cell(t, q->most_us <= 0 ||
					(q->p99_us <= q->most_us && q->neighbour >= q->least));
	}
	finish_table(t);
}

void bench_print_launches(const struct bench_report *report)
{
	const struct bench_launch *native = &report->launch[0];
	struct table *t;

	if (!report->has_launches)
		return;
	t = begin_table(
		"A launch that is not held: how long the call takes; and of a processor, with "
		"1 ms kernels",
		"|>HALF WITHIN|>99 % WITHIN|>ADDED|PROMISED|>PROCESSOR|PROMISED|");
	for (int i = 0; i < BENCH_LAUNCHES; i++) {
		const struct bench_launch *l = &report->launch[i];

		table_cell(t, "%s", l->name);
		table_cell(t, "%.2f us", l->p50_us);
		table_cell(t, "%.2f us", l->p99_us);
		if (i) {
			table_cell(t, "%+.2f us", l->p50_us - native->p50_us);
			table_cell(t, "%.2f us, or what runs differ by",
				   l->compute > 0 ? BENCH_LIMITED_US : BENCH_LAUNCH_US);
		} else {
			table_cell(t, "%s", "");
			table_cell(t, "%s", "");
		}
		table_cell(t, "%.2f %%", l->processor * 100);
		if (l->compute > 0)
			table_cell(t, "%g %%", BENCH_PROCESSOR_PERCENT);
		else
			table_cell(t, "%s", "");
		verdict_cell(t, l->compute <= 0 || l->processor * 100 < BENCH_PROCESSOR_PERCENT);
	}
	finish_table(t);
}

static void write_bins(struct json *j, const char *key, const struct bench_result *result)
{
	json_open(j, key, '[');
	for (unsigned int i = 0; i < result->nbins; i++)
		json_number(j, NULL, result->bin[i]);
	json_close(j, ']');
}

static void write_caps(struct json *j, const struct bench_caps *c)
{
	json_open(j, NULL, '{');
	json_text(j, "controller", c->controller);
	json_number(j, "kernel_us", c->kernel_us);
	json_number(j, "alone", c->alone);
	json_number(j, "mean_error", c->mean_error);
	json_number(j, "worst_second_error", c->worst_error);
	json_number(j, "throughput_kept", c->kept);
	json_bool(j, "doubtful", c->late);
	json_number(j, "cpu_seconds", c->result.cpu_seconds);
	json_number(j, "seconds_each", c->phase_s);
	json_open(j, "caps", '[');
	for (unsigned int i = 0; i < c->nphases; i++) {
		json_open(j, NULL, '{');
		json_number(j, "target", c->phase[i].target);
		json_number(j, "share", c->phase[i].share);
		json_number(j, "worst_second", c->phase[i].worst);
		json_close(j, '}');
	}
	json_close(j, ']');
	json_number(j, "bin_seconds", c->result.bin_s);
	write_bins(j, "bins", &c->result);
	json_close(j, '}');
}

static void write_pair(struct json *j, const struct bench_pair *p)
{
	json_open(j, NULL, '{');
	json_text(j, "name", p->name);
	json_u64(j, "first_weight", p->weight[0]);
	json_u64(j, "second_weight", p->weight[1]);
	json_number(j, "kernel_us", p->kernel_us);
	json_number(j, "first_share", p->share[0]);
	json_number(j, "second_share", p->share[1]);
	json_close(j, '}');
}

static void write_all(struct json *j, const struct bench_report *report)
{
	json_open(j, NULL, '{');
	json_text(j, "allot", ALLOT_VERSION);
	json_text(j, "device", report->device);
	json_open(j, "solo", '[');
	for (unsigned int i = 0; i < report->ncaps; i++)
		write_caps(j, &report->caps[i]);
	json_close(j, ']');
	json_open(j, "pairs", '[');
	for (int i = 0; report->has_pairs && i < BENCH_PAIRS; i++)
		write_pair(j, &report->pair[i]);
	json_close(j, ']');
	json_open(j, "requests", '[');
	for (int i = 0; report->has_requests && i < BENCH_REQUESTS; i++) {
		const struct bench_request *q = &report->request[i];

		json_open(j, NULL, '{');
		json_text(j, "name", q->name);
		json_number(j, "p50_us", q->p50_us);
		json_number(j, "p99_us", q->p99_us);
		if (q->neighbour_us > 0)
			json_number(j, "neighbour_share", q->neighbour);
		else
			json_null(j, "neighbour_share");
		json_close(j, '}');
	}
	json_close(j, ']');
	json_open(j, "launches", '[');
	for (int i = 0; report->has_launches && i < BENCH_LAUNCHES; i++) {
		json_open(j, NULL, '{');
		json_text(j, "name", report->launch[i].name);
		json_number(j, "p50_us", report->launch[i].p50_us);
		json_number(j, "p99_us", report->launch[i].p99_us);
		json_number(j, "processor", report->launch[i].processor);
		json_close(j, '}');
	}
	json_close(j, ']');
	json_close(j, '}');
}

static FILE *open_output(const char *option, const char *path)
{
	FILE *out = fopen(path, "we");

	if (!out)
		say_error("%s \"%s\": %s; the tables above are complete", option, path,
			  say_errno(errno));
	return out;
}

static int close_output(const char *option, const char *path, FILE *out)
{
	bool bad = ferror(out);

	if (fclose(out) || bad)
		return say_error("%s \"%s\": cannot write it: %s", option, path, say_errno(errno)),
		       -1;
	return 0;
}

int bench_write_json(const struct bench_report *report, const char *path)
{
	struct json j = {.out = open_output("--json", path)};

	if (!j.out)
		return -1;
	write_all(&j, report);
	return close_output("--json", path, j.out);
}

/* All kernel lengths of one controller in one panel; answers how many entries that were. */
static unsigned int draw_caps(struct svg *svg, const struct bench_caps *caps, unsigned int n)
{
	static const char *const words = "alone, cap changed while it runs: controller";
	double target[BENCH_PHASES];
	struct svg_line lines[1 + BENCH_CAPS_MAX];
	char labels[BENCH_CAPS_MAX][16], title[96];
	unsigned int used = 0;

	for (unsigned int i = 0; i < caps->nphases; i++)
		target[i] = caps->phase[i].target;
	for (; used < n && caps[used].controller == caps->controller; used++)
		lines[used] = (struct svg_line){
			.label = kernel_words(caps[used].kernel_us, labels[used]),
			.value = caps[used].result.bin,
			.n = caps[used].result.nbins,
			.step_s = caps[used].result.bin_s,
			.colour = (int)used,
		};
	lines[used] =
		(struct svg_line){"target", target, caps->nphases, caps->phase_s, SVG_TARGET, true};
	snprintf(title, sizeof(title), "%s %s", words, caps->controller);
	svg_panel(svg, title, caps->phase_s * caps->nphases, lines, used + 1);
	return used;
}

static void draw_pairs(struct svg *svg, const struct bench_pair *pair)
{
	double seconds = pair[1].result[0].nbins * pair[1].result[0].bin_s;
	double part[2][BENCH_WEIGHTS], step_s = seconds / BENCH_WEIGHTS;
	struct svg_line lines[4] = {
		{"target", part[0], BENCH_WEIGHTS, step_s, SVG_TARGET, true},
		{NULL, part[1], BENCH_WEIGHTS, step_s, SVG_TARGET, true},
	};

	for (int i = 0; i < BENCH_WEIGHTS; i++) {
		part[0][i] = bench_pair_part(&pair[1 + i]);
		part[1][i] = 1 - part[0][i];
	}
	for (int i = 0; i < 2; i++)
		lines[2 + i] = (struct svg_line){
			.label = i ? "second" : "first",
			.value = pair[1].result[i].bin,
			.n = pair[1].result[i].nbins,
			.step_s = pair[1].result[i].bin_s,
			.colour = i,
		};
	svg_panel(svg, "two tenants that always want the device: weights 1:1, 1:3, 1:9", seconds,
		  lines, 4);
}

int bench_write_svg(const struct bench_report *report, const char *path)
{
	FILE *out = open_output("--svg", path);
	unsigned int panels = report->has_pairs + count_controllers(report);
	char title[256];
	struct svg svg;

	if (!out)
		return -1;
	snprintf(title, sizeof(title), "Share of the device's time: %s", report->device);
	svg_begin(&svg, out, title, panels);
	for (unsigned int i = 0; i < report->ncaps;)
		i += draw_caps(&svg, &report->caps[i], report->ncaps - i);
	if (report->has_pairs)
		draw_pairs(&svg, report->pair);
	svg_end(&svg);
	return close_output("--svg", path, out);
}
