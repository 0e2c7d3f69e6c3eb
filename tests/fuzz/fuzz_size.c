/* SPDX-License-Identifier: Apache-2.0 */
/* Amounts as people write them. */
#include <inttypes.h>
#include <string.h>

#include "base/parse.h"
#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct size_spec spec = {7, 7};
	uint64_t bytes = 7, again, us = 7;
	uint32_t permille = 7;
	char text[64], printed[32];
	int r;

	if (size >= sizeof(text))
		return 0;
	memcpy(text, data, size);
	text[size] = 0;

	r = parse_size_spec(text, &spec);
	if (r < 0) {
		MUST(spec.bytes == 7 && spec.permille == 7);
	} else {
		MUST(!spec.bytes != !spec.permille);
		MUST(spec.bytes <= SIZE_MAX_BYTES && spec.permille <= 1000);
		MUST(strchr("0123456789", text[0] == '.' ? text[1] : text[0]));
	}
	r = parse_permille(text, &permille);
	MUST(r < 0 ? permille == 7 : permille >= 1 && permille <= 1000);
	r = parse_duration_us(text, 1000, &us);
	MUST(r < 0 ? us == 7 : us >= 1 && us <= 1000);
	for (uint64_t device = 0; device < UINT64_C(1) << 50; device = device * 1000 + 1) {
		r = parse_size(text, device, &bytes);
		if (r < 0)
			continue;
		MUST(bytes > 0 && bytes <= SIZE_MAX_BYTES);
		MUST(!spec.permille || bytes <= device);
		snprintf(printed, sizeof(printed), "%" PRIu64, bytes);
		MUST(parse_size(printed, 0, &again) == 0 && again == bytes);
	}
	return 0;
}
