/* SPDX-License-Identifier: Apache-2.0 */
#include "guard/fdinfo.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/fd.h"

/* Open files that are told apart; of more one that is open twice counts twice. */
#define CLIENTS 256

/* What follows "<key>:" and blanks at a line's beginning; NULL. */
static const char *fdinfo_value_of(const char *text, const char *key)
{
	size_t n = strlen(key);

	while (text) {
		if (!strncmp(text, key, n) && text[n] == ':')
			return text + n + 1 + strspn(text + n + 1, " \t");
		text = strchr(text, '\n');
		text = text ? text + 1 : NULL;
	}
	return NULL;
}

/* Decimal, and where it ends; what is none ends where it begins. */
static uint64_t fdinfo_number_at(const char *text, const char **ret_end)
{
	char *end = (char *)text;
	uint64_t n = *text >= '0' && *text <= '9' ? strtoull(text, &end, 10) : 0;

	*ret_end = end;
	return n;
}

/* "0", "4096", "12 KiB", "3 MiB" */
static int fdinfo_bytes_of(const char *value, uint64_t *ret_bytes)
{
	static const struct {
		const char *unit;
		uint64_t bytes;
	} units[] = {{"\n", 1}, {" KiB\n", 1 << 10}, {" MiB\n", 1 << 20}, {" GiB\n", 1 << 30}};
	const char *end;
	uint64_t n;

	if (!value)
		return -ENODATA;
	n = fdinfo_number_at(value, &end);
	if (end == value)
		return -ENODATA;
	for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
		if (strncmp(end, units[i].unit, strlen(units[i].unit)) != 0)
			continue;
		if (n > (UINT64_C(1) << 56) / units[i].bytes)
			return -ENODATA;
		*ret_bytes = n * units[i].bytes;
		return 0;
	}
	return -ENODATA;
}

int fdinfo_parse(const char *text, struct fdinfo *ret)
{
	const char *driver = fdinfo_value_of(text, "drm-driver"),
		   *pci = fdinfo_value_of(text, "drm-pdev");
	const char *client = fdinfo_value_of(text, "drm-client-id"), *end = client;
	struct fdinfo info = {.pci = ""};
	size_t n = pci ? strcspn(pci, "\n") : 0;
	int r;

	if (client)
		info.client = fdinfo_number_at(client, &end);
	if (!driver || strncmp(driver, "amdgpu\n", 7) != 0 || !n || n >= sizeof(info.pci) ||
	    end == client)
		return -ENODATA;
	memcpy(info.pci, pci, n);
	/* Newer kernels tell what was made there, older ones only what of it is in VRAM now. */
	r = fdinfo_bytes_of(fdinfo_value_of(text, "drm-total-vram"), &info.vram_bytes);
	if (r < 0)
		r = fdinfo_bytes_of(fdinfo_value_of(text, "drm-memory-vram"), &info.vram_bytes);
	if (r == 0)
		*ret = info;
	return r;
}

static void fdinfo_close_dir(DIR **dir)
{
	if (*dir)
		closedir(*dir);
}

struct sum {
	uint64_t bytes;
	uint64_t clients[CLIENTS];
	uint32_t nclients;
};

static void fdinfo_add_file(struct sum *sum, const struct fdinfo *info)
{
	for (uint32_t i = 0; i < sum->nclients; i++)
		if (sum->clients[i] == info->client)
			return;
	if (sum->nclients < CLIENTS)
		sum->clients[sum->nclients++] = info->client;
	sum->bytes += info->vram_bytes;
}

/* Adds one descriptor's file, by its name in the folder, if it is of that GPU; NULL: of any. */
static void fdinfo_add_descriptor(struct sum *sum, int dir, const char *name, const char *pci)
{
	struct fdinfo info;
	char text[4096];

	if (fd_read_text(dir, name, text, sizeof(text)) > 0 && fdinfo_parse(text, &info) == 0 &&
	    (!pci || !strcmp(info.pci, pci)))
		fdinfo_add_file(sum, &info);
}

static void fdinfo_add_kept(struct sum *sum, const int *kept, uint32_t nkept, const char *pci)
{
	char path[64];

	for (uint32_t i = 0; i < nkept; i++) {
		snprintf(path, sizeof(path), "/proc/thread-self/fdinfo/%d", kept[i]);
		fdinfo_add_descriptor(sum, AT_FDCWD, path, pci);
	}
}

/* Adds what one thread lists. How many descriptors that are, or -errno. */
static int fdinfo_add_listed(pid_t process, const char *thread, const char *pci, struct sum *sum)
{
	CLEANUP(fdinfo_close_dir) DIR *dir = NULL;
	struct dirent *entry;
	char path[64];
	int n = 0;

	snprintf(path, sizeof(path), "/proc/%d/task/%.16s/fdinfo", process, thread);
	dir = opendir(path);
	if (!dir)
		return err_errno();
	while ((entry = readdir(dir))) {
		if (entry->d_name[0] == '.')
			continue;
		n++;
		fdinfo_add_descriptor(sum, dirfd(dir), entry->d_name, pci);
	}
	return n;
}

/*
 * By the first thread that lists any: they have them together, but of one that has ended, as the
 * main thread may have long before its process, nothing is listed.
 */
static int fdinfo_add_process(pid_t process, const char *pci, struct sum *sum)
{
	CLEANUP(fdinfo_close_dir) DIR *threads = NULL;
	struct dirent *entry;
	char path[64];
	int n = 0;

	snprintf(path, sizeof(path), "/proc/%d/task", process);
	threads = opendir(path);
	if (!threads)
		return err_errno();
	while (n == 0 && (entry = readdir(threads)))
		if (entry->d_name[0] != '.') {
			n = fdinfo_add_listed(process, entry->d_name, pci, sum);
			if (n == -ENOENT || n == -ESRCH) /* it has just ended */
				n = 0;
		}
	return n < 0 ? n : 0;
}

int fdinfo_read(pid_t process, const int *kept, uint32_t nkept, const char *pci,
		uint64_t *ret_bytes)
{
	struct sum sum = {.bytes = 0};
	int r = fdinfo_add_process(process, pci, &sum);

	if (r < 0)
		return r;
	fdinfo_add_kept(&sum, kept, nkept, pci);
	*ret_bytes = sum.bytes;
	return 0;
}

bool fdinfo_is_any(pid_t process)
{
	struct sum sum = {.bytes = 0};

	return !fdinfo_add_process(process, NULL, &sum) && sum.nclients;
}
