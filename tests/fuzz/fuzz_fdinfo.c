/* SPDX-License-Identifier: Apache-2.0 */
/* What the kernel says of an open render node. */
#include <errno.h>
#include <string.h>

#include "guard/fdinfo.h"
#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fdinfo info;
	char text[4096];
	int r;

	size = size < sizeof(text) - 1 ? size : sizeof(text) - 1;
	memcpy(text, data, size);
	text[size] = '\0';
	r = fdinfo_parse(text, &info);
	MUST(r == 0 || r == -ENODATA);
	if (r == 0)
		MUST(*info.pci && strlen(info.pci) < sizeof(info.pci) &&
		     info.vram_bytes <= UINT64_C(1) << 56);
	return 0;
}
