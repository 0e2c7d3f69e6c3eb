/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
#include "criu/noted.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/err.h"

/* Of writable data of libraries and programs, in pages: some have much, and a process may lie. */
#define PAGES_MOST 65536

static int noted_copy(int memory, uint64_t at, void *to, size_t len)
{
	for (size_t done = 0; done < len;) {
		ssize_t n = pread(memory, (char *)to + done, len - done, (off_t)(at + done));

		if (n <= 0)
			return n ? err_errno() : -EFAULT;
		done += (size_t)n;
	}
	return 0;
}

/* The pid as the process itself knows it, which is the last of the line. */
static int64_t noted_own_pid(pid_t pid)
{
	char path[64], line[256];
	const char *last;
	int64_t own = -ESRCH;
	FILE *status;

	snprintf(path, sizeof(path), "/proc/%ld/status", (long)pid);
	status = fopen(path, "re");
	while (status && fgets(line, sizeof(line), status)) {
		if (strncmp(line, "NSpid:", 6))
			continue;
		last = strrchr(line, '\t');
		own = last ? strtol(last + 1, NULL, 10) : -EPROTO;
	}
	if (status)
		fclose(status);
	return own;
}

/* Looks for the note at the beginnings of these pages. Returns its address, or 0. */
static uint64_t noted_find_in(int memory, uint64_t from, uint64_t end, uint32_t *pages)
{
	struct amd_addresses_at at;

	for (; from < end && *pages < PAGES_MOST; from += AMD_ADDRESSES_PAGE, ++*pages)
		if (noted_copy(memory, from, &at, sizeof(at)) == 0 &&
		    at.magic[0] == AMD_ADDRESSES_MAGIC_FIRST &&
		    at.magic[1] == AMD_ADDRESSES_MAGIC_SECOND && at.addresses_at)
			return at.addresses_at;
	return 0;
}

/* Looks in private, writable mappings of files: a library's data. */
static uint64_t noted_find(pid_t pid, int memory)
{
	uint64_t from, end, found = 0;
	char path[64], line[4096], access[5];
	unsigned long inode;
	uint32_t pages = 0;
	FILE *maps;

	snprintf(path, sizeof(path), "/proc/%ld/maps", (long)pid);
	maps = fopen(path, "re");
	while (maps && !found && fgets(line, sizeof(line), maps))
		if (sscanf(line, "%lx-%lx %4s %*x %*x:%*x %lu", &from, &end, access, &inode) == 4 &&
		    inode && !strncmp(access, "rw-p", 4))
			found = noted_find_in(memory, from, end, &pages);
	if (maps)
		fclose(maps);
	return found;
}

/* --- The list ---------------------------------------------------------------------------------- */

static bool noted_is_sane(const struct amd_address *a)
{
	uint64_t all = a->at | a->bytes | a->offset;

	return a->handle && a->bytes && !(all % AMD_ADDRESSES_PAGE) && !(all & ~AMD_ADDRESSES_MASK) &&
	       a->at + a->bytes <= AMD_ADDRESSES_MASK + 1;
}

/* Of one file, to the front. How many, or -EPROTO. */
static int noted_keep(struct amd_address *list, uint32_t n, uint64_t file)
{
	int kept = 0;

	for (uint32_t i = 0; i < n; i++) {
		if (list[i].file != file)
			continue;
		if (!noted_is_sane(&list[i]))
			return -EPROTO;
		list[kept++] = list[i];
	}
	return kept;
}

static int noted_read_list(int memory, uint64_t at, uint64_t file, struct amd_address **ret,
			   uint32_t *ret_n)
{
	CLEANUP_FREE struct amd_address *list = NULL;
	struct amd_addresses is, then;
	int r = noted_copy(memory, at, &is, sizeof(is));

	if (r < 0)
		return r;
	if (is.lost || is.changing % 2)
		return is.lost ? -EOVERFLOW : -EAGAIN;
	if (is.n > AMD_ADDRESSES_MOST)
		return -EPROTO;
	list = calloc(is.n + 1, sizeof(*list));
	if (!list)
		return -ENOMEM;
	r = noted_copy(memory, is.list_at, list, is.n * sizeof(*list));
	if (r == 0)
		r = noted_copy(memory, at, &then, sizeof(then));
	if (r == 0 && then.changing != is.changing)
		r = -EAGAIN;
	if (r == 0)
		r = noted_keep(list, is.n, file);
	if (r < 0)
		return r;
	*ret_n = (uint32_t)r;
	*ret = TAKE_PTR(list);
	return 0;
}

int noted_read(int fd, struct amd_address **ret, uint32_t *ret_n)
{
	int number = fcntl(fd, F_GETSIG);
	pid_t pid = fcntl(fd, F_GETOWN);
	CLEANUP_CLOSE int memory = -EBADF;
	char path[64];
	uint64_t at;
	int64_t own;

	*ret = NULL;
	*ret_n = 0;
	if (pid <= 0 || number <= 0 || number >= AMD_ADDRESSES_NUMBER_LAST)
		return 0;
	own = noted_own_pid(pid);
	if (own < 0)
		return (int)own;
	snprintf(path, sizeof(path), "/proc/%ld/mem", (long)pid);
	memory = open(path, O_RDONLY | O_CLOEXEC);
	if (memory < 0)
		return err_errno();
	at = noted_find(pid, memory);
	return at ? noted_read_list(memory, at, amd_addresses_file(own, number), ret, ret_n) : 0;
}
