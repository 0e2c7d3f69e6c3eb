/* SPDX-License-Identifier: Apache-2.0 */
#include "node/process/mapped.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/dir.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/now.h"
#include "node/process/mapped_priv.h"
#include "node/process/process.h"
#include "node/process/reading.h"

/* How long an answer is kept, for a process that has a ledger and for one that has none. */
#define SOME_NS (20 * NS_PER_S)
#define NONE_NS (NS_PER_S / 2)
/* Most ledgers that are kept of a process. The role holder maps those of many tenants. */
#define LEDGERS 1024
/* --- Lines ------------------------------------------------------------------------------------ */

/* Returns true if it is a shared mapping. */
static bool mapped_parse(const char *line, struct mapping *ret)
{
	const char *may = strchr(line, ' ');
	unsigned int major, minor;
	uint64_t inode;
	int at = 0;

	if (!may || strnlen(may, 5) < 5 || may[4] != 's' ||
	    sscanf(line, "%" SCNx64 "-%" SCNx64, &ret->begin, &ret->end) != 2 ||
	    sscanf(may, " %*4s %*s %x:%x %" SCNu64 " %n", &major, &minor, &inode, &at) != 3 || !at)
		return false;
	ret->dev = makedev(major, minor);
	ret->ino = (ino_t)inode;
	ret->path = may + at;
	return true;
}

#define DELETED " (deleted)"

size_t mapped_is_called(const struct mapping *mapping, const char *name, bool *ret_deleted)
{
	size_t length = strlen(mapping->path), tail = strlen(DELETED), n = strlen(name);
	bool deleted = length > tail && !strcmp(mapping->path + length - tail, DELETED);

	if (deleted)
		length -= tail;
	if (length <= n || strncmp(mapping->path + length - n, name, n) != 0)
		return 0;
	*ret_deleted = deleted;
	return length;
}

/*
 * Opens a thread's mappings and reads the first lines. Returns their bytes; -ESRCH if there are
 * none, as of a thread that ends; -EACCES.
 */
static ssize_t mapped_open_thread(const char *path, char *slice, int *ret)
{
	CLEANUP_CLOSE int fd = fd_openat(AT_FDCWD, path, O_RDONLY, 0);
	ssize_t n;

	if (fd < 0)
		return fd == -EACCES || fd == -EPERM ? -EACCES : -ESRCH;
	n = read(fd, slice, MAPPED_SLICE_BYTES);
	if (n <= 0)
		return -ESRCH;
	*ret = TAKE_FD(fd);
	return n;
}

/* Of the process, or, if its first thread has ended, of the first living one. */
ssize_t mapped_open(pid_t pid, char slice[static MAPPED_SLICE_BYTES], int *ret)
{
	CLEANUP_DIR DIR *tasks = NULL;
	char path[64];
	ssize_t n;
	int task;

	snprintf(path, sizeof(path), "/proc/%ld/maps", (long)pid);
	n = mapped_open_thread(path, slice, ret);
	if (n != -ESRCH)
		return n;
	tasks = dir_of_process(pid, "task");
	while (n == -ESRCH && (task = dir_next_number(tasks)) >= 0) {
		snprintf(path, sizeof(path), "/proc/%ld/task/%d/maps", (long)pid, task);
		n = mapped_open_thread(path, slice, ret);
	}
	return n;
}

bool mapped_is_ending(pid_t pid)
{
	CLEANUP_FREE char *slice = malloc(MAPPED_SLICE_BYTES);
	CLEANUP_CLOSE int fd = -EBADF;

	return slice && mapped_open(pid, slice, &fd) == -ESRCH;
}

bool mapped_search(char *slice, size_t n, bool (*is)(const struct mapping *mapping, void *arg), void *arg)
{
	struct mapping mapping;
	char *line, *rest = slice;

	slice[n] = '\0';
	while ((line = strsep(&rest, "\n")))
		if (mapped_parse(line, &mapping) && is(&mapping, arg))
			return true;
	return false;
}

bool mapped_is_of(const struct mapping *mapping, void *arg)
{
	const struct stat *file = arg;

	return mapping->ino == file->st_ino && mapping->dev == file->st_dev;
}

/* By its first thread alone: a process whose first thread has ended is about to end. */
int mapped_by(pid_t pid, const struct stat *file)
{
	CLEANUP_FREE char *slice = malloc(MAPPED_SLICE_BYTES + 1);
	CLEANUP_CLOSE int fd = -EBADF;
	char path[64];
	ssize_t n;

	snprintf(path, sizeof(path), "/proc/%ld/maps", (long)pid);
	n = slice ? mapped_open_thread(path, slice, &fd) : -ENOMEM;
	while (n > 0) {
		if (mapped_search(slice, (size_t)n, mapped_is_of, (void *)(uintptr_t)file))
			return 0;
		n = read(fd, slice, MAPPED_SLICE_BYTES);
	}
	return n < 0 && fd < 0 ? (int)n : -ENOENT;
}

/* --- Kept findings ---------------------------------------------------------------------------- */

struct ledgers {
	size_t n;
	bool more; /* the process has others */
	struct ledger_file_id {
		dev_t dev;
		ino_t ino;
	} *list;
};

static bool mapped_has(const struct ledgers *ledgers, const struct stat *file)
{
	for (size_t i = 0; i < ledgers->n; i++)
		if (ledgers->list[i].dev == file->st_dev && ledgers->list[i].ino == file->st_ino)
			return true;
	return false;
}

static bool mapped_note(const struct mapping *mapping, void *arg)
{
	struct stat file = {.st_dev = mapping->dev, .st_ino = mapping->ino};
	struct ledger_file_id *list;
	struct ledgers *ledgers = arg;
	bool deleted;

	if (!mapped_is_called(mapping, "/ledger", &deleted) || mapped_has(ledgers, &file))
		return false;
	list = ledgers->n < LEDGERS ? reallocarray(ledgers->list, ledgers->n + 1, sizeof(*list)) : NULL;
	if (!list) {
		ledgers->more = true;
		return true;
	}
	list[ledgers->n++] = (struct ledger_file_id){mapping->dev, mapping->ino};
	ledgers->list = list;
	return false;
}

/* Called with the table's lock, which the slice is behind, too. */
static int mapped_read_slice(pid_t pid, int *fd, void *begun, uint64_t *ret_cost)
{
	static char slice[MAPPED_SLICE_BYTES + 1];
	ssize_t n;

	if (*fd < 0)
		n = mapped_open(pid, slice, fd);
	else if ((n = read(*fd, slice, MAPPED_SLICE_BYTES)) < 0)
		n = 0;
	if (n <= 0)
		return (int)n;
	*ret_cost = (uint64_t)n;
	return !mapped_search(slice, (size_t)n, mapped_note, begun);
}

static bool mapped_is_any(const void *found)
{
	const struct ledgers *ledgers = found;

	return ledgers->n;
}

static void mapped_free(void *found)
{
	struct ledgers *ledgers = found;

	free(ledgers->list);
}

static uint64_t mapped_keep_ns(const void *found)
{
	return mapped_is_any(found) ? SOME_NS : NONE_NS;
}

static const struct reading_kind mapped_kind = {
	.allowance = ALLOWANCE_MAPPINGS,
	.found_bytes = sizeof(struct ledgers),
	.read = mapped_read_slice,
	.is_any = mapped_is_any,
	.free = mapped_free,
	.keep_ns = mapped_keep_ns,
	.all_once = true,
};

static struct reading_table kept = {.kind = &mapped_kind, .lock = PTHREAD_MUTEX_INITIALIZER};

/* Called with the lock. Returns 0, -errno of mapped_by, -EAGAIN or -ETIME. */
static int mapped_know(pid_t pid, const struct ledgers **ret)
{
	static const struct ledgers none;
	struct reading *k;
	int r = reading_know(&kept, pid, &k);

	*ret = k && k->found ? k->found : &none;
	return r;
}

int mapped_ledger(pid_t pid, const struct stat *ledger)
{
	const struct ledgers *ledgers;
	int r;

	if (!ledger->st_ino)
		return -ENOENT;

	pthread_mutex_lock(&kept.lock);
	r = mapped_know(pid, &ledgers);
	if (!r && !mapped_has(ledgers, ledger))
		r = ledgers->more ? -ETIME : -ENOENT;
	pthread_mutex_unlock(&kept.lock);
	return r;
}

int mapped_any_ledger(pid_t pid, struct stat *ret)
{
	const struct ledgers *ledgers;
	int r;

	pthread_mutex_lock(&kept.lock);
	r = mapped_know(pid, &ledgers);
	if (!r && !ledgers->n)
		r = -ENOENT;
	if (!r) {
		ret->st_dev = ledgers->list[0].dev;
		ret->st_ino = ledgers->list[0].ino;
	}
	pthread_mutex_unlock(&kept.lock);
	return r;
}

/* Returns false for a process of a user who cannot open the ledger: its mappings are not read. */
static bool mapped_may_have(pid_t pid, const struct stat *ledger)
{
	uid_t uid;

	return (ledger->st_mode & S_IWOTH) || process_read_user(pid, &uid) || !uid ||
	       uid == ledger->st_uid;
}

bool mapped_by_any(const struct stat *ledger)
{
	CLEANUP_DIR DIR *proc = opendir("/proc");
	bool any = !proc;
	pid_t pid;

	while (!any && (pid = dir_next_number(proc)) >= 0) {
		int r = mapped_may_have(pid, ledger) ? mapped_ledger(pid, ledger) : -ENOENT;

		any = r == 0 || mapped_is_unknown(r);
	}
	return any;
}

int mapped_find_ledger(const char *dir, struct stat *ret)
{
	char path[PATH_MAX + sizeof("/ledger")];

	snprintf(path, sizeof(path), "%s/ledger", dir);
	return lstat(path, ret) < 0 ? err_errno() : 0;
}
