/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * The catalog of CRIU's plugin, as anybody may have written it: as it is, or, where the first byte is
 * odd, with its length and sum put right.
 */
#include <errno.h>
#include <string.h>

#include "criu/catalog.h"
#include "image/crc32c.h"
#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static char text[65536];
	struct catalog catalog;
	int r;

	if (!size || size > sizeof(text))
		return 0;
	memcpy(text, data + 1, --size);
	if (data[0] & 1 && size >= 44) {
		uint64_t bytes = size;
		uint32_t crc;

		memcpy(text + 16, &bytes, sizeof(bytes));
		crc = crc32c(0, text, size - sizeof(crc));
		memcpy(text + size - sizeof(crc), &crc, sizeof(crc));
	}
	r = catalog_unpack(text, size, &catalog, NULL);
	MUST(r == 0 || r == -EBADMSG || r == -ENODATA || r == -EPROTONOSUPPORT || r == -ENOMEM);
	if (r)
		return 0;
	for (uint32_t i = 0; i < catalog.n[CATALOG_BUFFERS] && i < 16; i++)
		MUST(catalog.buffers[i].owner == CATALOG_NONE
			     ? catalog.buffers[i].kfd_plus_one > 0
			     : catalog.holders[catalog.buffers[i].owner].buffer == i);
	catalog_done(&catalog);
	return 0;
}
