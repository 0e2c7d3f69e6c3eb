/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The list of a checkpoint's files, as anybody may have written it: as it is, or, where the first byte
 * is odd, with its sum put right. What it names lies in the checkpoint.
 */
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "image/crc32c.h"
#include "image/parts.h"
#include "tests/fuzz/fuzz.h"

static int look(const char *name, uint64_t bytes, uint32_t crc, void *arg)
{
	(void)bytes, (void)crc, (void)arg;
	MUST(!strcmp(name, PARTS_LEDGER) || !strncmp(name, PARTS_CRIU "/", 5));
	MUST(!strstr(name, "/.."));
	return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static char text[65536];
	struct damage damage = {.text = ""};
	struct parts parts;
	bool seal = size && data[0] & 1;
	int r;

	if (!size || size > sizeof(text) - 16)
		return 0;
	memcpy(text, data + 1, --size);
	if (seal)
		size += (size_t)snprintf(text + size, 16, "end %08x\n", crc32c(0, text, size));
	r = parts_parse(text, size, look, NULL, &parts, &damage);
	MUST(r == 0 || r == -EBADMSG || r == -ENODATA || r == -EPROTONOSUPPORT);
	MUST(!r == !damage.text[0]);
	if (!r)
		MUST(parts.tenant_dir[0] == '/' && parts.ntrees && parts.ntrees <= PARTS_TREES);
	return 0;
}
