/* SPDX-License-Identifier: Apache-2.0 */
/* Limits in the environment as other systems give them: lines of the input are its variables. */
#include <string.h>

#include "dropin/variables.h"
#include "tests/fuzz/fuzz.h"

#define MOST_LINES 16

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const uint8_t uuid[16] = {0x6b, 0x2d, 0x11, 0x9c};
	char text[1024], *environment[MOST_LINES + 1];
	struct config config = {0};
	char *save = NULL, *line;
	int n = 0;

	if (size >= sizeof(text))
		return 0;
	memcpy(text, data, size);
	text[size] = 0;
	for (line = strtok_r(text, "\n", &save); line && n < MOST_LINES;
	     line = strtok_r(NULL, "\n", &save))
		environment[n++] = line;
	environment[n] = NULL;

	if (variables_read(&config, environment) < 0) {
		MUST(config.complaint[0]);
		MUST(memchr(config.complaint, 0, sizeof(config.complaint)));
	} else {
		MUST(memchr(config.tenant, 0, sizeof(config.tenant)));
		MUST(config_compute(&config) < POLICY_COMPUTES);
		for (unsigned int i = 0; i < POLICY_DEVICES + 1; i++) {
			struct size_spec limit = config_limit(&config, i, UINT64_C(1) << 36);

			MUST(!limit.bytes != !limit.permille);
			MUST(config_share_permille(&config, i) < 1000);
			MUST(!config_share_permille(&config, i) || config.present);
		}
	}
	for (int i = 0; i < n; i++) {
		int ordinal = config_ordinal(environment[i], 3, uuid);

		MUST(ordinal >= -1);
	}
	return 0;
}
