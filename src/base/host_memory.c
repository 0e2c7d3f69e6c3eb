/* SPDX-License-Identifier: Apache-2.0 */
#include "base/host_memory.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/fd.h"
#include "base/number.h"

#define MOUNT "/sys/fs/cgroup"
#define CGROUP_BYTES 512

static bool host_memory_line(const char *name, uint64_t *ret_bytes)
{
	char text[4096], *line;
	uint64_t kib = 0;

	if (fd_read_text(AT_FDCWD, "/proc/meminfo", text, sizeof(text)) < 0)
		return false;
	line = strstr(text, name);
	if (!line || sscanf(line + strlen(name), " %" SCNu64, &kib) != 1)
		return false;
	*ret_bytes = kib << 10;
	return true;
}

uint64_t host_memory_total(void)
{
	uint64_t bytes;

	return host_memory_line("MemTotal:", &bytes) ? bytes : 0;
}

bool host_memory_tell_room(uint64_t *ret_bytes)
{
	uint64_t available;

	if (!host_memory_line("MemAvailable:", &available))
		return false;
	*ret_bytes = available - available / 10;
	return true;
}

uint64_t host_memory_room(void)
{
	uint64_t room;

	return host_memory_tell_room(&room) ? room : 0;
}

/* A number in a cgroup's file, behind a word if there is one; `none` where there is no such. */
static uint64_t host_memory_figure(const char *group, const char *file, const char *word, uint64_t none)
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

static uint64_t host_memory_group_room(const char *group)
{
	static const char *const taken_back[] = {"\ninactive_file ", "\nactive_file ",
						 "\nslab_reclaimable "};
	uint64_t most = host_memory_figure(group, "memory.max", NULL, UINT64_MAX);
	uint64_t used = host_memory_figure(group, "memory.current", NULL, 0);

	if (most == UINT64_MAX)
		return most;
	for (size_t i = 0; i < sizeof(taken_back) / sizeof(taken_back[0]); i++)
		used -= min_u64(host_memory_figure(group, "memory.stat", taken_back[i], 0), used);
	return used < most ? most - used : 0;
}

/* The path of a process's cgroup, in `text`; "": the root. NULL: it is not to be seen. */
static char *host_memory_group_of(const char *process, char text[static CGROUP_BYTES])
{
	char path[64], *group;

	snprintf(path, sizeof(path), "/proc/%s/cgroup", process);
	if (fd_read_text(AT_FDCWD, path, text, CGROUP_BYTES) < 0)
		return NULL;
	group = strstr(text, "0::/");
	if (!group)
		return NULL;
	group += strlen("0::");
	group[strcspn(group, "\n")] = 0;
	return group[1] ? group : group + 1;
}

bool host_memory_group_has(const char *group, pid_t pid)
{
	char text[CGROUP_BYTES], process[16], *of;
	size_t len = strlen(group);

	snprintf(process, sizeof(process), "%ld", (long)pid);
	of = host_memory_group_of(process, text);
	return of && !strncmp(of, group, len) && (!of[len] || of[len] == '/');
}

uint64_t host_memory_share(host_memory_share_fn *share, void *arg)
{
	char text[CGROUP_BYTES], *group = host_memory_group_of("self", text), *slash;
	uint64_t room = UINT64_MAX;

	if (!group)
		return room;
	/* From the own one up to the root, which has no such files. */
	do {
		uint64_t of = host_memory_group_room(group);

		if (of != UINT64_MAX) {
			of -= of / 10;
			room = min_u64(room, share ? share(group, of, arg) : of);
		}
		slash = strrchr(group, '/');
		if (slash)
			*slash = 0;
	} while (slash);
	return room;
}

uint64_t host_memory_cgroup_room(void)
{
	return host_memory_share(NULL, NULL);
}

uint64_t host_memory_own_room(void)
{
	return min_u64(host_memory_room(), host_memory_cgroup_room());
}
