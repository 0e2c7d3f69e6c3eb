/* SPDX-License-Identifier: Apache-2.0 */
#include "node/amd_gauge.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/fd.h"
#include "base/parse.h"

uint64_t amd_gauge(uint32_t render_minor, const char *file, uint64_t most, uint64_t unknown)
{
	char path[128], text[32];
	uint64_t value;

	snprintf(path, sizeof(path), "/sys/class/drm/renderD%" PRIu32 "/device/%s", render_minor,
		 file);
	if (fd_read_text(AT_FDCWD, path, text, sizeof(text)) < 0)
		return unknown;
	text[strcspn(text, "\n")] = '\0';
	return parse_u64(text, 0, most, &value) < 0 ? unknown : value;
}
