/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The memory that the simulated devices in ALLOT_SIM_DIR have given, as JSON, a line for each line
 * of input:
 * {"used": [N, ...], "peak": [N, ...], "uuid": ["GPU-...", ...]} by device. A line "reset" has the
 * peaks begin anew before that. Makes the devices if there are none.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "sim/truth.h"
#include "text/units.h"

static void figures(struct sim_truth *truth, const char *name,
		    uint64_t (*figure)(struct sim_truth *truth, int device))
{
	printf("\"%s\": [", name);
	for (int i = 0; i < sim_truth_devices(truth); i++)
		printf("%s%" PRIu64, i ? ", " : "", figure(truth, i));
	printf("]");
}

static void uuids(struct sim_truth *truth)
{
	uint8_t uuid[16];

	printf("\"uuid\": [");
	for (int i = 0; i < sim_truth_devices(truth); i++) {
		sim_truth_uuid(truth, i, uuid);
		printf("%s\"%s\"", i ? ", " : "", units_uuid(uuid).s);
	}
	printf("]");
}

int main(void)
{
	struct sim_truth *truth;
	char line[64];

	if (sim_truth_create(NULL, &truth))
		return 1;
	while (fgets(line, sizeof(line), stdin)) {
		if (!strcmp(line, "reset\n"))
			for (int i = 0; i < sim_truth_devices(truth); i++)
				sim_truth_reset_peak(truth, i);
		printf("{");
		figures(truth, "used", sim_truth_used);
		printf(", ");
		figures(truth, "peak", sim_truth_peak);
		printf(", ");
		uuids(truth);
		printf("}\n");
		fflush(stdout);
	}
	sim_truth_close(truth);
	return 0;
}
