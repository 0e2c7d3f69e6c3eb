/* SPDX-License-Identifier: Apache-2.0 */
/*
 * allot-load: gives a GPU a known amount of work and says how much of it was done when. Knows
 * nothing of allot: it is the program whose share is measured.
 *
 * Prints {"stage": "ready", "pids": [...]} when all of its processes could start, then one line of
 * JSON for each at its end. "share" is the part of the time for which the device worked for the
 * process, "bins" the same for each tenth of a second, or --bin-ms, from the start on. Where each
 * launch is waited for, "latency_us" is how long that took; of a token, its copy included.
 */
#include <argp.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/now.h"
#include "base/word.h"
#include "tools/record.h"
#include "tools/run.h"

#define PROCESSES_MAX 64

static const struct argp_option argp_options[] = {
	{"form", 'f', "FORM", 0,
	 "plain, ex, cooperative, graph, streams, sync, request or token (default plain)", 0},
	{"kernel-us", 'k', "US", 0, "how long a kernel takes (default 1000)", 0},
	{"seconds", 's', "S", 0, "how long it runs (default 3)", 0},
	{"warm-up", 'w', "S", 0, "of these, before figures are taken (default 0.5)", 0},
	{"processes", 'p', "N", 0, "so many at once (default 1)", 0},
	{"period-ms", 'e', "MS", 0, "a request each so many ms (default 10)", 0},
	{"nodes", 'n', "N", 0, "kernels in a graph (default 50)", 0},
	{"eager", 'E', "N", 0, "brief kernels before the first token (default 5200)", 0},
	{"depth", 'd', "N", 0, "launches in flight (default: about 20 ms of work)", 0},
	{"idle", 'i', "FROM:TO", 0, "launch nothing between these seconds", 0},
	{"loops-per-us", 'l', "X", 0,
	 "the kernel's speed, as an earlier run said it (default: measure it)", 0},
	{"device", 'g', "N", 0, "the device (default 0)", 0},
	{"blocks", 'b', "N", 0, "blocks of a kernel (default: one a multiprocessor)", 0},
	{"threads", 't', "N", 0, "threads of a block (default 128)", 0},
	{"bin-ms", 'B', "MS", 0, "time of a bin (default 100)", 0},
	{"canary", 'c', NULL, 0, "also say how late the processor woke a thread that slept", 0},
	{"lean", 'L', NULL, 0,
	 "take as little of the processor as can be: no thread, an event each 100 ms of work", 0},
	{"wait", 'W', NULL, 0,
	 "start at the instant that a line on stdin says (CLOCK_MONOTONIC in ns; 0: now)", 0},
	{0},
};

static double main_number(struct argp_state *state, const char *text, double low, double high)
{
	char *end;
	double value = strtod(text, &end);

	if (end == text || *end || !(value >= low && value <= high))
		argp_error(state, "\"%s\" is not a number from %g to %g", text, low, high);
	return value;
}

static enum load_form main_form_of(struct argp_state *state, const char *name)
{
	for (unsigned int i = 0; i < LOAD_FORMS; i++)
		if (!strcmp(name, load_form_names[i]))
			return (enum load_form)i;
	argp_error(state, "\"%s\" is no form", name);
	return LOAD_FORMS;
}

static error_t main_parse(int key, char *arg, struct argp_state *state)
{
	struct load_options *o = state->input;
	char *colon;

	switch (key) {
	case 'f':
		o->form = main_form_of(state, arg);
		return 0;
	case 'k':
		o->kernel_us = main_number(state, arg, 1, 1e7);
		return 0;
	case 's':
		o->seconds = main_number(state, arg, 0.1, 3600);
		return 0;
	case 'w':
		o->warmup = main_number(state, arg, 0, 3600);
		return 0;
	case 'p':
		o->processes = (unsigned int)main_number(state, arg, 1, PROCESSES_MAX);
		return 0;
	case 'e':
		o->period_ms = main_number(state, arg, 0.1, 1e6);
		return 0;
	case 'n':
		o->nodes = (unsigned int)main_number(state, arg, 1, 10000);
		return 0;
	case 'E':
		o->eager = (unsigned int)main_number(state, arg, 0, 1e6);
		return 0;
	case 'd':
		o->depth = (unsigned int)main_number(state, arg, 1, 512);
		return 0;
	case 'i':
		colon = strchr(arg, ':');
		if (!colon)
			argp_error(state, "\"%s\": write it like 1:2.5", arg);
		*colon = 0;
		o->idle_from = main_number(state, arg, 0, 3600);
		o->idle_to = main_number(state, colon + 1, o->idle_from, 3600);
		return 0;
	case 'l':
		o->loops_per_us = main_number(state, arg, 1e-6, 1e6);
		return 0;
	case 'g':
		o->device = (unsigned int)main_number(state, arg, 0, 63);
		return 0;
	case 'b':
		o->blocks = (unsigned int)main_number(state, arg, 1, 65535);
		return 0;
	case 't':
		o->threads = (unsigned int)main_number(state, arg, 1, 1024);
		return 0;
	case 'B':
		o->bin_ms = (unsigned int)main_number(state, arg, 1, 1000);
		return 0;
	case 'c':
		o->canary = true;
		return 0;
	case 'L':
		o->lean = true;
		return 0;
	case 'W':
		o->wait = true;
		return 0;
	}
	return ARGP_ERR_UNKNOWN;
}

static const struct argp argp = {
	.options = argp_options,
	.parser = main_parse,
	.doc = "Give a GPU a known amount of work and say how much of it was done when.",
};

static void main_begin(const struct load_options *o, struct load_shared *shared, pid_t pid[])
{
	pid_t parent = getpid();

	/* Before any of them has touched the driver, which does not survive a fork. */
	for (unsigned int i = 0; i < o->processes; i++) {
		pid[i] = fork();
		if (pid[i] < 0) {
			fprintf(stderr, "allot-load: fork: %s\n", strerror(errno));
			exit(1);
		}
		if (pid[i])
			continue;
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (getppid() != parent)
			_exit(1);
		load_run(o, i, shared);
	}
}

/* false when one ended before it was ready. */
static bool main_all_ready(const struct load_options *o, struct load_shared *shared)
{
	while (word_check(&shared->ready) < o->processes) {
		siginfo_t ended = {.si_pid = 0};

		if (!waitid(P_ALL, 0, &ended, WEXITED | WNOHANG | WNOWAIT) && ended.si_pid)
			return false;
		load_sleep_until(now_monotonic_ns() + NS_PER_S / 1000);
	}
	return true;
}

static void main_start(const struct load_options *o, struct load_shared *shared, const pid_t pid[])
{
	unsigned long long at_ns = 0;
	char line[64];

	printf("{\"stage\": \"ready\", \"pids\": [");
	for (unsigned int i = 0; i < o->processes; i++)
		printf("%s%d", i ? ", " : "", (int)pid[i]);
	printf("]}\n");
	fflush(stdout);
	if (o->wait) {
		if (!fgets(line, sizeof(line), stdin))
			exit(1); /* nobody is there any more; the processes go with this one */
		at_ns = strtoull(line, NULL, 10);
	}
	word_release(&shared->start_ns, at_ns ? at_ns : now_monotonic_ns() + NS_PER_S / 50);
}

int main(int argc, char **argv)
{
	struct load_options o = {
		.kernel_us = 1000,
		.seconds = 3,
		.warmup = 0.5,
		.period_ms = 10,
		.threads = 128,
		.nodes = 50,
		.eager = 5200,
		.bin_ms = 100,
		.processes = 1,
	};
	struct load_shared *shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE,
					  MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	pid_t pid[PROCESSES_MAX];
	int status, failed = 0;

	argp_parse(&argp, argc, argv, 0, NULL, &o);
	if (o.lean && (o.form == LOAD_STREAMS4 || load_waits(o.form))) {
		fprintf(stderr,
			"allot-load: --lean is for one stream that nobody waits for: not for "
			"--form %s\n",
			load_form_names[o.form]);
		return 1;
	}
	if (shared == MAP_FAILED || o.warmup >= o.seconds) {
		fprintf(stderr, "allot-load: %s\n",
			shared == MAP_FAILED ? strerror(errno)
					     : "--warm-up must be shorter than --seconds");
		return 1;
	}
	main_begin(&o, shared, pid);
	if (!main_all_ready(&o, shared))
		return 1;
	main_start(&o, shared, pid);
	while (wait(&status) > 0)
		failed |= status != 0;
	return failed;
}
