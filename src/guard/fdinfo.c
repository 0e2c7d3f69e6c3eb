/* SPDX-License-Identifier: Apache-2.0 */
#include "guard/fdinfo.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/dir.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/now.h"
#include "base/parse.h"

/* Returns the text after "<key>:" and blanks at the beginning of a line, or NULL. */
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

/* A decimal number, and its end; without one the end is the beginning. */
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
	/*
	 * Newer kernels tell the memory that was made there, older ones only the part in VRAM now.
	 */
	r = fdinfo_bytes_of(fdinfo_value_of(text, "drm-total-vram"), &info.vram_bytes);
	if (r < 0)
		r = fdinfo_bytes_of(fdinfo_value_of(text, "drm-memory-vram"), &info.vram_bytes);
	if (r == 0)
		*ret = info;
	return r;
}

/* --- Descriptors of a process ------------------------------------------------------------------ */

/* Most threads that are asked for descriptors, where the first ones have none. */
#define THREADS 64
/* One slice of a folder: as many as this has room for, or for which the kernel takes this long. */
#define SLICE_BYTES 2048
#define SLICE_NS    NS_PER_MS

#define DRM_MAJOR    226
#define FIRST_RENDER 128 /* minors below are of primary nodes */

/* The file system is not asked: the process may have put a file of its own there meanwhile. */
static uint32_t fdinfo_minor(int dir, int fd)
{
	struct statx stx;
	char path[32];

	snprintf(path, sizeof(path), "../fd/%d", fd);
	return statx(dir, path, AT_STATX_DONT_SYNC, STATX_TYPE, &stx) == 0 &&
			       S_ISCHR(stx.stx_mode) && stx.stx_rdev_major == DRM_MAJOR &&
			       stx.stx_rdev_minor >= FIRST_RENDER
		       ? stx.stx_rdev_minor
		       : 0;
}

int fdinfo_read_one(int dir, int fd, struct fdinfo *ret)
{
	char text[4096], name[16];
	int r;

	snprintf(name, sizeof(name), "%d", fd);
	r = fd_read_text(dir, name, text, sizeof(text)) > 0 ? fdinfo_parse(text, ret) : -ENODATA;
	if (r == 0)
		ret->minor = fdinfo_minor(dir, fd);
	return r;
}

bool fdinfo_is_of(const struct fdinfo *info, const struct topology_node *gpu)
{
	char pci[TOPOLOGY_PCI_BYTES];

	topology_pci_name(gpu, pci);
	if (strcmp(info->pci, pci))
		return false;
	return info->minor ? info->minor == gpu->render_minor : !topology_partition(gpu);
}

/* Returns the bytes of the next entries, 0 at the end, or -errno. */
static ssize_t fdinfo_list(int dir, char entries[static SLICE_BYTES])
{
	ssize_t n = getdents64(dir, entries, SLICE_BYTES);

	return n < 0 ? err_errno() : n;
}

static bool fdinfo_lists_any(int dir)
{
	char entries[SLICE_BYTES] __attribute__((aligned(8)));
	const struct dirent64 *entry;
	ssize_t n = fdinfo_list(dir, entries);
	bool any = false;

	for (ssize_t at = 0; at < n && !any; at += entry->d_reclen) {
		entry = (const struct dirent64 *)(entries + at);
		any = entry->d_name[0] != '.';
	}
	return any && lseek(dir, 0, SEEK_SET) == 0;
}

/* Returns the folder of a thread's descriptors; -ENOENT: it has none; -errno. */
static int fdinfo_open_thread(pid_t process, const char *thread)
{
	CLEANUP_CLOSE int dir = -EBADF;
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/task/%.16s/fdinfo", process, thread);
	dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (dir < 0)
		return errno == ESRCH ? -ENOENT : err_errno();
	return fdinfo_lists_any(dir) ? TAKE_FD(dir) : -ENOENT;
}

int fdinfo_open(pid_t process)
{
	CLEANUP_DIR DIR *threads = dir_of_process(process, "task");
	int dir = -ENOENT;
	const char *name;

	if (!threads)
		return errno == ENOENT ? -ESRCH : err_errno();
	for (int tries = 0; dir == -ENOENT && tries < THREADS && (name = dir_next(threads)); tries++)
		dir = fdinfo_open_thread(process, name);
	return dir;
}

static void fdinfo_add_entry(int dir, const char *name, fdinfo_adder *add, void *arg)
{
	struct fdinfo info;
	uint64_t number;

	if (!parse_u64(name, 0, INT32_MAX, &number) && fdinfo_read_one(dir, (int)number, &info) == 0)
		add((int)number, &info, arg);
}

/*
 * Reads entries until all are read or it takes too long. Returns how many; *ret_next: the next one.
 */
static int fdinfo_add_entries(int dir, const char *entries, ssize_t n, fdinfo_adder *add, void *arg,
			      off_t *ret_next)
{
	uint64_t end_ns = now_thread_ns() + SLICE_NS;
	const struct dirent64 *entry;
	int read = 0;

	for (ssize_t at = 0; at < n; at += entry->d_reclen) {
		entry = (const struct dirent64 *)(entries + at);
		fdinfo_add_entry(dir, entry->d_name, add, arg);
		*ret_next = entry->d_off;
		read++;
		if (now_thread_ns() >= end_ns)
			break;
	}
	return read;
}

int fdinfo_add_some(int dir, fdinfo_adder *add, void *arg)
{
	char entries[SLICE_BYTES] __attribute__((aligned(8)));
	ssize_t n = fdinfo_list(dir, entries);
	off_t next;
	int read;

	if (n <= 0)
		return (int)n;
	read = fdinfo_add_entries(dir, entries, n, add, arg, &next);
	return lseek(dir, next, SEEK_SET) < 0 ? err_errno() : read;
}

/* --- Their sum of one GPU ---------------------------------------------------------------------- */

/* Open files that are told apart; of more one that is open twice counts twice. */
#define CLIENTS 256

struct sum {
	const struct topology_node *gpu;
	uint64_t bytes;
	uint64_t clients[CLIENTS];
	uint32_t nclients;
};

static void fdinfo_add_file(int fd, const struct fdinfo *info, void *arg)
{
	struct sum *sum = arg;

	(void)fd;
	if (!fdinfo_is_of(info, sum->gpu))
		return;
	for (uint32_t i = 0; i < sum->nclients; i++)
		if (sum->clients[i] == info->client)
			return;
	if (sum->nclients < CLIENTS)
		sum->clients[sum->nclients++] = info->client;
	sum->bytes += info->vram_bytes;
}

static void fdinfo_add_kept(struct sum *sum, const int *kept, uint32_t nkept)
{
	CLEANUP_CLOSE int dir = open("/proc/thread-self/fdinfo", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct fdinfo info;

	for (uint32_t i = 0; dir >= 0 && i < nkept; i++)
		if (fdinfo_read_one(dir, kept[i], &info) == 0)
			fdinfo_add_file(kept[i], &info, sum);
}

int fdinfo_read(pid_t process, const int *kept, uint32_t nkept, const struct topology_node *gpu,
		uint64_t *ret_bytes)
{
	struct sum sum = {.gpu = gpu};
	CLEANUP_CLOSE int dir = fdinfo_open(process);
	int r = dir;

	if (r < 0 && r != -ENOENT)
		return r == -ESRCH ? -ENOENT : r;
	while (dir >= 0 && (r = fdinfo_add_some(dir, fdinfo_add_file, &sum)) > 0)
		;
	if (r < 0 && r != -ENOENT && r != -ESRCH) /* it has just ended */
		return r;
	fdinfo_add_kept(&sum, kept, nkept);
	*ret_bytes = sum.bytes;
	return 0;
}
