/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/bench/files.h"

#include <errno.h>
#include <stdio.h>

#include "cli/bench/svg.h"
#include "cli/out/json.h"
#include "cli/out/say.h"

static void files_write_bins(struct json *j, const char *key, const struct bench_result *result)
{
	json_open(j, key, '[');
	for (unsigned int i = 0; i < result->nbins; i++)
		json_number(j, NULL, result->bin[i]);
	json_close(j, ']');
}

static void files_write_caps(struct json *j, const struct bench_caps *c)
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
	files_write_bins(j, "bins", &c->result);
	json_close(j, '}');
}

static void files_write_pair(struct json *j, const struct bench_pair *p)
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

/* `cap` 0: none. */
static void files_write_token(struct json *j, double cap, double share,
			      const struct bench_result *result)
{
	char name[32] = "alone";

	if (cap > 0)
		snprintf(name, sizeof(name), "cap %g", cap * 100);
	json_open(j, NULL, '{');
	json_text(j, "name", name);
	if (cap > 0)
		json_number(j, "cap", cap);
	else
		json_null(j, "cap");
	json_number(j, "share", share);
	json_number(j, "p50_us", result->latency_p50_us);
	json_number(j, "p99_us", result->latency_p99_us);
	json_number(j, "cpu_seconds", result->cpu_seconds);
	json_number(j, "bin_seconds", result->bin_s);
	files_write_bins(j, "bins", result);
	json_close(j, '}');
}

static void files_write_tokens(struct json *j, const struct bench_report *report)
{
	const struct bench_tokens *tokens = &report->tokens;

	json_open(j, "tokens", '[');
	if (report->has_tokens)
		files_write_token(j, 0, 1, &tokens->alone);
	for (int i = 0; report->has_tokens && i < BENCH_TOKEN_CAPS; i++)
		files_write_token(j, tokens->cap[i].target, tokens->cap[i].share,
				  &tokens->cap[i].result);
	json_close(j, ']');
	json_open(j, "token_pairs", '[');
	for (int i = 0; report->has_tokens && i < BENCH_TOKEN_PAIRS; i++)
		files_write_pair(j, &tokens->pair[i]);
	json_close(j, ']');
}

static void files_write_all(struct json *j, const struct bench_report *report)
{
	json_open(j, NULL, '{');
	json_text(j, "allot", ALLOT_VERSION);
	json_text(j, "device", report->device);
	json_open(j, "solo", '[');
	for (unsigned int i = 0; i < report->ncaps; i++)
		files_write_caps(j, &report->caps[i]);
	json_close(j, ']');
	json_open(j, "pairs", '[');
	for (int i = 0; report->has_pairs && i < BENCH_PAIRS; i++)
		files_write_pair(j, &report->pair[i]);
	json_close(j, ']');
	files_write_tokens(j, report);
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

static FILE *files_open_output(const char *option, const char *path)
{
	FILE *out = fopen(path, "we");

	if (!out)
		say_error("%s \"%s\": %s; the tables above are complete", option, path,
			  say_errno(errno));
	return out;
}

static int files_close_output(const char *option, const char *path, FILE *out)
{
	bool bad = ferror(out);

	if (fclose(out) || bad)
		return say_error("%s \"%s\": cannot write it: %s", option, path, say_errno(errno)),
		       -1;
	return 0;
}

int bench_write_json(const struct bench_report *report, const char *path)
{
	struct json j = {.out = files_open_output("--json", path)};

	if (!j.out)
		return -1;
	files_write_all(&j, report);
	return files_close_output("--json", path, j.out);
}

/* Draws all kernel lengths of one controller in one panel, and answers how many entries it drew. */
static unsigned int files_draw_caps(struct svg *svg, const struct bench_caps *caps, unsigned int n)
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
			.label = bench_report_kernel(caps[used].kernel_us, labels[used]),
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

/* Two tenants, whose pairs by weight were measured one after the other. */
static void files_draw_pairs(struct svg *svg, const struct bench_pair *pair, unsigned int n,
			     const char *title)
{
	double seconds = pair->result[0].nbins * pair->result[0].bin_s, step_s = seconds / n;
	double part[2][BENCH_WEIGHTS];
	struct svg_line lines[4] = {
		{"target", part[0], n, step_s, SVG_TARGET, true},
		{NULL, part[1], n, step_s, SVG_TARGET, true},
	};

	for (unsigned int i = 0; i < n; i++) {
		part[0][i] = bench_pair_part(&pair[i]);
		part[1][i] = 1 - part[0][i];
	}
	for (int i = 0; i < 2; i++)
		lines[2 + i] = (struct svg_line){
			.label = i ? "second" : "first",
			.value = pair->result[i].bin,
			.n = pair->result[i].nbins,
			.step_s = pair->result[i].bin_s,
			.colour = i,
		};
	svg_panel(svg, title, seconds, lines, 4);
}

/* All caps in one panel, though each was a run of its own. */
static void files_draw_tokens(struct svg *svg, const struct bench_tokens *tokens)
{
	double seconds = tokens->cap[0].result.nbins * tokens->cap[0].result.bin_s;
	struct svg_line lines[2 * BENCH_TOKEN_CAPS];
	char labels[BENCH_TOKEN_CAPS][16];

	for (int i = 0; i < BENCH_TOKEN_CAPS; i++) {
		const struct bench_token_cap *cap = &tokens->cap[i];

		snprintf(labels[i], sizeof(labels[i]), "%g %%", cap->target * 100);
		lines[i] = (struct svg_line){
			i ? NULL : "target", &cap->target, 1, seconds, SVG_TARGET, true};
		lines[BENCH_TOKEN_CAPS + i] = (struct svg_line){
			.label = labels[i],
			.value = cap->result.bin,
			.n = cap->result.nbins,
			.step_s = cap->result.bin_s,
			.colour = i,
		};
	}
	svg_panel(svg, "a token loop alone, under one cap after the other", seconds, lines,
		  2 * BENCH_TOKEN_CAPS);
	files_draw_pairs(svg, &tokens->pair[1], BENCH_TOKEN_PAIRS - 1,
			 "two token loops: weights 1:1, 1:3");
}

int bench_write_svg(const struct bench_report *report, const char *path)
{
	FILE *out = files_open_output("--svg", path);
	unsigned int panels =
		bench_report_controllers(report) + report->has_pairs + 2 * report->has_tokens;
	char title[256];
	struct svg svg;

	if (!out)
		return -1;
	snprintf(title, sizeof(title), "Share of the device's time: %s", report->device);
	svg_begin(&svg, out, title, panels);
	for (unsigned int i = 0; i < report->ncaps;)
		i += files_draw_caps(&svg, &report->caps[i], report->ncaps - i);
	if (report->has_pairs)
		files_draw_pairs(&svg, &report->pair[1], BENCH_WEIGHTS,
				 "two tenants that always want the device: weights 1:1, 1:3, 1:9");
	if (report->has_tokens)
		files_draw_tokens(&svg, &report->tokens);
	svg_end(&svg);
	return files_close_output("--svg", path, out);
}
