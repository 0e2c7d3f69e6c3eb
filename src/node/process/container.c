/* SPDX-License-Identifier: Apache-2.0 */
#include "node/process/container.h"

#include <ctype.h>
#include <fcntl.h>
#include <stdio.h>

#include "base/fd.h"

#define DIGITS (CONTAINER_BYTES - 1)

/*
 * Finds a name of 64 hexadecimal digits in the path of the cgroup: all container engines use that.
 */
void container_of_cgroup(const char *text, char ret[static CONTAINER_BYTES])
{
	size_t digits = 0;

	ret[0] = 0;
	for (const char *c = text; *c; c++) {
		digits = isxdigit((unsigned char)*c) ? digits + 1 : 0;
		if (digits == DIGITS && !isxdigit((unsigned char)c[1]))
			snprintf(ret, CONTAINER_BYTES, "%.*s", DIGITS, c - (DIGITS - 1));
	}
}

void container_of_process(pid_t pid, char ret[static CONTAINER_BYTES])
{
	char path[64], text[4096];
	ssize_t n;

	snprintf(path, sizeof(path), "/proc/%d/cgroup", pid);
	n = fd_read_text(AT_FDCWD, path, text, sizeof(text));
	container_of_cgroup(n > 0 ? text : "", ret);
}
