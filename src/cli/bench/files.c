/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/bench/files.h"

#include <stdio.h>

#include "base/err.h"
#include "cli/say/say.h"
#include "text/json.h"

static void files_write_bins(struct json *j, const char *key, const struct bench_result *result)
{
	json_open(j, key, '[');
	for (unsigned int i = 0; i < result->nbins; i++)
		json_number(j, NULL, result->bin[i]);
	json_close(j, ']');
}

/* NAME, NAME_low and NAME_high. */
static void files_write_interval(struct json *j, const char *name, const struct bench_interval *x)
{
	char key[64];

	json_number(j, name, x->value);
	snprintf(key, sizeof(key), "%s_low", name);
	json_number(j, key, x->low);
	snprintf(key, sizeof(key), "%s_high", name);
	json_number(j, key, x->high);
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
		files_write_interval(j, "share", &c->phase[i].share);
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
	files_write_interval(j, "first_share", &p->share[0]);
	files_write_interval(j, "second_share", &p->share[1]);
	files_write_interval(j, "together", &p->together);
	json_close(j, '}');
}

/* `cap` 0: none. */
static void files_write_token(struct json *j, double cap, const struct bench_interval *share,
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
		json_none(j, "cap");
	files_write_interval(j, "share", share);
	files_write_interval(j, "p50_us", &result->latency_p50_us);
	files_write_interval(j, "p99_us", &result->latency_p99_us);
	json_number(j, "cpu_seconds", result->cpu_seconds);
	json_number(j, "bin_seconds", result->bin_s);
	files_write_bins(j, "bins", result);
	json_close(j, '}');
}

static void files_write_tokens(struct json *j, const struct bench_report *report)
{
	static const struct bench_interval whole = {1, 1, 1};
	const struct bench_tokens *tokens = &report->tokens;

	json_open(j, "tokens", '[');
	if (report->has_tokens)
		files_write_token(j, 0, &whole, &tokens->alone);
	for (int i = 0; report->has_tokens && i < BENCH_TOKEN_CAPS; i++)
		files_write_token(j, tokens->cap[i].target, &tokens->cap[i].share,
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
		files_write_interval(j, "p50_us", &q->p50_us);
		files_write_interval(j, "p99_us", &q->p99_us);
		if (q->neighbour_us > 0)
			files_write_interval(j, "neighbour_share", &q->neighbour);
		else
			json_none(j, "neighbour_share");
		json_close(j, '}');
	}
	json_close(j, ']');
	json_open(j, "launches", '[');
	for (int i = 0; report->has_launches && i < BENCH_LAUNCHES; i++) {
		const struct bench_launch *l = &report->launch[i];

		json_open(j, NULL, '{');
		json_text(j, "name", l->name);
		files_write_interval(j, "p50_us", &l->p50_us);
		files_write_interval(j, "p99_us", &l->p99_us);
		files_write_interval(j, "added_us", &l->added_us);
		files_write_interval(j, "processor", &l->processor);
		json_close(j, '}');
	}
	json_close(j, ']');
	json_close(j, '}');
}

int bench_write_json(const struct bench_report *report, const char *path)
{
	struct json j = {.out = fopen(path, "we")};
	bool bad;
	int r;

	if (!j.out) {
		r = err_errno();
		return say_fail(r, "--json \"%s\": %s; the tables above are complete", path,
				say_errno(-r));
	}
	files_write_all(&j, report);
	bad = ferror(j.out);
	r = fclose(j.out) ? err_errno() : bad ? -EIO : 0;
	if (r < 0)
		say_error("--json \"%s\": cannot write it: %s", path, say_errno(-r));
	return r;
}
