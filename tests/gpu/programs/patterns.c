/* SPDX-License-Identifier: Apache-2.0 */
/*
 * patterns FORM [LOOPS_PER_US]: programs whose share is hard to keep, each a round that is
 * repeated: kernels of one function and grid whose length changes, streams that wait for each
 * other, copies on the device, requests that are answered one after the other. Knows nothing of
 * allot.
 *
 * Says "ready"; then for each line "AT SECONDS SETTLE [FILE]" on its input starts at that instant
 * (CLOCK_MONOTONIC in ns), repeats rounds for so long, and says what was done after the time to
 * settle. FILE is where the library that CUDA_INJECTION64_PATH names shall write what it saw.
 * "patterns once FORM": four rounds without a word, for tools that look at a program.
 */
#include <dlfcn.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <signal.h>
#include <unistd.h>

#include "base/now.h"
#include "tools/device.h"
#include "tools/record.h"

#define HOST_US	   150
#define COPY_BYTES ((size_t)256 << 20)
#define SET_BYTES  ((size_t)64 << 20)
#define BIN_NS	   UINT64_C(100000000)
#define BINS	   1200

static struct load_device device;
static CUstream stream[2];
static CUevent event[2];
static CUdeviceptr memory[2];

static void spin(double us, CUstream on)
{
	uint64_t loops = load_device_loops(&device, us);
	void *params[] = {&loops};

	MUST(cu.cuLaunchKernel(device.spin, device.blocks, 1, 1, device.threads, 1, 1, 0, on,
			       params, NULL));
}

static void wait_for(CUstream on)
{
	MUST(cu.cuStreamSynchronize(on));
}

/* The host has something to do, too. */
static void host(void)
{
	uint64_t until_ns = now_monotonic_ns() + HOST_US * 1000;

	while (now_monotonic_ns() < until_ns)
		;
}

/* Brief in the first round, and long ever after. */
static void persistent(unsigned int round)
{
	spin(round ? 50000 : 20, stream[0]);
	wait_for(stream[0]);
	host();
}

static void alternate(unsigned int round)
{
	(void)round;
	spin(100, stream[0]);
	wait_for(stream[0]);
	host();
	spin(5000, stream[0]);
	wait_for(stream[0]);
	host();
}

static void tail(unsigned int round)
{
	(void)round;
	for (int i = 0; i < 20; i++)
		spin(20, stream[0]);
	spin(3000, stream[0]);
	wait_for(stream[0]);
}

/* Each stream waits for the other; the host only for every fourth round. */
static void events(unsigned int round)
{
	spin(1000, stream[0]);
	MUST(cu.cuEventRecord(event[0], stream[0]));
	MUST(cu.cuStreamWaitEvent(stream[1], event[0], 0));
	spin(500, stream[1]);
	MUST(cu.cuEventRecord(event[1], stream[1]));
	MUST(cu.cuStreamWaitEvent(stream[0], event[1], 0));
	if (round % 4 == 3)
		wait_for(stream[0]);
}

/* A long kernel, and beside it brief ones that are waited for. */
static void beside(unsigned int round)
{
	(void)round;
	spin(5000, stream[0]);
	for (int i = 0; i < 10; i++) {
		spin(50, stream[1]);
		wait_for(stream[1]);
	}
	wait_for(stream[0]);
}

static void copies(unsigned int round)
{
	(void)round;
	for (int i = 0; i < 8; i++) {
		MUST(cu.cuMemcpyDtoDAsync_v2(memory[i % 2], memory[(i + 1) % 2], COPY_BYTES,
					     stream[0]));
		MUST(cu.cuMemsetD8Async(memory[i % 2], (unsigned char)i, SET_BYTES, stream[0]));
	}
	wait_for(stream[0]);
}

static void request(unsigned int round)
{
	(void)round;
	spin(140, stream[0]);
	wait_for(stream[0]);
}

/* As much, in the pieces of a small model. */
static void request10(unsigned int round)
{
	(void)round;
	for (int i = 0; i < 10; i++)
		spin(14, stream[0]);
	wait_for(stream[0]);
}

/* Ones that are asked too early whether they are done, as libraries do. */
static void query(unsigned int round)
{
	CUresult r;

	(void)round;
	spin(500, stream[0]);
	MUST(cu.cuEventRecord(event[0], stream[0]));
	while ((r = cu.cuEventQuery(event[0])) == CUDA_ERROR_NOT_READY)
		;
	load_must(r, "cuEventQuery");
}

static const struct form {
	const char *name;
	void (*round)(unsigned int round);
} forms[] = {
	{"persistent", persistent}, {"alternate", alternate}, {"tail", tail},
	{"events", events},	    {"beside", beside},	      {"copies", copies},
	{"request", request},	    {"request10", request10}, {"query", query},
};

static const struct form *form_of(const char *name)
{
	for (size_t i = 0; i < sizeof(forms) / sizeof(forms[0]); i++)
		if (!strcmp(name, forms[i].name))
			return &forms[i];
	fprintf(stderr, "patterns: \"%s\" is no form\n", name);
	exit(2);
}

static void open_all(double loops_per_us)
{
	load_device_open(&device, 0, 0, 128, loops_per_us);
	for (int i = 0; i < 2; i++) {
		MUST(cu.cuStreamCreate(&stream[i], CU_STREAM_NON_BLOCKING));
		MUST(cu.cuEventCreate(&event[i], CU_EVENT_DISABLE_TIMING));
		MUST(cu.cuMemAlloc_v2(&memory[i], COPY_BYTES));
	}
}

static void sleep_until(uint64_t ns)
{
	struct timespec ts = {(time_t)(ns / 1000000000u), (long)(ns % 1000000000u)};

	while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &ts, NULL) == EINTR)
		;
}

/* A round that ended now has taken all the time since the one before. */
static void spread(double *bin, uint64_t start_ns, uint64_t from_ns, uint64_t to_ns)
{
	double per_ns = to_ns > from_ns ? 1.0 / (double)(to_ns - from_ns) : 0;

	while (from_ns < to_ns) {
		size_t i = (size_t)((from_ns - start_ns) / BIN_NS);
		uint64_t end_ns = start_ns + (i + 1) * BIN_NS;

		end_ns = end_ns < to_ns ? end_ns : to_ns;
		if (i >= BINS)
			return;
		bin[i] += per_ns * (double)(end_ns - from_ns);
		from_ns = end_ns;
	}
}

static void write_truth(const char *path)
{
	const char *injected = getenv("CUDA_INJECTION64_PATH");
	void *library = injected ? dlopen(injected, RTLD_NOW) : NULL;
	int (*write_file)(const char *) = NULL;

	if (library)
		*(void **)&write_file = dlsym(library, "cupti_truth_write");
	if (write_file)
		write_file(path);
}

/* What was done in whole tenths of a second, a second. */
static double rate_of(const double *bin, double settle, double seconds)
{
	size_t from = (size_t)(settle * 10 + 0.5), to = (size_t)(seconds * 10 + 0.5);
	double sum = 0;

	for (size_t i = from; i < to && i < BINS; i++)
		sum += bin[i];
	return to > from ? sum * 10 / (double)(to - from) : 0;
}

static void run(const struct form *form, unsigned int *round, const char *line)
{
	static double bin[BINS];
	static struct histogram took;
	uint64_t start_ns, from_ns, to_ns, last_ns, now_ns;
	double seconds = 0, settle = 0;
	char path[256] = "";

	if (sscanf(line, "%" SCNu64 " %lf %lf %255s", &start_ns, &seconds, &settle, path) < 3) {
		fprintf(stderr, "patterns: not AT SECONDS SETTLE: %s", line);
		exit(2);
	}
	memset(bin, 0, sizeof(bin));
	memset(&took, 0, sizeof(took));
	if (!start_ns)
		start_ns = now_monotonic_ns();
	from_ns = start_ns + (uint64_t)(settle * 1e9);
	to_ns = start_ns + (uint64_t)(seconds * 1e9);
	sleep_until(start_ns);
	for (last_ns = start_ns; last_ns < to_ns; last_ns = now_ns) {
		form->round((*round)++);
		now_ns = now_monotonic_ns();
		spread(bin, start_ns, last_ns, now_ns);
		if (last_ns >= from_ns)
			histogram_add(&took, now_ns - last_ns);
	}
	MUST(cu.cuCtxSynchronize());
	now_ns = now_monotonic_ns();
	if (*path)
		write_truth(path);
	printf("{\"stage\": \"load\", \"rate\": %.6g, \"n\": %" PRIu64 ", \"p50_us\": %.2f, "
	       "\"p99_us\": %.2f, \"max_us\": %.2f, \"wall_s\": %.4f, \"bin_ms\": 100, "
	       "\"bins\": [",
	       rate_of(bin, settle, seconds), (uint64_t)took.n, histogram_us(&took, 500),
	       histogram_us(&took, 990), histogram_us(&took, 1000),
	       (double)(now_ns - start_ns) / 1e9);
	for (size_t i = 0; i < BINS && i < (size_t)(seconds * 10 + 0.5); i++)
		printf("%s%.5g", i ? "," : "", bin[i] * 10);
	puts("]}");
}

int main(int argc, char **argv)
{
	bool once = argc > 2 && !strcmp(argv[1], "once");
	const struct form *form;
	unsigned int round = 0;
	char line[512];

	if (argc < 2) {
		fprintf(stderr, "patterns FORM [LOOPS_PER_US]\n");
		return 2;
	}
	form = form_of(argv[once ? 2 : 1]);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	alarm(500);
	setvbuf(stdout, NULL, _IOLBF, 1 << 16);
	open_all(!once && argc > 2 ? strtod(argv[2], NULL) : once ? 100 : 0);
	do
		form->round(round++);
	while (once && round < 4);
	MUST(cu.cuCtxSynchronize());
	if (once)
		return 0;
	printf("{\"stage\": \"ready\", \"pid\": %d, \"loops_per_us\": %.9g}\n", (int)getpid(),
	       device.loops_per_us);
	while (fgets(line, sizeof(line), stdin))
		run(form, &round, line);
	MUST(cu.cuCtxSynchronize());
	return 0;
}
