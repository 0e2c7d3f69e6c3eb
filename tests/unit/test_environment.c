/* SPDX-License-Identifier: Apache-2.0 */
/* However many variables begin like ours, none that limits is passed over. */
#include "guest/process/environment.h"

#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include "tests/check.h"

#define MOST 600

static char words[MOST][48], *block[MOST + 2];

/* This program anew, with so many others before the one that counts. */
static void begin(const char *program, int others)
{
	char *const args[] = {(char *)(uintptr_t)program, words[MOST - 1], NULL};

	for (int i = 0; i < others; i++) {
		snprintf(words[i], sizeof(words[i]), "CUDA_DEVICE_MEMORY_LIMIT_OTHER_%d=1", i);
		block[i] = words[i];
	}
	block[others] = (char *)(uintptr_t)"CUDA_DEVICE_MEMORY_LIMIT=1g";
	snprintf(words[MOST - 1], sizeof(words[0]), "%d", others);
	execve(program, args, block);
	CHECK(!"execve");
}

int main(int argc, char **argv)
{
	static const int others[] = {0, 100, 255, 256, 257, 500};
	size_t next = 0;

	if (argc > 1) {
		const char *limit = environment_get("CUDA_DEVICE_MEMORY_LIMIT");

		CHECK(limit && !strcmp(limit, "1g"));
		while (others[next] != atoi(argv[1]))
			next++;
		if (++next == sizeof(others) / sizeof(others[0]))
			return 0;
	}
	begin(argv[0], others[next]);
	return 1;
}
