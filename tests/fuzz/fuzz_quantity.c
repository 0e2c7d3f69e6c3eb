/* SPDX-License-Identifier: Apache-2.0 */
/* Quantities as Kubernetes writes them: what is read is the same when it is written as an integer. */
#include <inttypes.h>
#include <string.h>

#include "kube/wire/quantity.h"
#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint64_t whole = 7, again;
	uint32_t permille = 7;
	char text[96], printed[32];
	int r;

	if (size >= sizeof(text))
		return 0;
	memcpy(text, data, size);
	text[size] = 0;

	r = quantity_whole(text, &whole);
	MUST(r <= 0 && *quantity_why(r));
	if (r < 0) {
		MUST(whole == 7);
	} else {
		MUST(whole <= INT64_MAX);
		snprintf(printed, sizeof(printed), "%" PRIu64, whole);
		MUST(!quantity_whole(printed, &again) && again == whole);
		snprintf(printed, sizeof(printed), "%" PRIu64 "e0", whole);
		MUST(!quantity_whole(printed, &again) && again == whole);
	}
	r = quantity_permille(text, &permille);
	MUST(r < 0 ? permille == 7 : permille <= 1000);
	/* A whole number of percent is ten times as many permille. */
	if (whole != 7 && !r)
		MUST(permille == whole * 10);
	return 0;
}
