/* SPDX-License-Identifier: Apache-2.0 */
/* allot trace: what a tenant's processes decided, as they recorded it. */
#include <argp.h>
#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "base/now.h"
#include "cli/cmd/command.h"
#include "cli/ps/trace_words.h"
#include "cli/say/arguments.h"
#include "cli/say/exit_status.h"
#include "cli/say/say.h"
#include "cli/tenant/place.h"
#include "ledger/policy.h"
#include "ledger/reader/snapshot.h"
#include "node/tenants.h"
#include "text/units.h"

/* How often --follow looks, and how old an event is by then: a thread may store one late. */
#define LOOK_NS (200 * NS_PER_MS)
#define LATE_NS (100 * NS_PER_MS)

enum { KEY_JSON = 256 };

static const struct argp_option options[] = {
	{"follow", 'f', NULL, 0, "go on with what is recorded from now on, until the tenant is gone", 0},
	{"json", KEY_JSON, NULL, 0, "a picture for chrome://tracing and Perfetto", 0},
	{0},
};

struct args {
	const char *name;
	bool follow, json;
};

static error_t trace_parse_option(int key, char *arg, struct argp_state *state)
{
	struct args *a = state->input;

	switch (key) {
	case 'f':
		a->follow = true;
		return 0;
	case KEY_JSON:
		a->json = true;
		return 0;
	case ARGP_KEY_ARG:
		arguments_take_tenant(state, arg, &a->name);
		return 0;
	}
	return ARGP_ERR_UNKNOWN;
}

static const struct argp argp = {
	.options = options,
	.parser = trace_parse_option,
	.args_doc = "NAME",
	.doc = "Show what a tenant's processes decided: which launches were held and why, bills, refusals, "
	       "moves of memory, turns.\v"
	       "Recorded where that was asked for: allot run --trace, or allot set NAME --trace on. Each "
	       "process keeps its last 4096 events, also when it was killed.\n"
	       "\n"
	       "  allot trace jobA\n"
	       "  allot trace jobA --json > jobA.json\n",
};

/* Where the printed events begin, and how far they have come. */
struct output {
	const struct args *args;
	struct place place;
	bool begun;
	uint64_t from_ns; /* then: the first event */
	uint64_t next_ns; /* what is older was printed */
	struct trace_lane named[64]; /* lanes that have their name */
	int nnamed;
	bool any; /* in JSON a comma is due */
	int error; /* of a ring that cannot be read, which was said */
};

static void trace_put_legend(const struct output *o)
{
	struct snapshot *snapshot;
	struct timespec now;
	uint64_t ago_ns = now_monotonic_ns() - o->from_ns;
	char clock[32];
	time_t began;

	clock_gettime(CLOCK_REALTIME, &now);
	began = now.tv_sec - (time_t)(ago_ns / NS_PER_S);
	strftime(clock, sizeof(clock), "%F %T %z", localtime(&began));
	printf("# tenant %s, from about %s\n", o->place.name, clock);
	if (snapshot_read(o->place.dir, &snapshot) == 0) {
		for (int i = 0; i < snapshot->ndevices; i++)
			if (snapshot->device[i].index >= 0)
				printf("# device %d: %s\n", snapshot->device[i].index,
				       units_uuid(snapshot->device[i].uuid).s);
		snapshot_free(snapshot);
	}
	printf("# seconds      process/thread  device  event\n");
}

static bool trace_is_named(struct output *o, struct trace_lane lane)
{
	for (int i = 0; i < o->nnamed; i++)
		if (o->named[i].pid == lane.pid && o->named[i].tid == lane.tid)
			return true;
	if (o->nnamed == sizeof(o->named) / sizeof(o->named[0]))
		return true;
	o->named[o->nnamed++] = lane;
	return false;
}

static void trace_put_json(struct output *o, const struct trace_said *said)
{
	if (o->any)
		fputs(",\n", stdout);
	o->any = true;
	if (!trace_is_named(o, trace_words_lane(said)) && trace_words_name_lane(said, stdout))
		fputs(",\n", stdout);
	trace_words_json(said, stdout);
}

/* Those from `next_ns` on that are older than `until_ns`. */
static void trace_put_list(struct output *o, const struct trace_list *list, uint64_t until_ns)
{
	for (size_t i = 0; i < list->n && list->said[i].at_ns < until_ns; i++) {
		const struct trace_said *said = &list->said[i];

		if (!o->begun) {
			o->begun = true;
			o->from_ns = said->at_ns;
			if (!o->args->json)
				trace_put_legend(o);
		}
		if (o->args->json)
			trace_put_json(o, said);
		else
			trace_words_print(said, o->from_ns, stdout);
	}
	o->next_ns = until_ns;
}

static int trace_put_new(struct output *o, uint64_t until_ns, unsigned int *ret_rings)
{
	struct trace_list list;
	int r = trace_load(o->place.dir, o->next_ns, &list);

	if (r == 0) {
		trace_put_list(o, &list, until_ns);
		if (list.error && !o->error)
			say_note("tenant \"%s\": a trace in %s cannot be read: %s", o->place.name,
				 o->place.dir, tenants_error_words(list.error));
		o->error = list.error ? list.error : o->error;
	}
	*ret_rings = list.rings;
	trace_list_free(&list);
	return r;
}

/* Until nobody could record more, or nobody reads. */
static void trace_follow_on(struct output *o)
{
	unsigned int rings;

	while (!access(o->place.dir, F_OK) && !ferror(stdout)) {
		fflush(stdout);
		usleep(LOOK_NS / NS_PER_US);
		if (trace_put_new(o, now_monotonic_ns() - LATE_NS, &rings) < 0)
			return;
	}
}

/* Nothing is there. */
static int trace_explain(const struct place *place)
{
	struct policy policy;
	int r = policy_load(place->dir, &policy);

	if (r < 0)
		return say_error("tenant \"%s\" (%s): %s", place->name, place->dir, tenants_error_words(r));
	if (!policy.trace)
		return say_error("tenant \"%s\" records nothing; write: allot set %s --trace on", place->name,
				 place->name);
	say_note("tenant \"%s\" has recorded nothing yet: none of its processes has used a GPU since, or "
		 "they may make no file in %s (containers, users' tenants of allotd: turns alone are "
		 "recorded)",
		 place->name, place->dir);
	return 0;
}

static int trace_show(struct output *o)
{
	bool json = o->args->json, follow = o->args->follow;
	unsigned int rings = 0;
	int r, status = 0;

	/* The array alone may lack its end, where somebody ends the command. */
	if (json)
		fputs(follow ? "[\n" : "{\"displayTimeUnit\": \"ms\", \"traceEvents\": [\n", stdout);
	r = trace_put_new(o, follow ? now_monotonic_ns() - LATE_NS : UINT64_MAX, &rings);
	if (r < 0)
		return say_error("tenant \"%s\": its traces cannot be read: %s", o->place.name, say_errno(r));
	if (follow)
		trace_follow_on(o);
	else if (!rings)
		status = o->error ? EXIT_ALLOT : trace_explain(&o->place);
	if (json)
		fputs(follow ? "\n]\n" : "\n]}\n", stdout);
	return status;
}

int cmd_trace(int argc, char **argv)
{
	static struct args a;
	static struct output output = {.args = &a};

	if (arguments_parse(&argp, argc, argv, 0, &a))
		return EXIT_ALLOT;
	if (!a.name)
		return say_error("which tenant? write: allot trace jobA (\"allot ps\" lists them)");
	if (place_find(a.name, &output.place) < 0)
		return EXIT_ALLOT;
	if (access(output.place.dir, F_OK) < 0)
		return say_error("there is no tenant \"%s\" in %s; \"allot ps\" lists them", a.name,
				 output.place.runtime);
	return trace_show(&output);
}
