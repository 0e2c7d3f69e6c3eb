/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The stories of families_steps.h, each in a tenant of its own.
 *
 *     families_told <liballot.so> <families_steps> [n]
 */
#include "families_host.h"

int main(int argc, char **argv)
{
	uint64_t quota = 200 * MIB + 700 * 1024;
	int failures = 0, n, status;

	if (argc < 3)
		return 2;
	host_begin(argv[1], "1", "1GiB", "20MiB");
	for (n = argc > 3 ? atoi(argv[3]) : 0;; n++) {
		char number[16], label[32];
		char *args[] = {argv[2], number, NULL};
		struct program program;
		struct tenant tenant;

		snprintf(number, sizeof(number), "%d", n);
		snprintf(label, sizeof(label), "story %d", n);
		tenant_new(&tenant, "stories", &quota, 1, 0);
		sim_truth_reset_peak(truth, 0);
		program_start(&program, &tenant, label, args);
		status = program_finish(&program);
		if (status && status != 99)
			fprintf(stderr, "%s: status %d\n", label, status);
		failures += (status && status != 99) || !host_clean(&tenant, label);
		tenant_end(&tenant);
		if (status == 99 || argc > 3)
			break;
	}
	printf("%d stories, %d fail\n", n, failures);
	return failures || !n;
}
