/* SPDX-License-Identifier: Apache-2.0 */
/*
 * allot bench: measures how exact shares are on this device, in some minutes. It uses no private
 * interface: it runs a program with `allot run`, changes limits with `allot set`, and the program
 * reports its share.
 */
#include <argp.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/parse.h"
#include "cli/bench/files.h"
#include "cli/bench/report.h"
#include "cli/cmd/command.h"
#include "cli/device/selection.h"
#include "cli/say/arguments.h"
#include "cli/say/exit_status.h"
#include "cli/say/say.h"
#include "cli/tenant/runtime.h"
#include "node/library.h"
#include "sched/controller.h"
#include "text/units.h"

#define PHASE_S	      2.0
#define PHASE_QUICK_S 1.2
#define PHASE_LONG_S  4.0 /* where controllers are compared that need seconds to settle */
#define TOKENS_S       2.5 /* under each cap */
#define TOKENS_QUICK_S 1.5

enum section { CAPS = 1, PAIRS = 2, TOKENS = 4, REQUESTS = 8, LAUNCHES = 16, ALL = 31 };
#define SECTIONS_IN_WORDS "caps, pairs, tokens, requests or launches"

static const struct {
	const char *name;
	enum section section;
} sections[] = {
	{"caps", CAPS},		{"pairs", PAIRS},	{"tokens", TOKENS},
	{"requests", REQUESTS}, {"launches", LAUNCHES},
};

static const struct argp_option options[] = {
	{"gpu", 'g', "GPU", 0, "the device: an index as nvidia-smi shows it, or a UUID", 0},
	{"controller", 'c', "deficit|bucket|pid|all", 0, "(default deficit)", 0},
	{"only", 'o', "caps|pairs|tokens|requests|launches", 0,
	 "run only this trial; may be given several times", 0},
	{"quick", 'q', NULL, 0, "shorter and less exact", 0},
	{"json", 'j', "FILE", 0, "also write the figures to FILE", 0},
	{0},
};

struct args {
	const char *gpu, *controller, *json;
	unsigned int only;
	bool quick;
};

static error_t bench_choose_section(const char *name, unsigned int *sections_chosen)
{
	for (size_t i = 0; i < sizeof(sections) / sizeof(sections[0]); i++)
		if (!strcmp(name, sections[i].name)) {
			*sections_chosen |= sections[i].section;
			return 0;
		}
	return say_fail(EINVAL, "--only \"%s\": write " SECTIONS_IN_WORDS, name);
}

static error_t bench_parse_option(int key, char *arg, struct argp_state *state)
{
	struct args *a = state->input;

	switch (key) {
	case 'g':
		a->gpu = arg;
		return 0;
	case 'c':
		a->controller = arg;
		return 0;
	case 'o':
		return bench_choose_section(arg, &a->only);
	case 'q':
		a->quick = true;
		return 0;
	case 'j':
		a->json = arg;
		return 0;
	}
	return ARGP_ERR_UNKNOWN;
}

static const struct argp argp = {
	.options = options,
	.parser = bench_parse_option,
	.doc = "Measure how exact shares of a device's time are.\v"
	       "Other programs on the device disturb the figures. Without a GPU:\n"
	       "  allot sim -- allot bench\n",
};

/*
 * Hides all devices but one, which is device 0 then, for loads in a tenant and for those without.
 */
static int bench_choose_device(const struct args *a, char ret_words[static 128])
{
	static struct devices devices;
	struct selection selection = {.n = 1};
	const struct device *d;

	devices_read(&devices);
	if (*devices.trouble)
		return say_error("%s", devices.trouble);
	if (!a->gpu)
		selection_visible(&devices, &selection);
	if (a->gpu && selection_parse(&devices, a->gpu, &selection) < 0)
		return EXIT_ALLOT;
	if (!selection.n || (a->gpu && selection.n > 1))
		return say_error("--gpu \"%s\": one device is measured at a time; write it like "
				 "--gpu 0",
				 a->gpu ? a->gpu : "");
	d = &devices.list[selection.index[0]];
	if (d->vendor != DEVICE_NVIDIA)
		return say_error("GPU %u is of AMD, and only NVIDIA's can be measured yet; without "
				 "one try \"allot sim -- allot bench\"",
				 selection.index[0]);
	if (setenv("CUDA_VISIBLE_DEVICES", units_uuid(d->uuid).s, 1) < 0)
		return say_error("no memory");
	snprintf(ret_words, 128, "GPU %u: %.60s, %s", selection.index[0], d->model,
		 units_bytes(d->total_bytes).s);
	return 0;
}

static int bench_find_programs(struct bench_place *place)
{
	ssize_t n = fd_read_link(AT_FDCWD, "/proc/self/exe", place->self, sizeof(place->self));

	if (n < 0)
		return say_error("cannot find myself in /proc/self/exe: %s; is /proc mounted?",
				 say_errno((int)n));
	if (library_program("allot-load", place->load) < 0)
		return say_error("allot-load is not beside this allot; install both together");
	if (getenv("ALLOT_TENANT_DIR") && *getenv("ALLOT_TENANT_DIR"))
		return say_error(
			"inside a tenant the share of a tenant is measured, not the device's; "
			"run it outside");
	return runtime_find(place->runtime) < 0 ? EXIT_ALLOT : 0;
}

/* The controller of this name, or all of them. */
static int bench_choose_controllers(const char *wanted, bool ret[static CONTROLLERS])
{
	bool all = wanted && !strcmp(wanted, "all");
	enum controller_id id = CONTROLLER_DEFICIT;

	if (wanted && !all && controller_parse(wanted, &id) < 0)
		return say_error("--controller \"%s\": write deficit, bucket, pid or all", wanted);
	for (unsigned int i = 0; i < CONTROLLERS; i++)
		ret[i] = i == id || all;
	return 0;
}

static void bench_note_step(const char *what, double seconds)
{
	if (isatty(STDERR_FILENO))
		fprintf(stderr, "%s: %.0f s ...\n", what, seconds);
}

static double bench_token_seconds(const struct args *a)
{
	return a->quick ? TOKENS_QUICK_S : TOKENS_S;
}

/* Which loads are to go through caps, under which controllers. */
static void bench_plan_caps(const struct args *a, const bool controllers[static CONTROLLERS],
			    struct bench_report *report)
{
	static const double kernels_us[] = {100, 1000, 10000};
	static const double targets[BENCH_PHASES] = {0.1, 0.25, 0.5, 0.75, 0.9};
	bool compare = a->controller && !strcmp(a->controller, "all");

	for (unsigned int i = 0; i < CONTROLLERS; i++) {
		/* The shorter two tell the controllers apart. */
		for (unsigned int k = 0; controllers[i] && k < (compare ? 2 : 3); k++) {
			struct bench_caps *caps = &report->caps[report->ncaps++];

			*caps = (struct bench_caps){
				.controller = controller_by_id(i)->name,
				.kernel_us = kernels_us[k],
				.phase_s = a->quick  ? PHASE_QUICK_S
					   : compare ? PHASE_LONG_S
						     : PHASE_S,
				.nphases = BENCH_PHASES,
			};
			for (unsigned int p = 0; p < BENCH_PHASES; p++)
				caps->phase[p].target = targets[p];
		}
	}
}

/* Estimated duration of the whole: the sum of all steps. */
static double bench_seconds(const struct args *a, const struct bench_report *report)
{
	double seconds = BENCH_ALONE_S + BENCH_START_S;

	for (unsigned int i = 0; i < report->ncaps; i++)
		seconds += bench_caps_seconds(&report->caps[i]);
	if (a->only & PAIRS)
		seconds += bench_pairs_seconds();
	if (a->only & TOKENS)
		seconds += bench_tokens_seconds(bench_token_seconds(a));
	if (a->only & REQUESTS)
		seconds += bench_requests_seconds();
	if (a->only & LAUNCHES)
		seconds += bench_launches_seconds(a->quick);
	return seconds;
}

static int bench_measure_all_caps(struct bench_place *place, struct bench_report *report)
{
	int r;

	for (unsigned int i = 0; i < report->ncaps; i++) {
		struct bench_caps *caps = &report->caps[i];

		bench_note_step(caps->controller, bench_caps_seconds(caps));
		if ((r = bench_measure_caps(place, caps)) < 0)
			return r;
	}
	r = bench_print_caps(report);
	return r < 0 ? r : bench_print_controllers(report);
}

static int bench_measure_sections(struct bench_place *place, const struct args *a,
				  struct bench_report *report)
{
	struct bench_result alone;
	int r;

	if ((r = bench_trial_alone(place, "plain", 1000, &alone)) < 0)
		return r;
	if ((a->only & CAPS) && (r = bench_measure_all_caps(place, report)) < 0)
		return r;
	if (a->only & PAIRS) {
		bench_note_step("two tenants", bench_pairs_seconds());
		if ((r = bench_measure_pairs(place, report->pair)) < 0)
			return r;
		report->has_pairs = true;
		if ((r = bench_print_pairs(report)) < 0)
			return r;
	}
	if (a->only & TOKENS) {
		double seconds = bench_token_seconds(a);

		bench_note_step("token loops", bench_tokens_seconds(seconds));
		if ((r = bench_measure_tokens(place, seconds, &report->tokens)) < 0)
			return r;
		report->has_tokens = true;
		if ((r = bench_print_tokens(report)) < 0)
			return r;
	}
	if (a->only & REQUESTS) {
		bench_note_step("requests", bench_requests_seconds());
		if ((r = bench_measure_requests(place, report->request)) < 0)
			return r;
		report->has_requests = true;
		if ((r = bench_print_requests(report)) < 0)
			return r;
	}
	if (a->only & LAUNCHES) {
		bench_note_step("launches", bench_launches_seconds(a->quick));
		if ((r = bench_measure_launches(place, a->quick, report->launch)) < 0)
			return r;
		report->has_launches = true;
		if ((r = bench_print_launches(report)) < 0)
			return r;
	}
	return 0;
}

int cmd_bench(int argc, char **argv)
{
	static struct bench_place place;
	static struct bench_report report;
	bool controllers[CONTROLLERS];
	struct args a = {.gpu = NULL};
	int r;

	if (arguments_parse(&argp, argc, argv, 0, &a))
		return EXIT_ALLOT;
	if ((r = bench_choose_controllers(a.controller, controllers)) ||
	    (r = bench_find_programs(&place)) || (r = bench_choose_device(&a, report.device)))
		return r;
	if (!a.only)
		a.only = ALL;
	if (a.only & CAPS)
		bench_plan_caps(&a, controllers, &report);
	bench_stop_on_signals();
	printf("%s\ntakes about %.0f s\n", report.device, bench_seconds(&a, &report));
	fflush(stdout);
	r = bench_measure_sections(&place, &a, &report);
	if (bench_stopped())
		return say_error("stopped; its tenants are removed");
	if (r < 0 || (a.json && bench_write_json(&report, a.json) < 0))
		return EXIT_ALLOT;
	return 0;
}
