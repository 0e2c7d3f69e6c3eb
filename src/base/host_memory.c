/* SPDX-License-Identifier: Apache-2.0 */
#include "base/host_memory.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/fd.h"

static uint64_t host_memory_line(const char *name)
{
	char text[4096], *line;
	uint64_t kib = 0;

	if (fd_read_text(AT_FDCWD, "/proc/meminfo", text, sizeof(text)) < 0)
		return 0;
	line = strstr(text, name);
	if (!line || sscanf(line + strlen(name), " %" SCNu64, &kib) != 1)
		return 0;
	return kib << 10;
}

uint64_t host_memory_total(void)
{
	return host_memory_line("MemTotal:");
}

uint64_t host_memory_room(void)
{
	uint64_t available = host_memory_line("MemAvailable:");

	return available - available / 10;
}
