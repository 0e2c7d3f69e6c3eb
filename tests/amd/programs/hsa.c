/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What tests/amd/run does by ROCm's runtime, as it is installed:
 *	pool BYTES MORE	takes memory of the first GPU, step by step
 *	queue		has a compute queue on the first GPU until it is told to end
 *	peers		copies between each two GPUs, and looks at each word that arrived
 *	hold		fills memory of the first GPU, and looks at it again when it is told to
 *	keep FILE	the same without a pipe, for CRIU: FILE.ready is made when it is filled, and
 *			FILE with the number of wrong words once FILE.go is there
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "tests/gpu/programs/steered.h"
#include "tests/sim/hsa.h"

#define SECONDS 300
#define ROUNDS	8

static void wait_word(void)
{
	char word[32];

	if (!child_told(word))
		exit(0);
}

static void say(const char *stage, int result)
{
	printf("{\"stage\": \"%s\", \"result\": %d, \"error\": \"%s\"}\n", stage, result,
	       result ? "of ROCm's runtime" : "");
	wait_word();
}

static void take_pool_memory(uint64_t bytes, uint64_t more)
{
	void *taken = NULL, *beside = NULL;
	int r;

	say("open", 0);
	say("taken", hsa.amd_memory_pool_allocate(pools[1], bytes, 0, &taken));
	r = hsa.amd_memory_pool_allocate(pools[1], more, 0, &beside);
	say("more", r);
	if (!r)
		hsa.amd_memory_pool_free(beside);
	if (taken)
		CHECK_EQ(hsa.amd_memory_pool_free(taken), 0);
	say("given", 0);
	say("again", hsa.amd_memory_pool_allocate(pools[1], more / 4 * 3, 0, &taken));
}

static void hold_queue(void)
{
	struct queue *queue;

	CHECK_EQ(hsa.queue_create(agents[1], 1024, QUEUE_MULTIPLE, NULL, NULL, UINT32_MAX, UINT32_MAX,
				  &queue),
		 0);
	say("queue", 0);
	CHECK_EQ(hsa.queue_destroy(queue), 0);
}

static void fill(uint32_t *to, uint32_t seed)
{
	for (uint64_t i = 0; i < SIZE / sizeof(*to); i++)
		to[i] = seed + (uint32_t)i * 2654435761u;
}

static uint64_t count_wrong(const uint32_t *at, uint32_t seed)
{
	uint64_t n = 0;

	for (uint64_t i = 0; i < SIZE / sizeof(*at); i++)
		n += at[i] != seed + (uint32_t)i * 2654435761u;
	return n;
}

static double now_s(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void copy_between(void *const at[], int from, int to, uint32_t *host)
{
	uint32_t seed = (uint32_t)(from * GPUS_MOST + to);
	double best = 1e9;

	fill(host, seed);
	copy(at[from], from, host, 0);
	for (int i = 0; i < ROUNDS; i++) {
		double begin = now_s(), took;

		copy(at[to], to, at[from], from);
		took = now_s() - begin;
		best = took < best ? took : best;
	}
	memset(host, 0, SIZE);
	copy(host, 0, at[to], to);
	printf("{\"stage\": \"copied\", \"from\": %d, \"to\": %d, \"wrong\": %" PRIu64
	       ", \"gb_per_s\": %.2f}\n",
	       from - 1, to - 1, count_wrong(host, seed), (double)SIZE / best / 1e9);
}

static void copy_between_all(void)
{
	void *at[1 + GPUS_MOST];
	uint32_t *host = allocate(0);

	for (int i = 1; i <= ngpus; i++)
		at[i] = allocate(i);
	for (int from = 1; from <= ngpus; from++)
		for (int to = 1; to <= ngpus; to++)
			if (from != to)
				copy_between(at, from, to, host);
	printf("{\"stage\": \"end\"}\n");
}

static void hold(void)
{
	uint32_t *host = allocate(0);
	void *at = allocate(1);

	fill(host, 4711);
	copy(at, 1, host, 0);
	memset(host, 0, SIZE);
	say("ready", 0);
	copy(host, 0, at, 1);
	printf("{\"stage\": \"looked\", \"wrong\": %" PRIu64 "}\n", count_wrong(host, 4711));
}

static void named(char *path, size_t n, const char *file, const char *end)
{
	snprintf(path, n, "%s.%s", file, end);
}

static void keep(const char *file)
{
	uint32_t *host = allocate(0);
	void *at = allocate(1);
	char path[512], ready[520];
	FILE *to;

	fill(host, 4711);
	copy(at, 1, host, 0);
	memset(host, 0, SIZE);
	named(ready, sizeof(ready), file, "ready");
	to = fopen(ready, "we");
	CHECK(to && !fclose(to));
	named(ready, sizeof(ready), file, "go");
	while (access(ready, F_OK))
		usleep(100000);
	copy(host, 0, at, 1);
	named(path, sizeof(path), file, "new");
	to = fopen(path, "we");
	CHECK(to && fprintf(to, "%" PRIu64, count_wrong(host, 4711)) > 0 && !fclose(to));
	CHECK_EQ(rename(path, file), 0);
}

int main(int argc, char **argv)
{
	child_watched(SECONDS);
	if (!dlopen("libhsa-runtime64.so.1", RTLD_NOW)) {
		printf("{\"stage\": \"absent\", \"why\": \"no libhsa-runtime64.so.1\"}\n");
		return 77;
	}
	load();
	CHECK_EQ(hsa.init(), 0);
	find_machine();
	if (argc == 4 && !strcmp(argv[1], "pool"))
		take_pool_memory(strtoull(argv[2], NULL, 10), strtoull(argv[3], NULL, 10));
	else if (argc == 2 && !strcmp(argv[1], "queue"))
		hold_queue();
	else if (argc == 2 && !strcmp(argv[1], "peers"))
		copy_between_all();
	else if (argc == 2 && !strcmp(argv[1], "hold"))
		hold();
	else if (argc == 3 && !strcmp(argv[1], "keep"))
		keep(argv[2]);
	fflush(stdout);
	_exit(0);
}
