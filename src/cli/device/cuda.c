/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/device/cuda.h"

#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/parse.h"

/* On an H200 (bench/results). */
#define CONTEXT_BYTES (UINT64_C(520) << 20)

/* `allot sim --amd` has none. */
static bool cuda_is_simulated(void)
{
	char path[PATH_MAX], *rest, *dir;
	const char *dirs = getenv("LD_LIBRARY_PATH");
	char *copy = rest = strdup(dirs ? dirs : "");
	bool found = false;

	while (!found && (dir = strsep(&rest, ":;"))) {
		snprintf(path, sizeof(path), "%s/libcuda.so.1", dir);
		found = *dir && !access(path, F_OK);
	}
	free(copy);
	return found;
}

uint64_t cuda_context_bytes(void)
{
	const char *simulated = getenv("ALLOT_SIM_CONTEXT");
	uint64_t bytes = CONTEXT_BYTES;

	if (!getenv("ALLOT_SIM_DIR"))
		return access("/dev/nvidiactl", F_OK) ? 0 : bytes;
	if (!cuda_is_simulated())
		return 0;
	return simulated && parse_size(simulated, 0, &bytes) ? CONTEXT_BYTES : bytes;
}
