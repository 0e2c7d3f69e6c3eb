/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "base/dir.h"
#include "base/fd.h"
#include "base/parse.h"
#include "base/pidns.h"

uint64_t pidns_self(void)
{
	struct stat st;

	return stat("/proc/self/ns/pid", &st) == 0 ? st.st_ino : 0;
}

/* Last word of the NSpid line: the pid in the innermost namespace; 0 where there is none. */
static uint32_t pidns_innermost_pid(int proc, uint32_t host_pid)
{
	char path[64], text[4096], *line, *end, *word;
	uint64_t pid;

	snprintf(path, sizeof(path), "%" PRIu32 "/status", host_pid);
	if (fd_read_text(proc, path, text, sizeof(text)) < 0)
		return 0;
	/* The program's own name, in the first line, cannot contain a newline (it is escaped). */
	line = strstr(text, "\nNSpid:");
	if (!line)
		return 0;
	line++;
	end = strchr(line, '\n');
	if (end)
		*end = '\0';
	word = strrchr(line, '\t');
	if (!word || parse_u64(word + 1, 1, UINT32_MAX, &pid) < 0)
		return 0;
	return (uint32_t)pid;
}

void pidns_translate(struct pidns_query *queries, size_t n)
{
	CLEANUP_DIR DIR *dir = NULL;
	uint64_t self = pidns_self();
	size_t open = 0;
	int host_pid;

	for (size_t i = 0; i < n; i++) {
		queries[i].host_pid = 0;
		if (queries[i].pidns && queries[i].pidns == self)
			queries[i].host_pid = queries[i].pid;
		else if (queries[i].pidns)
			open++;
	}
	if (!open)
		return;
	dir = opendir("/proc");
	while (open && (host_pid = dir_next_number(dir)) >= 0) {
		char path[64];
		uint32_t inner = 0;
		struct stat st;

		snprintf(path, sizeof(path), "%d/ns/pid", host_pid);
		if (fstatat(dirfd(dir), path, &st, 0) < 0 || st.st_ino == self)
			continue;
		for (size_t i = 0; i < n; i++) {
			if (queries[i].host_pid || queries[i].pidns != st.st_ino)
				continue;
			if (!inner)
				inner = pidns_innermost_pid(dirfd(dir), (uint32_t)host_pid);
			if (!inner || inner != queries[i].pid)
				continue;
			queries[i].host_pid = (uint32_t)host_pid;
			open--;
		}
	}
}
