/* SPDX-License-Identifier: Apache-2.0 */
#include "node/mapped.h"

#include <dirent.h>
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
#include "base/err.h"
#include "base/fd.h"
#include "base/now.h"
#include "base/parse.h"
#include "node/allowance.h"
#include "node/mapped_priv.h"
#include "node/process.h"

/* How long an answer is kept, for a process that has a ledger and for one that has none. */
#define SOME_NS (20 * NS_PER_S)
#define NONE_NS (NS_PER_S / 2)
/* In this time the mappings of 1000 processes of one user have been read, of 400 KiB each. */
#define LONG_NS (60 * NS_PER_S)
/* An answer that nobody asked for in this time is dropped if the room is needed. */
#define FORGET_NS (10 * NS_PER_S)
#define KEPT	  4096
/* Most ledgers that are kept of a process. The role holder maps those of many tenants. */
#define LEDGERS 1024
/* Most unfinished readings that keep their descriptor; the others start again. */
#define READINGS 32

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

/* Of the process, or of the first thread of it that goes on where its first one has ended. */
ssize_t mapped_open(pid_t pid, char slice[static MAPPED_SLICE_BYTES], int *ret)
{
	char path[64 + NAME_MAX];
	struct dirent *entry;
	DIR *tasks;
	ssize_t n;

	snprintf(path, sizeof(path), "/proc/%ld/maps", (long)pid);
	n = mapped_open_thread(path, slice, ret);
	if (n != -ESRCH)
		return n;
	snprintf(path, sizeof(path), "/proc/%ld/task", (long)pid);
	tasks = opendir(path);
	while (n == -ESRCH && tasks && (entry = readdir(tasks))) {
		snprintf(path, sizeof(path), "/proc/%ld/task/%s/maps", (long)pid, entry->d_name);
		n = mapped_open_thread(path, slice, ret);
	}
	if (tasks)
		closedir(tasks);
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

/* By its first thread alone: whose first thread has ended is about to. */
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

/* --- What is known ---------------------------------------------------------------------------- */

struct ledgers {
	size_t n;
	bool more; /* the process has others */
	struct ledger_file_id {
		dev_t dev;
		ino_t ino;
	} *list;
};

struct known {
	struct process_mark mark;
	uid_t uid;
	uint64_t begun_ns, asked_ns, read_ns; /* 0: it was not read yet */
	int error;		    /* result of the last whole reading */
	struct ledgers ledgers;	    /* found by it */
	int fd;			    /* of an unfinished reading; -EBADF */
	struct ledgers begun;	    /* found by it so far */
};

static struct {
	pthread_mutex_t lock;
	unsigned int readings;
	size_t n;
	struct known list[KEPT];
	char slice[MAPPED_SLICE_BYTES + 1];
} kept = {.lock = PTHREAD_MUTEX_INITIALIZER};

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

static void mapped_end_reading(struct known *k)
{
	if (k->fd >= 0) {
		close(k->fd);
		kept.readings--;
	}
	k->fd = -EBADF;
	free(k->begun.list);
	k->begun = (struct ledgers){.n = 0};
}

static void mapped_forget(struct known *k)
{
	mapped_end_reading(k);
	free(k->ledgers.list);
	k->ledgers = (struct ledgers){.n = 0};
	k->read_ns = 0;
}

static void mapped_finish_reading(struct known *k, int error)
{
	free(k->ledgers.list);
	k->ledgers = k->begun;
	k->begun = (struct ledgers){.n = 0};
	k->error = error;
	k->read_ns = now_monotonic_ns();
	mapped_end_reading(k);
}

/*
 * Reads the next lines, and opens the file first where it is not open. Returns their bytes; 0:
 * there are no more.
 */
static ssize_t mapped_read_slice(struct known *k)
{
	ssize_t n;

	if (k->fd >= 0) {
		n = read(k->fd, kept.slice, MAPPED_SLICE_BYTES);
		return n < 0 ? 0 : n;
	}
	n = mapped_open(k->mark.pid, kept.slice, &k->fd);
	kept.readings += k->fd >= 0;
	return n;
}

/* Reads on until the end or the end of the user's budget. */
static void mapped_go_on(struct known *k)
{
	ssize_t n;

	while (allowance_left(ALLOWANCE_MAPPINGS, k->uid, 0)) {
		n = mapped_read_slice(k);
		if (n > 0)
			allowance_spend(ALLOWANCE_MAPPINGS, k->uid, (uint64_t)n);
		if (n <= 0 || mapped_search(kept.slice, (size_t)n, mapped_note, &k->begun)) {
			mapped_finish_reading(k, n < 0 ? (int)n : 0);
			return;
		}
	}
	allowance_put_off(ALLOWANCE_MAPPINGS, k->uid);
	if (kept.readings > READINGS)
		mapped_end_reading(k);
}

/* A process is read again only after all processes of its user were read once. */
static bool mapped_has_priority(const struct known *k, uint64_t now_ns)
{
	for (size_t i = 0; i < kept.n; i++)
		if (!kept.list[i].read_ns && kept.list[i].uid == k->uid &&
		    now_ns < kept.list[i].asked_ns + FORGET_NS)
			return false;
	return true;
}

static bool mapped_is_due(const struct known *k)
{
	uint64_t now_ns = now_monotonic_ns();

	if (!k->read_ns || k->fd >= 0)
		return true;
	return now_ns >= k->read_ns + (k->ledgers.n ? SOME_NS : NONE_NS) &&
	       mapped_has_priority(k, now_ns);
}

static struct known *mapped_place(pid_t pid)
{
	uint64_t now_ns = now_monotonic_ns();

	for (size_t i = 0; i < kept.n; i++)
		if (kept.list[i].mark.pid == pid)
			return &kept.list[i];
	for (size_t i = 0; kept.n == KEPT && i < kept.n;) {
		if (now_ns < kept.list[i].asked_ns + FORGET_NS) {
			i++;
			continue;
		}
		mapped_forget(&kept.list[i]);
		kept.list[i] = kept.list[--kept.n];
	}
	if (kept.n == KEPT)
		return NULL;
	kept.list[kept.n] = (struct known){.fd = -EBADF, .begun_ns = now_ns};
	return &kept.list[kept.n++];
}

static int mapped_unknown(const struct known *k)
{
	return now_monotonic_ns() < k->begun_ns + LONG_NS ? -EAGAIN : -ETIME;
}

/* Called with the lock. Returns 0, -errno of mapped_by, -EAGAIN or -ETIME. */
static int mapped_know(pid_t pid, struct known **ret)
{
	struct process_mark mark;
	struct known *k;

	if (process_read_mark(pid, &mark) < 0)
		mark = (struct process_mark){.pid = pid}; /* one of its threads may go on */
	k = mapped_place(pid);
	if (!k)
		return -EAGAIN;
	if (!process_is_same(&k->mark, &mark)) {
		mapped_forget(k);
		k->mark = mark;
		k->begun_ns = now_monotonic_ns();
		if (process_read_user(pid, &k->uid) == -ESRCH)
			return -ESRCH;
	}
	k->asked_ns = now_monotonic_ns();
	if (mapped_is_due(k))
		mapped_go_on(k);
	*ret = k;
	return k->read_ns ? k->error : mapped_unknown(k);
}

int mapped_ledger(pid_t pid, const struct stat *ledger)
{
	struct known *k;
	int r;

	if (!ledger->st_ino)
		return -ENOENT;

	pthread_mutex_lock(&kept.lock);
	r = mapped_know(pid, &k);
	if (!r && !mapped_has(&k->ledgers, ledger))
		r = k->ledgers.more ? -ETIME : -ENOENT;
	pthread_mutex_unlock(&kept.lock);
	return r;
}

int mapped_any_ledger(pid_t pid, struct stat *ret)
{
	struct known *k;
	int r;

	pthread_mutex_lock(&kept.lock);
	r = mapped_know(pid, &k);
	if (!r && !k->ledgers.n)
		r = -ENOENT;
	if (!r) {
		ret->st_dev = k->ledgers.list[0].dev;
		ret->st_ino = k->ledgers.list[0].ino;
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
	DIR *proc = opendir("/proc");
	struct dirent *entry;
	bool any = !proc;
	uint64_t pid;

	while (!any && (entry = readdir(proc))) {
		int r = -ENOENT;

		if (!parse_u64(entry->d_name, 1, INT32_MAX, &pid) &&
		    mapped_may_have((pid_t)pid, ledger))
			r = mapped_ledger((pid_t)pid, ledger);
		any = r == 0 || mapped_is_unknown(r);
	}
	if (proc)
		closedir(proc);
	return any;
}

int mapped_find_ledger(const char *dir, struct stat *ret)
{
	char path[PATH_MAX + sizeof("/ledger")];

	snprintf(path, sizeof(path), "%s/ledger", dir);
	return lstat(path, ret) < 0 ? err_errno() : 0;
}
