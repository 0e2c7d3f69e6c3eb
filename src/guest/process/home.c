/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/process/home.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/container.h"
#include "base/fd.h"
#include "base/text.h"
#include "guest/process/lookup_elf.h"

#define RUN_MARK "/./"

/* Longer names than a tenant's directory may have (guest.h) lead to none. */
#define NAME_BYTES 320

/* More copies than a process has. */
#define COPIES 8

/*
 * Noted when the library is loaded: a child that was forked beside a thread that loads something
 * could not ask the loader. No copy is unloaded (-z nodelete), so the names stay.
 */
static struct copy {
	const char *name;
	uint64_t first, end; /* of the mapping that its file begins with */
} copies[COPIES];
static int ncopies;

/* An object of the process that is the library, by the name that it has in itself. */
static bool home_is_copy(const struct dl_phdr_info *info)
{
	const ElfW(Dyn) *dynamic = lookup_elf_dynamic(info);
	const char *soname = dynamic ? lookup_elf_soname(info->dlpi_addr, dynamic) : NULL;

	return soname && text_same(soname, "liballot.so");
}

/* The first part of an object is a mapping of its own, as its rights are not those of the next. */
static int home_note_copy(struct dl_phdr_info *info, size_t size, void *arg)
{
	uint64_t page_bytes = (uint64_t)sysconf(_SC_PAGESIZE), at;
	const ElfW(Phdr) *part = info->dlpi_phdr, *end = part + info->dlpi_phnum;

	if (!home_is_copy(info) || ncopies == COPIES)
		return 0;
	while (part < end && part->p_type != PT_LOAD)
		part++;
	if (part == end)
		return 0;
	at = info->dlpi_addr + part->p_vaddr;
	copies[ncopies++] = (struct copy){
		.name = info->dlpi_name,
		.first = at & -page_bytes,
		.end = (at + part->p_filesz + page_bytes - 1) & -page_bytes,
	};
	return 0;
}

/* Other constructors, which run before, may ask for the answers. */
__attribute__((constructor)) static void home_note_copies(void)
{
	if (!ncopies)
		dl_iterate_phdr(home_note_copy, NULL);
}

/* The loader knows a file by the first name alone, and LD_PRELOAD comes before this list. */
static bool home_is_listed(void)
{
	char list[256];
	int saved = errno;
	bool found = fd_read_text(AT_FDCWD, CONTAINER_PRELOAD, list, sizeof(list)) > 0 &&
		     strstr(list, RUN_MARK "liballot.so");

	errno = saved;
	return found;
}

const char *home_run_name(void)
{
	home_note_copies();
	for (int i = 0; i < ncopies; i++)
		if (strstr(copies[i].name, RUN_MARK))
			return copies[i].name;
	return NULL;
}

bool home_is_run(void)
{
	return home_run_name() || home_is_listed();
}

/*
 * The name of the file that is mapped, which a link, and a relative name in another directory, are
 * not. 0 or -errno.
 */
static int home_mapped_file(const struct copy *copy, char ret[static NAME_BYTES])
{
	char link[80];
	ssize_t n;

	snprintf(link, sizeof(link), "/proc/self/map_files/%" PRIx64 "-%" PRIx64, copy->first,
		 copy->end);
	n = readlink(link, ret, NAME_BYTES);
	if (n < 0 || n == NAME_BYTES)
		return n < 0 ? -errno : -ENAMETOOLONG;
	ret[n] = '\0';
	return 0;
}

/*
 * True for a directory of that name with a policy in it. A directory that we may not enter counts:
 * it is refused later. Needs no descriptor, of which a program may have none left.
 */
static bool home_is_tenant(const char *dir)
{
	char policy[NAME_BYTES];
	struct stat st;

	if (lstat(dir, &st) < 0 || !S_ISDIR(st.st_mode))
		return false;
	if (snprintf(policy, sizeof(policy), "%s/policy", dir) >= (int)sizeof(policy))
		return false;
	return !lstat(policy, &st) || errno != ENOENT;
}

static bool home_is_beside(const struct copy *copy, char *ret, size_t len)
{
	char file[NAME_BYTES];
	const char *path = home_mapped_file(copy, file) < 0 ? copy->name : file;
	int n = (int)(text_file_name(path) - path);

	return (size_t)snprintf(ret, len, "%.*stenant", n, path) < len && home_is_tenant(ret);
}

bool home_find_tenant(char *ret, size_t len)
{
	if ((size_t)snprintf(ret, len, CONTAINER_TENANT) < len && home_is_tenant(ret))
		return true;
	home_note_copies();
	for (int i = 0; i < ncopies; i++)
		if (home_is_beside(&copies[i], ret, len))
			return true;
	return false;
}
