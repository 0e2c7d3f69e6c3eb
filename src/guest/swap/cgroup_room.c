/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/swap/cgroup_room.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/fd.h"
#include "base/host_memory.h"
#include "base/number.h"

#define MOUNT "/sys/fs/cgroup"

/* A number in a cgroup's file, behind a word if there is one; `none` where there is no such. */
static uint64_t cgroup_figure(const char *group, const char *file, const char *word, uint64_t none)
{
	char path[512], text[4096];
	const char *at = text;
	uint64_t figure;

	snprintf(path, sizeof(path), MOUNT "%s/%s", group, file);
	if (fd_read_text(AT_FDCWD, path, text, sizeof(text)) < 0)
		return none;
	if (word)
		at = strstr(text, word);
	return at && sscanf(at + (word ? strlen(word) : 0), "%" SCNu64, &figure) == 1 ? figure : none;
}

static uint64_t cgroup_room_of(const char *group)
{
	uint64_t most = cgroup_figure(group, "memory.max", NULL, UINT64_MAX);
	uint64_t used = cgroup_figure(group, "memory.current", NULL, 0);
	uint64_t cached = cgroup_figure(group, "memory.stat", "\ninactive_file ", 0);

	if (most == UINT64_MAX)
		return most;
	used -= cached < used ? cached : used;
	return used < most ? most - used : 0;
}

uint64_t cgroup_room(void)
{
	char text[512], *group = NULL, *slash;
	uint64_t room = UINT64_MAX;

	if (fd_read_text(AT_FDCWD, "/proc/self/cgroup", text, sizeof(text)) >= 0)
		group = strstr(text, "0::/");
	if (!group)
		return room;
	group += strlen("0::");
	group[strcspn(group, "\n")] = 0;
	/* From the own one up to the root, which has no such files. */
	do {
		uint64_t of = cgroup_room_of(group);

		room = of < room ? of : room;
		slash = strrchr(group, '/');
		if (slash)
			*slash = 0;
	} while (slash);
	return room == UINT64_MAX ? room : room - room / 10;
}

uint64_t cgroup_host_room(void)
{
	return min_u64(host_memory_room(), cgroup_room());
}
