/* SPDX-License-Identifier: Apache-2.0 */
/* The text of a vgpu.config. */
#include <string.h>

#include "dropin/vgpu_file.h"
#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct config config = {0};

	if (vgpu_file_parse(&config, (const char *)data, size) < 0) {
		MUST(config.complaint[0]);
		MUST(memchr(config.complaint, 0, sizeof(config.complaint)));
		return 0;
	}
	/* What is not an error limits, or says that it does not. */
	MUST(config_is_by_file(&config) || !*config.remark);
	MUST(memchr(config.remark, 0, sizeof(config.remark)));
	MUST(config_compute(&config) < POLICY_COMPUTES);
	for (unsigned int i = 0; i < POLICY_DEVICES; i++) {
		struct size_spec limit = config_limit(&config, i, UINT64_C(1) << 36);

		MUST(!limit.bytes != !limit.permille);
		MUST(config_share_permille(&config, i) < 1000);
	}
	return 0;
}
