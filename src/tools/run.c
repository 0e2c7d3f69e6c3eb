/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/run.h"

#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/now.h"
#include "base/word.h"
#include "tools/record.h"

/*
 * How much each stream has in flight: enough that the device never waits, little enough that the
 * load ends soon after it is told to.
 */
#define FLIGHT_US 20000.0
#define DEPTH_MIN 4u
#define DEPTH_MAX 512u
/* Not every short kernel gets an event; a batch of them takes about this long. */
#define BATCH_US 500.0
#define LEAN_US	 100000.0
#define RING	 512u

struct load {
	const struct load_options *options;
	struct load_device device;
	struct load_work work;
	struct record record;
	struct histogram launch, latency;
	struct canary canary;
	uint64_t idle_from_ns, idle_to_ns;

	/* Launches between two events, and how many such batches may be outstanding. */
	unsigned int batch, ring;
	CUevent event[RING];
	sem_t room, filled;
	atomic_bool stop;
};

static double run_unit_us(const struct load *load)
{
	return load->work.kernels * load->options->kernel_us;
}

static void run_launch(struct load *load, unsigned int stream)
{
	uint64_t from_ns = now_monotonic_ns();
	CUresult r = load_work_launch(&load->work, stream);

	load_must(r, "launch");
	if (from_ns >= load->record.window_ns)
		histogram_add(&load->launch, now_monotonic_ns() - from_ns);
}

static void run_note_done(struct load *load, unsigned int launches)
{
	record_done(&load->record, now_monotonic_ns(), launches * load->work.kernels,
		    load->options->kernel_us);
}

/* Sleeps through the pause if it is due, and answers whether it was. */
static bool run_pause_if_due(struct load *load, uint64_t now_ns)
{
	if (now_ns < load->idle_from_ns || now_ns >= load->idle_to_ns)
		return false;
	load_sleep_until(load->idle_to_ns);
	return true;
}

bool load_waits(enum load_form form)
{
	return form == LOAD_SYNC || form == LOAD_REQUEST || form == LOAD_TOKEN;
}

/* Launches one at a time: as fast as it goes, or one each period. */
static void run_waiting(struct load *load)
{
	uint64_t period_ns = (uint64_t)(load->options->period_ms * 1e6), now_ns;
	uint64_t due_ns = load->record.from_ns;

	while ((now_ns = now_monotonic_ns()) < load->record.to_ns) {
		if (run_pause_if_due(load, now_ns))
			continue;
		if (load->work.form == LOAD_REQUEST) {
			/* A late request does not catch up: that would be another load. */
			while (due_ns < now_ns)
				due_ns += period_ns;
			load_sleep_until(due_ns);
			now_ns = now_monotonic_ns();
		}
		run_launch(load, 0);
		MUST(load_work_wait(&load->work));
		run_note_done(load, 1);
		if (now_ns >= load->record.window_ns)
			histogram_add(&load->latency, now_monotonic_ns() - now_ns);
	}
}

static void run_take(sem_t *sem)
{
	while (sem_wait(sem) < 0 && errno == EINTR)
		;
}

/* A thread of its own notes completions: the launching one may be held for long. */
static void *run_watch(void *arg)
{
	struct load *load = arg;

	for (unsigned int n = 0;; n++) {
		run_take(&load->filled);
		if (atomic_load(&load->stop))
			return NULL;
		MUST(cu.cuEventSynchronize(load->event[n % load->ring]));
		run_note_done(load, load->batch);
		sem_post(&load->room);
	}
}

static void run_size_ring(struct load *load)
{
	double us = run_unit_us(load), depth = load->options->depth;

	if (load->options->lean) {
		load->batch = us < LEAN_US ? (unsigned int)(LEAN_US / us) : 1;
		load->ring = 2;
		return;
	}
	if (!load->options->depth) {
		depth = FLIGHT_US / us;
		depth = (depth < DEPTH_MIN ? DEPTH_MIN : depth) * load->work.nstreams;
		depth = depth > DEPTH_MAX ? DEPTH_MAX : depth;
	}
	load->batch = us < BATCH_US ? (unsigned int)(BATCH_US / us) : 1;
	if (load->batch > (unsigned int)depth / 2)
		load->batch = (unsigned int)depth > 1 ? (unsigned int)depth / 2 : 1;
	load->ring = (unsigned int)depth / load->batch;
	if (load->ring > RING)
		load->ring = RING;
}

static void run_saturating(struct load *load)
{
	unsigned int stream = 0;
	pthread_t watcher;
	uint64_t now_ns;

	sem_init(&load->filled, 0, 0);
	sem_init(&load->room, 0, load->ring);
	if (pthread_create(&watcher, NULL, run_watch, load)) {
		fprintf(stderr, "allot-load: no thread: %s\n", strerror(errno));
		exit(1);
	}
	for (unsigned int n = 0; (now_ns = now_monotonic_ns()) < load->record.to_ns;) {
		if (run_pause_if_due(load, now_ns))
			continue;
		run_take(&load->room);
		for (unsigned int i = 0; i < load->batch; i++)
			run_launch(load, stream);
		MUST(cu.cuEventRecord(load->event[n++ % load->ring], load->work.stream[stream]));
		sem_post(&load->filled);
		stream = (stream + 1) % load->work.nstreams;
	}
	/* Work that is still in flight ends after the window. */
	atomic_store(&load->stop, true);
	sem_post(&load->filled);
	pthread_join(watcher, NULL);
}

/*
 * Nothing beside the launches but a wake-up for each batch, so that what the processor was used for
 * is what launching takes. Of two batches one is in flight while the other is launched.
 */
static void run_lean(struct load *load)
{
	unsigned int n = 0;
	uint64_t now_ns;

	while ((now_ns = now_monotonic_ns()) < load->record.to_ns) {
		if (run_pause_if_due(load, now_ns))
			continue;
		for (unsigned int i = 0; i < load->batch; i++)
			load_must(load_work_launch(&load->work, 0), "launch");
		MUST(cu.cuEventRecord(load->event[n % 2], load->work.stream[0]));
		if (n++) {
			MUST(cu.cuEventSynchronize(load->event[n % 2]));
			run_note_done(load, load->batch);
		}
	}
}

static void run_open_load(struct load *load, const struct load_options *o)
{
	load->options = o;
	load_device_open(&load->device, (int)o->device, o->blocks, o->threads, o->loops_per_us);
	load_work_open(&load->work, &load->device, o->form, o->kernel_us, o->nodes, o->eager);
	run_size_ring(load);
	for (unsigned int i = 0; i < load->ring; i++)
		MUST(cu.cuEventCreate(&load->event[i],
				      CU_EVENT_DISABLE_TIMING | CU_EVENT_BLOCKING_SYNC));
	/* The first launch loads the kernel. */
	MUST(load_work_launch(&load->work, 0));
	MUST(load_work_wait(&load->work));
}

static double run_cpu_seconds(void)
{
	struct rusage u;

	getrusage(RUSAGE_SELF, &u);
	return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) +
	       (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) / 1e6;
}

static void run_print_histogram(FILE *out, const char *name, const struct histogram *h)
{
	fprintf(out,
		", \"%s\": {\"n\": %llu, \"p50\": %.2f, \"p90\": %.2f, \"p99\": %.2f, \"max\": "
		"%.2f, \"p50_low\": %.2f, \"p50_high\": %.2f, \"p99_low\": %.2f, "
		"\"p99_high\": %.2f}",
		name, (unsigned long long)h->n, histogram_us(h, 500), histogram_us(h, 900),
		histogram_us(h, 990), histogram_us(h, 1000), histogram_bound_us(h, 500, -1),
		histogram_bound_us(h, 500, 1), histogram_bound_us(h, 990, -1),
		histogram_bound_us(h, 990, 1));
}

/* One write, so that the lines of several processes do not mix. */
static void run_print(const struct load *load, unsigned int process, double cpu)
{
	const struct load_options *o = load->options;
	const struct record *r = &load->record;
	char *text = NULL;
	size_t bytes = 0;
	FILE *out = open_memstream(&text, &bytes);

	if (!out)
		exit(1);
	fprintf(out,
		"{\"stage\": \"load\", \"process\": %u, \"pid\": %d, \"form\": \"%s\", "
		"\"kernel_us\": %g, \"loops_per_us\": %.9g, \"start_ns\": %llu, \"seconds\": %g, "
		"\"warmup\": %g, \"kernels\": %llu, \"share\": %.6f, \"cpu_seconds\": %.4f",
		process, (int)getpid(), load_form_names[o->form], o->kernel_us,
		load->device.loops_per_us, (unsigned long long)r->from_ns, o->seconds, o->warmup,
		(unsigned long long)r->kernels, record_share(r, o->kernel_us), cpu);
	if (load_work_is_graph(o->form))
		fprintf(out, ", \"graphs\": %llu",
			(unsigned long long)(r->kernels / load->work.kernels));
	run_print_histogram(out, "launch_us", &load->launch);
	if (load->latency.n)
		run_print_histogram(out, "latency_us", &load->latency);
	if (o->canary)
		fprintf(out, ", \"late_ms\": %.1f, \"latest_ms\": %.1f",
			(double)load->canary.late_ns / 1e6, (double)load->canary.longest_ns / 1e6);
	fprintf(out, ", \"bin_ms\": %llu, \"bins\": [",
		(unsigned long long)(r->bin_ns / NS_PER_MS));
	for (size_t i = 0; i < r->nbins; i++)
		fprintf(out, "%s%.4g", i ? "," : "", r->bin_us[i] * 1e3 / (double)r->bin_ns);
	fputs("]}\n", out);
	if (fclose(out) || write(STDOUT_FILENO, text, bytes) < 0)
		exit(1);
}

void load_run(const struct load_options *options, unsigned int process, struct load_shared *shared)
{
	struct load *load = calloc(1, sizeof(*load));
	uint64_t start_ns, to_ns;
	double cpu;

	if (!load)
		exit(1);
	run_open_load(load, options);
	word_publish_add(&shared->ready, 1);
	while (!(start_ns = word_acquire(&shared->start_ns)))
		load_sleep_until(now_monotonic_ns() + NS_PER_S / 1000);
	to_ns = start_ns + (uint64_t)(options->seconds * 1e9);
	load->idle_from_ns = start_ns + (uint64_t)(options->idle_from * 1e9);
	load->idle_to_ns = start_ns + (uint64_t)(options->idle_to * 1e9);
	if (!record_open(&load->record, start_ns, start_ns + (uint64_t)(options->warmup * 1e9),
			 to_ns, options->bin_ms * NS_PER_MS, options->processes))
		exit(1);
	if (options->canary)
		canary_start(&load->canary, start_ns, to_ns);
	load_sleep_until(start_ns);
	cpu = run_cpu_seconds();
	if (load_waits(options->form))
		run_waiting(load);
	else if (options->lean)
		run_lean(load);
	else
		run_saturating(load);
	cpu = run_cpu_seconds() - cpu;
	/* A client of MPS that goes with work on the device may take the others with it. */
	MUST(cu.cuCtxSynchronize());
	run_print(load, process, cpu);
	_exit(0);
}
