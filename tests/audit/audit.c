/* SPDX-License-Identifier: Apache-2.0 */
/*
 * audit --seed N --seconds S [--phases A,B,...] [--count N] [--devices N] [--steps] [--meets]
 *       [--hosts]
 * audit --list
 *
 * A program that knows nothing of allot and does what programs do, so that what is billed can be
 * compared with what the simulated devices know. Phases are drawn from the seed, or named; each
 * has an equal part of the time. With --devices N each device has a thread that does the same.
 *
 * A line of JSON for each phase says what it was, how many bursts it had, and how many of them
 * nothing closed (guest.h). With --steps it says {"ready": PID} first, and goes on to the next phase
 * when it has read a line, so that all that was done can be looked at in between.
 */
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "tests/audit/phases.h"

#define MOST_PHASES 64
#define MOST_DEVICES 8

struct options {
	uint64_t seed, count, devices;
	double seconds;
	char *names;
	bool steps, meets, hosts;
};

static struct guest guest[MOST_DEVICES];

static int usage(void)
{
	fprintf(stderr, "usage: audit --seed N --seconds S [--phases A,B,...] [--count N] "
			"[--devices N] [--steps] [--meets] [--hosts] | --list\n");
	return 2;
}

static int list(void)
{
	for (const struct phase *p = phases; p->name; p++)
		printf("%s\n", p->name);
	return 0;
}

static bool parse(int argc, char **argv, struct options *o)
{
	for (int i = 1; i < argc; i++) {
		if (!strcmp(argv[i], "--steps")) {
			o->steps = true;
			continue;
		}
		if (!strcmp(argv[i], "--meets")) {
			o->meets = true;
			continue;
		}
		if (!strcmp(argv[i], "--hosts")) {
			o->hosts = true;
			continue;
		}
		if (i + 1 == argc)
			return false;
		if (!strcmp(argv[i], "--seed"))
			o->seed = strtoull(argv[++i], NULL, 10);
		else if (!strcmp(argv[i], "--seconds"))
			o->seconds = strtod(argv[++i], NULL);
		else if (!strcmp(argv[i], "--phases"))
			o->names = argv[++i];
		else if (!strcmp(argv[i], "--count"))
			o->count = strtoull(argv[++i], NULL, 10);
		else if (!strcmp(argv[i], "--devices"))
			o->devices = strtoull(argv[++i], NULL, 10);
		else
			return false;
	}
	return o->count && o->count <= MOST_PHASES && o->devices && o->devices <= MOST_DEVICES;
}

static const struct phase *find(const char *name)
{
	for (const struct phase *p = phases; p->name; p++)
		if (!strcmp(p->name, name))
			return p;
	fprintf(stderr, "audit: no phase %s\n", name);
	exit(2);
}

/* None twice before all were there. */
static void draw_phases(struct guest *g, const struct options *o,
			const struct phase *chosen[static MOST_PHASES])
{
	const struct phase *left[MOST_PHASES];
	size_t nleft = 0;

	for (size_t i = 0; i < o->count; i++) {
		size_t k;

		for (const struct phase *p = nleft ? NULL : phases; p && p->name; p++)
			if (p->draw == ANY || (p->draw == MEETS && o->meets) ||
			    (p->draw == HOSTS && o->hosts))
				left[nleft++] = p;
		k = guest_draw(g, 0, nleft - 1);
		chosen[i] = left[k];
		left[k] = left[--nleft];
	}
}

static size_t choose(struct options *o, const struct phase *chosen[static MOST_PHASES])
{
	size_t n = 0;

	if (!o->names) {
		guest_begin(&guest[0], o->seed, 0);
		draw_phases(&guest[0], o, chosen);
		return o->count;
	}
	for (char *name = strtok(o->names, ","); name && n < MOST_PHASES; name = strtok(NULL, ","))
		chosen[n++] = find(name);
	return n;
}

struct part {
	struct guest *guest;
	const struct phase *phase;
	uint64_t seed, until_ns;
};

static void *play(void *arg)
{
	const struct part *part = arg;

	MUST(cuCtxSetCurrent(part->guest->ctx));
	guest_begin(part->guest, part->seed, part->until_ns);
	part->phase->run(part->guest);
	return NULL;
}

static void tell(const struct phase *phase, const struct options *o, uint64_t from_ns)
{
	uint64_t bursts = 0, open = 0, open_streams = 0, longest_us = 0;

	for (uint64_t i = 0; i < o->devices; i++) {
		bursts += guest[i].bursts;
		open += guest[i].open;
		open_streams += guest[i].open_streams;
		if (longest_us < guest[i].longest_us)
			longest_us = guest[i].longest_us;
	}
	printf("{\"phase\": \"%s\", \"detail\": \"%s\", ", phase->name, guest[0].detail);
	printf("\"bursts\": %" PRIu64 ", \"open\": %" PRIu64 ", \"open_streams\": %" PRIu64 ", ",
	       bursts, open, open_streams);
	printf("\"longest_us\": %" PRIu64 ", \"from_ns\": %" PRIu64 ", \"to_ns\": %" PRIu64 "}\n",
	       longest_us, from_ns, guest_now_ns());
	fflush(stdout);
}

static void run_phase(const struct phase *phase, const struct options *o, uint64_t seed, double s)
{
	uint64_t from_ns = guest_now_ns();
	struct part part[MOST_DEVICES];
	pthread_t thread[MOST_DEVICES];

	for (uint64_t i = 0; i < o->devices; i++)
		part[i] = (struct part){&guest[i], phase, seed, from_ns + (uint64_t)(s * 1e9)};
	/* The first device's is the main thread, as in a program that has but one. */
	for (uint64_t i = 1; i < o->devices; i++)
		if (pthread_create(&thread[i], NULL, play, &part[i]))
			exit(1);
	play(&part[0]);
	for (uint64_t i = 1; i < o->devices; i++)
		pthread_join(thread[i], NULL);
	tell(phase, o, from_ns);
}

static void step(const struct options *o)
{
	char line[64];

	if (o->steps && !fgets(line, sizeof(line), stdin))
		exit(0);
}

int main(int argc, char **argv)
{
	struct options o = {.seed = 1, .seconds = 6, .count = 6, .devices = 1};
	const struct phase *chosen[MOST_PHASES];
	size_t n;

	if (argc == 2 && !strcmp(argv[1], "--list"))
		return list();
	if (!parse(argc, argv, &o))
		return usage();
	n = choose(&o, chosen);
	prctl(PR_SET_TIMERSLACK, 1000);
	MUST(cuInit(0));
	for (uint64_t i = 0; i < o.devices; i++) {
		guest_init(&guest[i], (int)i);
		/* One launch: from now on the process is one that uses the device. */
		guest_launch(&guest[i], guest[i].function[0], 1, guest[i].stream[0], 10);
		MUST(cuCtxSynchronize());
	}
	if (o.steps)
		printf("{\"ready\": %d}\n", getpid());
	fflush(stdout);
	for (size_t i = 0; i < n; i++) {
		step(&o);
		run_phase(chosen[i], &o, o.seed * 64 + i, o.seconds / (double)n);
	}
	step(&o);
	return 0;
}
