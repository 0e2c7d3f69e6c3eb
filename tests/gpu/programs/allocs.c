/* SPDX-License-Identifier: Apache-2.0 */
/*
 * allocs: for each line "MIB PAIRS" that it is told, so many times cuMemAlloc of that size and
 * cuMemFree; says the ns that a pair took. So two of them, started differently, can be measured by
 * turns.
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

static void pair(uint64_t bytes)
{
	CUdeviceptr at;

	MUST(cu.cuMemAlloc_v2(&at, bytes));
	MUST(cu.cuMemFree_v2(at));
}

int main(void)
{
	unsigned int pairs;
	uint64_t mib;
	char word[32];
	double begin;

	child_begin(300);
	MUST(cu.cuInit(0));
	child_context(0);
	printf("{\"stage\": \"ready\"}\n");
	while (child_told(word)) {
		if (sscanf(word, "%" SCNu64 " %u", &mib, &pairs) != 2 || !pairs)
			return 2;
		for (int i = 0; i < WARM; i++)
			pair(mib * MIB);
		begin = now_ns();
		for (unsigned int i = 0; i < pairs; i++)
			pair(mib * MIB);
		printf("{\"stage\": \"pairs\", \"ns\": %.1f}\n", (now_ns() - begin) / pairs);
	}
	return 0;
}
