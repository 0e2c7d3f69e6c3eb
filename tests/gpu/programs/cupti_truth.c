/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the driver says that the device did for a process, by CUPTI: a library that
 * CUDA_INJECTION64_PATH names, for a program whose share is measured. It notes when each kernel,
 * each copy on the device and each memset began and ended; kernels of a graph one by one. Copies to
 * and from the host are counted apart, since nobody is charged for them.
 *
 * The program calls cupti_truth_write when it has waited for all of its work: parts/truth.py builds
 * this where CUPTI's headers are, and reads the file.
 */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <cupti.h>

#define BUFFER_BYTES ((size_t)4 << 20)
#define BIN_NS	     UINT64_C(1000000)
/* What follows sooner than this was one piece of work: the device had no time for anybody else. */
#define GAP_NS UINT64_C(100000)
/* A stamp so far ahead of CLOCK_MONOTONIC is of CLOCK_REALTIME, which CUPTI takes by itself. */
#define FAR_NS UINT64_C(31536000000000000)

#define EXPORT __attribute__((visibility("default")))

struct span {
	uint64_t from_ns, to_ns;
};

static struct {
	pthread_mutex_t lock;
	struct span *span;
	size_t n, room;
	uint64_t kernels, copies, memsets, host_copies, host_copies_ns, lost, unfinished;
	int failed; /* CUPTI's own number for what did not work at the start */
	const char *what;
} truth = {.lock = PTHREAD_MUTEX_INITIALIZER};

static uint64_t clock_ns(clockid_t clock)
{
	struct timespec t;

	clock_gettime(clock, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static uint64_t CUPTIAPI monotonic_ns(void)
{
	return clock_ns(CLOCK_MONOTONIC);
}

static void CUPTIAPI buffer_requested(uint8_t **ret_buffer, size_t *ret_bytes, size_t *ret_records)
{
	*ret_buffer = aligned_alloc(64, BUFFER_BYTES);
	*ret_bytes = *ret_buffer ? BUFFER_BYTES : 0;
	*ret_records = 0;
}

/* With the lock held. */
static void add(uint64_t from_ns, uint64_t to_ns)
{
	if (!from_ns || to_ns < from_ns) {
		truth.unfinished++;
		return;
	}
	if (truth.n == truth.room) {
		size_t room = truth.room ? 2 * truth.room : (size_t)1 << 20;
		struct span *more = realloc(truth.span, room * sizeof(*more));

		if (!more) {
			truth.lost++;
			return;
		}
		truth.span = more;
		truth.room = room;
	}
	truth.span[truth.n++] = (struct span){from_ns, to_ns};
}

static int on_device(unsigned int kind)
{
	return kind == CUPTI_ACTIVITY_MEMCPY_KIND_DTOD || kind == CUPTI_ACTIVITY_MEMCPY_KIND_ATOA ||
	       kind == CUPTI_ACTIVITY_MEMCPY_KIND_ATOD || kind == CUPTI_ACTIVITY_MEMCPY_KIND_DTOA;
}

/* With the lock held. The fields that are read are where they are in every version of a record. */
static void note(const CUpti_Activity *record)
{
	switch (record->kind) {
	case CUPTI_ACTIVITY_KIND_KERNEL:
	case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL: {
		const CUpti_ActivityKernel9 *kernel = (const void *)record;

		truth.kernels++;
		add(kernel->start, kernel->end);
		return;
	}
	case CUPTI_ACTIVITY_KIND_MEMCPY: {
		const CUpti_ActivityMemcpy5 *copy = (const void *)record;

		if (on_device(copy->copyKind)) {
			truth.copies++;
			add(copy->start, copy->end);
		} else {
			truth.host_copies++;
			if (copy->end > copy->start)
				truth.host_copies_ns += copy->end - copy->start;
		}
		return;
	}
	case CUPTI_ACTIVITY_KIND_MEMSET: {
		const CUpti_ActivityMemset4 *set = (const void *)record;

		truth.memsets++;
		add(set->start, set->end);
		return;
	}
	default:
		return;
	}
}

static void CUPTIAPI buffer_completed(CUcontext context, uint32_t stream, uint8_t *buffer,
				      size_t bytes, size_t valid)
{
	CUpti_Activity *record = NULL;
	size_t dropped = 0;

	pthread_mutex_lock(&truth.lock);
	while (valid && cuptiActivityGetNextRecord(buffer, valid, &record) == CUPTI_SUCCESS)
		note(record);
	if (cuptiActivityGetNumDroppedRecords(context, stream, &dropped) == CUPTI_SUCCESS)
		truth.lost += dropped;
	pthread_mutex_unlock(&truth.lock);
	(void)bytes;
	free(buffer);
}

static void must(CUptiResult result, const char *what)
{
	if (result == CUPTI_SUCCESS || truth.failed)
		return;
	truth.failed = (int)result;
	truth.what = what;
}
#define MUST(call) must(call, #call)

/* The driver calls it when it initialises. */
EXPORT int InitializeInjection(void)
{
	/* Where it is not taken, stamps are of CLOCK_REALTIME, and are changed when written. */
	cuptiActivityRegisterTimestampCallback(monotonic_ns);
	MUST(cuptiActivityRegisterCallbacks(buffer_requested, buffer_completed));
	MUST(cuptiActivityEnable(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL));
	MUST(cuptiActivityEnable(CUPTI_ACTIVITY_KIND_MEMCPY));
	MUST(cuptiActivityEnable(CUPTI_ACTIVITY_KIND_MEMSET));
	cuptiActivityFlushPeriod(200);
	return 1;
}

static int compare(const void *left, const void *right)
{
	const struct span *a = left, *b = right;

	return a->from_ns < b->from_ns ? -1 : a->from_ns > b->from_ns;
}

/* In place: sorted, and what overlaps or follows sooner than `gap_ns` joined; how many are left. */
static size_t unite(struct span *span, size_t n, uint64_t gap_ns)
{
	size_t kept = 0;

	qsort(span, n, sizeof(*span), compare);
	for (size_t i = 0; i < n; i++) {
		if (kept && span[i].from_ns <= span[kept - 1].to_ns + gap_ns) {
			if (span[i].to_ns > span[kept - 1].to_ns)
				span[kept - 1].to_ns = span[i].to_ns;
		} else {
			span[kept++] = span[i];
		}
	}
	return kept;
}

/* Busy ns of each bin from the first span on. */
static void write_bins(FILE *out, const char *name, const struct span *span, size_t n)
{
	uint64_t bin_from_ns = n ? span[0].from_ns : 0, busy_ns = 0;

	fprintf(out, ", \"%s\": {\"from_ns\": %llu, \"spans\": %zu, \"bins\": [", name,
		(unsigned long long)bin_from_ns, n);
	for (size_t i = 0, bins = 0; i < n;) {
		uint64_t bin_to_ns = bin_from_ns + BIN_NS;
		uint64_t from_ns = span[i].from_ns > bin_from_ns ? span[i].from_ns : bin_from_ns;

		if (from_ns < bin_to_ns && span[i].to_ns <= bin_to_ns) {
			busy_ns += span[i++].to_ns - from_ns;
			if (i < n)
				continue;
		} else if (from_ns < bin_to_ns) {
			busy_ns += bin_to_ns - from_ns;
		}
		fprintf(out, "%s%llu", bins++ ? "," : "", (unsigned long long)busy_ns);
		busy_ns = 0;
		bin_from_ns = bin_to_ns;
	}
	fputs("]}", out);
}

static void to_monotonic(struct span *span, size_t n)
{
	uint64_t now_ns = clock_ns(CLOCK_MONOTONIC);
	uint64_t ahead_ns = clock_ns(CLOCK_REALTIME) - now_ns;

	for (size_t i = 0; i < n; i++) {
		if (span[i].from_ns < now_ns + FAR_NS)
			continue;
		span[i].from_ns -= ahead_ns;
		span[i].to_ns -= ahead_ns;
	}
}

/*
 * Writes what was done since the last call as JSON, and forgets it. The caller has waited for all
 * of its work. 0, or -1 where the file could not be written.
 */
EXPORT int cupti_truth_write(const char *path);
EXPORT int cupti_truth_write(const char *path)
{
	size_t n;
	FILE *out;

	cuptiActivityFlushAll(0);
	cuptiActivityFlushAll(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED);
	out = fopen(path, "w");
	if (!out)
		return -1;
	pthread_mutex_lock(&truth.lock);
	to_monotonic(truth.span, truth.n);
	fprintf(out,
		"{\"failed\": %d, \"what\": \"%s\", \"kernels\": %llu, \"copies\": %llu, "
		"\"memsets\": %llu, \"host_copies\": %llu, \"host_copies_ns\": %llu, "
		"\"lost\": %llu, \"unfinished\": %llu, \"bin_ns\": %llu",
		truth.failed, truth.what ? truth.what : "", (unsigned long long)truth.kernels,
		(unsigned long long)truth.copies, (unsigned long long)truth.memsets,
		(unsigned long long)truth.host_copies, (unsigned long long)truth.host_copies_ns,
		(unsigned long long)truth.lost, (unsigned long long)truth.unfinished,
		(unsigned long long)BIN_NS);
	n = unite(truth.span, truth.n, 0);
	write_bins(out, "strict", truth.span, n);
	n = unite(truth.span, n, GAP_NS);
	write_bins(out, "busy", truth.span, n);
	fputs("}\n", out);
	truth.n = 0;
	truth.kernels = truth.copies = truth.memsets = truth.host_copies = 0;
	truth.host_copies_ns = truth.lost = truth.unfinished = 0;
	pthread_mutex_unlock(&truth.lock);
	return fclose(out) ? -1 : 0;
}
