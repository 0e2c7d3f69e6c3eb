/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program that uses ROCm's runtime, as it is installed: it copies from the host to one GPU, to the
 * other and back, and looks at each word, until it reads a line; then once more at what it had put
 * on the GPUs before. Skipped where there is no such library.
 */
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "tests/sim/hsa.h"

static void fill(uint32_t *to, uint32_t seed)
{
	for (uint64_t i = 0; i < SIZE / sizeof(*to); i++)
		to[i] = seed + (uint32_t)i * 2654435761u;
}

static void look(const uint32_t *at, uint32_t seed)
{
	for (uint64_t i = 0; i < SIZE / sizeof(*at); i++)
		CHECK_EQ(at[i], seed + (uint32_t)i * 2654435761u);
}

static bool is_told(void)
{
	struct pollfd in = {.fd = 0, .events = POLLIN};

	return poll(&in, 1, 0) > 0;
}

int main(void)
{
	uint32_t *in, *out, round;
	void *one, *two, *before[2];

	prctl(PR_SET_PDEATHSIG, SIGKILL); /* `allot sim` is its parent */
	load();
	CHECK_EQ(hsa.init(), 0);
	find_machine();
	in = allocate(0);
	out = allocate(0);
	one = allocate(1);
	two = allocate(2);
	for (int i = 0; i < 2; i++) {
		before[i] = allocate(1 + i);
		fill(in, 1000u + (uint32_t)i);
		copy(before[i], 1 + i, in, 0);
	}
	printf("ready\n");
	fflush(stdout);
	for (round = 0; !is_told() || round < 3; round++) {
		fill(in, round);
		copy(one, 1, in, 0);
		copy(two, 2, one, 1);
		memset(out, 0, SIZE);
		copy(out, 0, two, 2);
		look(out, round);
	}
	for (int i = 0; i < 2; i++) {
		copy(out, 0, before[i], 1 + i);
		look(out, 1000u + (uint32_t)i);
	}
	CHECK_EQ(hsa.amd_memory_pool_free(one), 0);
	one = allocate(1);
	copy(one, 1, in, 0);
	printf("good\n");
	fflush(stdout);
	_exit(0);
}
