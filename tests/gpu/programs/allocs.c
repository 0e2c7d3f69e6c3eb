/* SPDX-License-Identifier: Apache-2.0 */
/*
 * allocs: for each line "MIB PAIRS" that it is told, so many times cuMemAlloc of that size and
 * cuMemFree, or with "MIB PAIRS async" cuMemAllocAsync from a pool that keeps what it has, and
 * cuMemFreeAsync; says the ns that a pair took. So two of them, started differently, can be measured
 * by turns. At "MIB 1 hold" it allocates that once, and says what came of it and the ns that this
 * took; it is freed at "MIB 1 free".
 */
#include <time.h>

#include "child.h"

#define WARM 3 /* pairs before the ones that count */

static double now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static CUstream stream;

static void pair(uint64_t bytes, bool async)
{
	CUdeviceptr at;

	if (async) {
		MUST(cu.cuMemAllocAsync(&at, bytes, stream));
		MUST(cu.cuMemFreeAsync(at, stream));
	} else {
		MUST(cu.cuMemAlloc_v2(&at, bytes));
		MUST(cu.cuMemFree_v2(at));
	}
}

static void keep_all(void)
{
	cuuint64_t all = UINT64_MAX;
	CUmemoryPool pool;

	MUST(cu.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	MUST(cu.cuDeviceGetMemPool(&pool, 0));
	MUST(cu.cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &all));
}

static void hold(uint64_t bytes, bool begins)
{
	static CUdeviceptr at;
	double begin = now_ns();
	CUresult e = begins ? cu.cuMemAlloc_v2(&at, bytes) : cu.cuMemFree_v2(at);

	printf("{\"stage\": \"%s\", \"result\": %d, \"ns\": %.1f}\n", begins ? "held" : "freed",
	       (int)e, now_ns() - begin);
}

int main(void)
{
	unsigned int pairs;
	uint64_t mib;
	char word[32], how[8];
	double begin;
	int words;

	child_begin(300);
	MUST(cu.cuInit(0));
	child_context(0);
	keep_all();
	printf("{\"stage\": \"ready\"}\n");
	while (child_told(word)) {
		words = sscanf(word, "%" SCNu64 " %u %7s", &mib, &pairs, how);
		if (words < 2 || !pairs)
			return 2;
		if (words == 3 && strcmp(how, "async")) {
			hold(mib * MIB, !strcmp(how, "hold"));
			continue;
		}
		for (int i = 0; i < WARM; i++)
			pair(mib * MIB, words == 3);
		begin = now_ns();
		for (unsigned int i = 0; i < pairs; i++)
			pair(mib * MIB, words == 3);
		printf("{\"stage\": \"pairs\", \"ns\": %.1f}\n", (now_ns() - begin) / pairs);
	}
	return 0;
}
