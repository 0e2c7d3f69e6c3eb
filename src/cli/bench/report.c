/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/bench/report.h"

#include <math.h>
#include <string.h>

#include "cli/bench/targets.h"
#include "cli/say/say.h"
#include "cli/say/table.h"

static int report_finish_table(struct table *t)
{
	int r = table_end(t, "\n", stdout);

	fflush(stdout);
	return r < 0 ? say_fail(r, "no memory for a table") : 0;
}

static struct table *report_begin_table(const char *title, const char *headings)
{
	printf("\n%s\n", title);
	return table_new(headings);
}

/* A kernel's length in words: 0.1 ms, 1 ms, 10 ms. */
static const char *report_kernel(double us, char buf[static 16])
{
	snprintf(buf, 16, "%g ms", us / 1e3);
	return buf;
}

static void report_put_interval(struct table *t, const struct bench_interval *x, double scale,
				int decimals, const char *unit)
{
	char words[BENCH_INTERVAL_WORDS];

	bench_interval_say(x, scale, decimals, unit, words);
	table_cell(t, "%s", words);
}

/* Under each phase of a load the lowest and the highest half second: a row as wide as the caps'. */
static void report_put_phase_intervals(struct table *t, const struct bench_caps *c)
{
	table_skip(t, 1);
	table_cell(t, "from");
	for (unsigned int p = 0; p < c->nphases; p++)
		table_cell(t, "%.1f", c->phase[p].share.low * 100);
	table_skip(t, 3 + 1);
	table_cell(t, "to");
	for (unsigned int p = 0; p < c->nphases; p++)
		table_cell(t, "%.1f", c->phase[p].share.high * 100);
	table_skip(t, 3);
}

/* The last cell of a row. */
static void report_put_verdict(struct table *t, bool kept)
{
	if (!kept)
		table_style(t, TABLE_ALERT);
	table_cell_if(t, !kept, "missed");
}

static bool report_is_off(double share, double target, double points)
{
	return fabs(share - target) * 100 > points;
}

static bool report_caps_kept(const struct bench_caps *c)
{
	bool kept = c->worst_error * 100 <= BENCH_SECOND_POINTS;

	for (unsigned int p = 0; p < c->nphases; p++)
		kept &= !report_is_off(c->phase[p].share.value, c->phase[p].target,
				       BENCH_CAP_POINTS);
	return kept;
}

static unsigned int report_count_controllers(const struct bench_report *report)
{
	unsigned int n = 0;

	for (unsigned int i = 0; i < report->ncaps; i++)
		n += !i || report->caps[i].controller != report->caps[i - 1].controller;
	return n;
}

int bench_print_caps(const struct bench_report *report)
{
	struct table *t;
	char headings[256] = "CONTROLLER|KERNEL", kernel[16];
	double mean = 0, worst = 0;
	bool late = false;
	int r;

	if (!report->ncaps)
		return 0;
	for (unsigned int i = 0; i < report->caps[0].nphases; i++)
		sprintf(headings + strlen(headings), "|>%.0f %%",
			report->caps[0].phase[i].target * 100);
	strcat(headings, "|>MEAN OFF|>WORST SECOND|");
	t = report_begin_table(
		"A tenant alone, its cap changed while it runs: percent of the device's time "
		"that it had,\nand from the lowest to the highest half second",
		headings);
	for (unsigned int i = 0; i < report->ncaps; i++) {
		const struct bench_caps *c = &report->caps[i];

		table_cell(t, "%s", c->controller);
		table_cell(t, "%s", report_kernel(c->kernel_us, kernel));
		for (unsigned int p = 0; p < c->nphases; p++)
			table_cell(t, "%.1f", c->phase[p].share.value * 100);
		table_cell(t, "%.1f", c->mean_error * 100);
		table_cell(t, "%.1f", c->worst_error * 100);
		if (c->late)
			table_cell(t, "doubtful: the processor was busy");
		else
			report_put_verdict(t, report_caps_kept(c));
		report_put_phase_intervals(t, c);
		mean += c->mean_error / report->ncaps;
		worst = fmax(worst, c->worst_error);
		late |= c->late;
	}
	r = report_finish_table(t);
	if (report_count_controllers(report) == 1)
		printf("off by %.1f points on average, %.1f in the worst second; promised: %.1f, "
		       "%.1f "
		       "at most and %.1f\n",
		       mean * 100, worst * 100, BENCH_MEAN_POINTS, BENCH_CAP_POINTS,
		       BENCH_SECOND_POINTS);
	if (late)
		puts("run it again while the machine is idle");
	return r;
}

int bench_print_controllers(const struct bench_report *report)
{
	struct table *t;

	if (report_count_controllers(report) < 2)
		return 0;
	t = report_begin_table("The controllers side by side",
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
	return report_finish_table(t);
}

static bool report_pair_kept(const struct bench_pair *p)
{
	double part = bench_pair_part(p);

	return !report_is_off(p->share[0].value, part, BENCH_WEIGHT_POINTS) &&
	       !report_is_off(p->share[1].value, 1 - part, BENCH_WEIGHT_POINTS) &&
	       p->together.value * 100 >= BENCH_TOGETHER_PERCENT;
}

int bench_print_pairs(const struct bench_report *report)
{
	struct table *t;
	char kernel[16];

	if (!report->has_pairs)
		return 0;
	t = report_begin_table("Two that always want the device: percent of what one has alone "
			       "(lowest to highest half second)",
			       "|KERNEL|>FIRST|>SECOND|>TOGETHER|PROMISED|");
	for (int i = 0; i < BENCH_PAIRS; i++) {
		const struct bench_pair *p = &report->pair[i];
		double part = bench_pair_part(p) * 100;

		table_cell(t, "%s", p->name);
		table_cell(t, "%s", report_kernel(p->kernel_us, kernel));
		report_put_interval(t, &p->share[0], 100, 1, "");
		report_put_interval(t, &p->share[1], 100, 1, "");
		report_put_interval(t, &p->together, 100, 1, "");
		table_cell_if(t, part > 0, "%g + %g within %g, %g together", part, 100 - part,
			      BENCH_WEIGHT_POINTS, BENCH_TOGETHER_PERCENT);
		report_put_verdict(t, part <= 0 || report_pair_kept(p));
	}
	return report_finish_table(t);
}

/* How long a token of one loop by itself takes. */
static void report_put_token_times(struct table *t, const struct bench_result *result)
{
	report_put_interval(t, &result->latency_p50_us, 1e-3, 2, " ms");
	report_put_interval(t, &result->latency_p99_us, 1e-3, 2, " ms");
}

static void report_put_token_pair(struct table *t, const struct bench_pair *p)
{
	char first[BENCH_INTERVAL_WORDS], second[BENCH_INTERVAL_WORDS];
	double part = bench_pair_part(p) * 100;

	table_cell(t, "%s", p->name);
	table_cell_if(t, part > 0, "%g + %g", part, 100 - part);
	bench_interval_say(&p->share[0], 100, 1, "", first);
	bench_interval_say(&p->share[1], 100, 1, "", second);
	table_cell(t, "%s + %s", first, second);
	report_put_interval(t, &p->together, 100, 1, "");
	table_skip(t, 2);
	table_cell_if(t, part > 0, "within %g, %g together", BENCH_WEIGHT_POINTS,
		      BENCH_TOGETHER_PERCENT);
	report_put_verdict(t, part <= 0 || report_pair_kept(p));
}

int bench_print_tokens(const struct bench_report *report)
{
	const struct bench_tokens *tokens = &report->tokens;
	struct table *t;

	if (!report->has_tokens)
		return 0;
	t = report_begin_table(
		"A token loop, brief kernels first, then a graph of 4 ms, a copy and a wait "
		"for each token:\npercent of what one has alone (lowest to highest half second), "
		"and how long a token takes (95 %)",
		"|>ASKED|>GOT|>TOGETHER|>HALF WITHIN|>99 % WITHIN|PROMISED|");
	table_cell(t, "alone");
	table_skip(t, 3);
	report_put_token_times(t, &tokens->alone);
	table_skip(t, 1);
	report_put_verdict(t, true);
	for (int i = 0; i < BENCH_TOKEN_CAPS; i++) {
		const struct bench_token_cap *c = &tokens->cap[i];

		table_cell(t, "alone, --compute %g", c->target * 100);
		table_cell(t, "%g", c->target * 100);
		report_put_interval(t, &c->share, 100, 1, "");
		table_skip(t, 1);
		report_put_token_times(t, &c->result);
		table_cell(t, "within %g", BENCH_CAP_POINTS);
		report_put_verdict(t, !report_is_off(c->share.value, c->target, BENCH_CAP_POINTS));
	}
	for (int i = 0; i < BENCH_TOKEN_PAIRS; i++)
		report_put_token_pair(t, &tokens->pair[i]);
	return report_finish_table(t);
}

static void report_put_promise(struct table *t, const struct bench_request *q)
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

int bench_print_requests(const struct bench_report *report)
{
	struct table *t;

	if (!report->has_requests)
		return 0;
	t = report_begin_table("A request of 1 ms each 10 ms: how long it takes (95 %)",
			       "|>HALF WITHIN|>99 % WITHIN|>NEIGHBOUR HAS|PROMISED|");
	for (int i = 0; i < BENCH_REQUESTS; i++) {
		const struct bench_request *q = &report->request[i];

		table_cell(t, "%s", q->name);
		report_put_interval(t, &q->p50_us, 1e-3, 2, " ms");
		report_put_interval(t, &q->p99_us, 1e-3, 2, " ms");
		if (q->neighbour_us > 0)
			report_put_interval(t, &q->neighbour, 100, 1, " %");
		else
			table_skip(t, 1);
		report_put_promise(t, q);
		report_put_verdict(t, q->most_us <= 0 || (q->p99_us.value <= q->most_us &&
							  q->neighbour.value >= q->least));
	}
	return report_finish_table(t);
}

int bench_print_launches(const struct bench_report *report)
{
	char added[BENCH_INTERVAL_WORDS];
	struct table *t;

	if (!report->has_launches)
		return 0;
	t = report_begin_table(
		"A launch that is not held: how long the call takes; and of a processor, with "
		"1 ms kernels\n(the median of several rounds, and the interval that holds the true "
		"one with 95 %)",
		"|>HALF WITHIN|>99 % WITHIN|>ADDED|PROMISED|>PROCESSOR|PROMISED|");
	for (int i = 0; i < BENCH_LAUNCHES; i++) {
		const struct bench_launch *l = &report->launch[i];

		table_cell(t, "%s", l->name);
		report_put_interval(t, &l->p50_us, 1, 2, " us");
		report_put_interval(t, &l->p99_us, 1, 2, " us");
		bench_interval_say_added(&l->added_us, "us", added);
		table_cell_if(t, i, "%s", added);
		table_cell_if(t, i, "%.2f us, or what runs differ by",
			      l->compute > 0 ? BENCH_LIMITED_US : BENCH_LAUNCH_US);
		report_put_interval(t, &l->processor, 100, 2, " %");
		table_cell_if(t, l->compute > 0, "%g %%", BENCH_PROCESSOR_PERCENT);
		report_put_verdict(t, l->compute <= 0 ||
					      l->processor.value * 100 < BENCH_PROCESSOR_PERCENT);
	}
	return report_finish_table(t);
}
