/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Each allocation family by each way in, and each accounting: fills to within one granule of the
 * quota and never beyond, by the simulator's own count.
 *
 *     families <liballot.so> <families_fill> <families_fill, linked> <driver> <versioned driver>
 *              [way [family]]
 */
#include "families_host.h"

#define QUOTA (200 * MIB + 700 * 1024)

static const char *const families[] = {
	"alloc-4k", "alloc-64k", "alloc-1m", "alloc-1.5m", "alloc", "alloc-v1", "pitch", "pitch-v1",
	"managed", "async", "async-big", "async-current", "async-ptsz", "from-pool",
	"from-pool-ptsz", "handle", "array-v1", "array", "array-3d-v1", "array-3d", "array-small",
	"mipmap", "sparse", "graph", "graph-upload", "graph-instantiate", "captured", "context",
	"context-v1", "context-v3", "context-v4", "green", "stack", "module", "module-ex",
	 "fatbin", "library",
};

static const char *const ways[] = {
	"soname", "link", "path", "version", "default", "next", "namespace", "proc-1", "proc-2",
	"proc-thread", "child", "thread", "constructor",
};

#define N(array) (sizeof(array) / sizeof((array)[0]))

static char **programs; /* see above */

/* Managed memory is in no figure of the driver's, so who trusts that alone cannot limit it. */
static bool meaningless(const char *family, uint32_t flags)
{
	return flags & POLICY_ACCOUNTING_DRIVER && !strcmp(family, "managed");
}

/* Answers whether it held. */
static bool fills(const char *way, const char *family, uint32_t flags)
{
	bool linked = !strcmp(way, "link") || !strcmp(way, "next");
	char label[96];
	char *argv[] = {programs[linked], (char *)(uintptr_t)way, (char *)(uintptr_t)family,
			programs[2], programs[3], NULL};
	uint64_t quota = QUOTA;
	struct tenant tenant;
	struct program program;
	int status;

	snprintf(label, sizeof(label), "%s by %s%s", family, way,
		 flags & POLICY_ACCOUNTING_DRIVER ? ", the driver's figure" : "");
	tenant_new(&tenant, "families", &quota, 1, flags);
	sim_truth_reset_peak(truth, 0);
	program_start(&program, &tenant, label, argv);
	status = program_finish(&program);
	if (status)
		fprintf(stderr, "%s: status %d\n", label, status);
	if (!host_clean(&tenant, label))
		status = 1;
	tenant_end(&tenant);
	return !status;
}

int main(int argc, char **argv)
{
	int failures = 0, runs = 0;

	if (argc < 6)
		return 2;
	programs = argv + 2;
	host_begin(argv[1], "1", "1GiB", "20MiB");
	for (size_t w = 0; w < N(ways); w++)
		for (size_t f = 0; f < N(families); f++) {
			if ((argc > 6 && strcmp(argv[6], ways[w])) ||
			    (argc > 7 && strcmp(argv[7], families[f])))
				continue;
			runs++;
			failures += !fills(ways[w], families[f], 0);
		}
	for (size_t f = 0; f < N(families); f++)
		if (!meaningless(families[f], POLICY_ACCOUNTING_DRIVER) &&
		    (argc <= 7 || !strcmp(argv[7], families[f]))) {
			runs++;
			failures += !fills("soname", families[f], POLICY_ACCOUNTING_DRIVER);
		}
	printf("%d runs, %d fail\n", runs, failures);
	return failures || !runs;
}
