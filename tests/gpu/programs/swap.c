/* SPDX-License-Identifier: Apache-2.0 */
/*
 * swap hold MIB: takes so much, in pieces of different sizes, writes a pattern, says how fast
 * pinned memory is copied out and back, and then does what it is told: "look" compares every byte,
 * "sample" one MiB of 64, "graph" launches a graph that was captured before and compares what that
 * wrote, "workMS" writes all of it anew for so long and then does nothing for as long, three times,
 * "churn" has pieces exchange what they hold until the next line: what was copied twice, or not at
 * all, is not where the next look expects it, "fill" writes whole pieces until the next line and
 * says how many bytes it had written at which time.
 *
 * swap brief MIB: the same, but says nothing of PCIe, which takes seconds where much is held.
 *
 * swap pooled MIB: the same as that, of memory from a stream-ordered pool.
 *
 * swap sparse MIB USED: takes MIB at once, as a framework does that preallocates, and writes to the
 * first USED MiB alone; the rest is zero.
 *
 * swap checkpoint PID: has the driver move another process's memory to the host and back
 * (cuCheckpointProcess*), and says how long that took.
 */
#include <poll.h>
#include <time.h>

#include "child.h"

#define PIECES 256
#define STAGE  (64 * MIB) /* of pinned host memory, for copies and looks */
#define STEP   MIB	  /* so much has one value */
#define SAMPLE 64	  /* steps, of which one is looked at */
#define AHEAD  64	  /* exchanges that are under way at most */
#define NOTES  16384	  /* of how much was written by when */
#define NOTE_S 0.01

static struct {
	CUdeviceptr at;
	uint64_t bytes;
	int pattern; /* the piece whose it was at first */
} pieces[PIECES];
static int n;
static uint64_t used = UINT64_MAX; /* bytes of a piece, behind which it is zero */
static uint32_t *stage;
static CUdeviceptr graphed;
static CUgraphExec graph;
static CUstream stream;

static double seconds(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static uint32_t value(int piece, uint64_t step)
{
	if (step >= used / STEP)
		return 0;
	return (uint32_t)(((uint64_t)pieces[piece].pattern << 20 | step) * 2654435761u);
}

/* Mostly large ones, as models are, and small ones between them, which share granules. */
static void take(uint64_t bytes, bool pooled)
{
	uint64_t large = bytes / 64 / STEP * STEP, got = 0;

	large = large ? large : STEP;
	if (used < bytes)
		large = bytes;
	for (n = 0; n < PIECES && got < bytes; n++) {
		uint64_t want = n % 4 == 3 ? 3 * STEP / 4 : large;

		pieces[n].bytes = want < bytes - got ? want : bytes - got;
		pieces[n].pattern = n;
		if (pooled)
			MUST(cu.cuMemAllocAsync(&pieces[n].at, pieces[n].bytes, stream));
		else
			MUST(cu.cuMemAlloc_v2(&pieces[n].at, pieces[n].bytes));
		got += pieces[n].bytes;
	}
}

static void fill(void)
{
	for (int i = 0; i < n; i++)
		for (uint64_t at = 0, step = 0; at < pieces[i].bytes; at += STEP, step++) {
			uint64_t left = pieces[i].bytes - at;

			MUST(cu.cuMemsetD32Async(pieces[i].at + at, value(i, step),
						 (left < STEP ? left : STEP) / 4, stream));
		}
	MUST(cu.cuStreamSynchronize(stream));
}

static uint64_t look(void)
{
	uint64_t wrong = 0;

	for (int i = 0; i < n; i++)
		for (uint64_t at = 0, bytes; at < pieces[i].bytes; at += bytes) {
			bytes = pieces[i].bytes - at < STAGE ? pieces[i].bytes - at : STAGE;
			MUST(cu.cuMemcpyDtoH_v2(stage, pieces[i].at + at, bytes));
			for (uint64_t w = 0; w < bytes / 4; w++)
				wrong += stage[w] != value(i, (at + w * 4) / STEP);
		}
	return wrong;
}

/* Those steps of a piece are not the same ones as the next piece's. */
static uint64_t sample(void)
{
	uint64_t wrong = 0;

	for (int i = 0; i < n; i++)
		for (uint64_t step = (uint64_t)i % SAMPLE, at; step * STEP < pieces[i].bytes;
		     step += SAMPLE) {
			uint64_t left = pieces[i].bytes - step * STEP;
			uint64_t bytes = left < STEP ? left : STEP;

			at = pieces[i].at + step * STEP;
			MUST(cu.cuMemcpyDtoH_v2(stage, at, bytes));
			for (uint64_t w = 0; w < bytes / 4; w++)
				wrong += stage[w] != value(i, step);
		}
	return wrong;
}

/* The rate of PCIe alone: as much as is held, through one pinned buffer. */
static double copied(bool out)
{
	double begin = seconds();

	for (int i = 0; i < n; i++)
		for (uint64_t at = 0, bytes; at < pieces[i].bytes; at += bytes) {
			bytes = pieces[i].bytes - at < STAGE ? pieces[i].bytes - at : STAGE;
			if (out)
				MUST(cu.cuMemcpyDtoHAsync_v2(stage, pieces[i].at + at, bytes,
							     stream));
			else
				MUST(cu.cuMemcpyHtoDAsync_v2(pieces[i].at + at, stage, bytes,
							     stream));
		}
	MUST(cu.cuStreamSynchronize(stream));
	return seconds() - begin;
}

static void capture(void)
{
	CUgraph made;

	MUST(cu.cuMemAlloc_v2(&graphed, 4096));
	MUST(cu.cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
	MUST(cu.cuMemsetD32Async(graphed, 0x5ca1ab1e, 1024, stream));
	MUST(cu.cuStreamEndCapture(stream, &made));
	MUST(cu.cuGraphInstantiateWithFlags(&graph, made, 0));
	MUST(cu.cuGraphDestroy(made));
}

static unsigned int launch(void)
{
	unsigned int wrong = 0;

	MUST(cu.cuMemsetD32Async(graphed, 0, 1024, stream));
	MUST(cu.cuGraphLaunch(graph, stream));
	MUST(cu.cuMemcpyDtoHAsync_v2(stage, graphed, 4096, stream));
	MUST(cu.cuStreamSynchronize(stream));
	for (int i = 0; i < 1024; i++)
		wrong += stage[i] != 0x5ca1ab1e;
	return wrong;
}

/* A job that has something else to do half of the time. */
static void work(unsigned int ms)
{
	double begin = seconds(), until;

	for (int i = 0; i < 3; i++) {
		for (until = seconds() + ms / 1e3; seconds() < until;)
			fill();
		usleep(ms * 1000);
	}
	printf("{\"stage\": \"worked\", \"took_s\": %.4f}\n", seconds() - begin);
}

static bool next_line_is_there(void)
{
	struct pollfd input = {.fd = STDIN_FILENO, .events = POLLIN};

	return poll(&input, 1, 0) != 0;
}

static void exchange(int a, int b, CUdeviceptr between)
{
	int pattern = pieces[a].pattern;

	MUST(cu.cuMemcpyDtoDAsync_v2(between, pieces[a].at, pieces[a].bytes, stream));
	MUST(cu.cuMemcpyDtoDAsync_v2(pieces[a].at, pieces[b].at, pieces[a].bytes, stream));
	MUST(cu.cuMemcpyDtoDAsync_v2(pieces[b].at, between, pieces[a].bytes, stream));
	pieces[a].pattern = pieces[b].pattern;
	pieces[b].pattern = pattern;
}

static void churn(void)
{
	uint64_t exchanges = 0;
	CUdeviceptr between;

	MUST(cu.cuMemAlloc_v2(&between, pieces[0].bytes));
	for (int a = 0; !next_line_is_there(); a = (a + 1) % n) {
		int b = (a + 1) % n;

		while (pieces[b].bytes != pieces[a].bytes)
			b = (b + 1) % n;
		if (b == a)
			continue;
		exchange(a, b, between);
		if (++exchanges % AHEAD == 0)
			MUST(cu.cuStreamSynchronize(stream));
	}
	MUST(cu.cuStreamSynchronize(stream));
	MUST(cu.cuMemFree_v2(between));
	printf("{\"stage\": \"churned\", \"exchanges\": %" PRIu64 "}\n", exchanges);
}

/* One pass over all that is held, each piece by one memset: the device works, and not the processor. */
static uint64_t write_all(uint32_t with)
{
	uint64_t bytes = 0;

	for (int i = 0; i < n; i++) {
		MUST(cu.cuMemsetD32Async(pieces[i].at, with, pieces[i].bytes / 4, stream));
		bytes += pieces[i].bytes;
	}
	MUST(cu.cuStreamSynchronize(stream));
	return bytes;
}

/* Always has work. The times are those of CLOCK_MONOTONIC, as the harness reads it. */
static void write_until_told(void)
{
	static struct {
		double at_s;
		uint64_t bytes;
	} note[NOTES];
	uint64_t bytes = 0;
	int notes = 0;

	for (uint32_t pass = 0; !next_line_is_there(); pass++) {
		bytes += write_all(pass);
		if (notes < NOTES && (!notes || seconds() - note[notes - 1].at_s >= NOTE_S)) {
			note[notes].at_s = seconds();
			note[notes++].bytes = bytes;
		}
	}
	fill();
	printf("{\"stage\": \"filled\", \"notes\": [");
	for (int i = 0; i < notes; i++)
		printf("%s[%.4f, %" PRIu64 "]", i ? ", " : "", note[i].at_s, note[i].bytes);
	printf("]}\n");
}

static void hold(uint64_t mib, bool brief, bool pooled)
{
	double out = 0, back = 0;
	unsigned int ms;
	char word[32];

	child_context(0);
	MUST(cu.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	MUST(cu.cuMemHostAlloc((void **)&stage, STAGE, 0));
	take(mib * MIB, pooled);
	capture();
	if (!brief) {
		copied(true);
		out = copied(true);
		back = copied(false);
	}
	fill();
	printf("{\"stage\": \"held\", \"pid\": %d, \"pieces\": %d, \"pcie_out_s\": %.4f, "
	       "\"pcie_back_s\": %.4f}\n",
	       getpid(), n, out, back);
	while (child_told(word)) {
		if (!strcmp(word, "look"))
			printf("{\"stage\": \"looked\", \"wrong\": %" PRIu64 "}\n", look());
		else if (!strcmp(word, "sample"))
			printf("{\"stage\": \"looked\", \"wrong\": %" PRIu64 "}\n", sample());
		else if (!strcmp(word, "churn"))
			churn();
		else if (!strcmp(word, "fill"))
			write_until_told();
		else if (sscanf(word, "work%u", &ms) == 1)
			work(ms);
		else
			printf("{\"stage\": \"launched\", \"wrong\": %u}\n", launch());
	}
}

static void checkpoint(int pid)
{
	double begin, locked, out, back;
	const char *failed = NULL;
	CUresult r;

	begin = seconds();
	r = cu.cuCheckpointProcessLock(pid, NULL);
	failed = r ? "lock" : NULL;
	locked = out = back = seconds();
	if (!r) {
		r = cu.cuCheckpointProcessCheckpoint(pid, NULL);
		failed = r ? "checkpoint" : NULL;
		out = seconds();
	}
	if (!r) {
		r = cu.cuCheckpointProcessRestore(pid, NULL);
		failed = r ? "restore" : NULL;
		back = seconds();
	}
	cu.cuCheckpointProcessUnlock(pid, NULL);
	printf("{\"stage\": \"checkpointed\", \"failed\": \"%s\", \"error\": \"%s\", "
	       "\"lock_s\": %.4f, \"out_s\": %.4f, \"back_s\": %.4f}\n",
	       failed ? failed : "", r ? child_error(r) : "", locked - begin, out - locked,
	       back - out);
}

int main(int argc, char **argv)
{
	child_begin(300);
	MUST(cu.cuInit(0));
	if (argc == 3 && (!strcmp(argv[1], "hold") || !strcmp(argv[1], "brief"))) {
		hold(strtoull(argv[2], NULL, 10), !strcmp(argv[1], "brief"), false);
	} else if (argc == 4 && !strcmp(argv[1], "sparse")) {
		used = strtoull(argv[3], NULL, 10) * MIB;
		hold(strtoull(argv[2], NULL, 10), true, false);
	} else if (argc == 3 && !strcmp(argv[1], "pooled")) {
		hold(strtoull(argv[2], NULL, 10), true, true);
	} else if (argc == 3 && !strcmp(argv[1], "checkpoint")) {
		checkpoint(atoi(argv[2]));
	} else {
		return 2;
	}
	return 0;
}
