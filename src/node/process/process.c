/* SPDX-License-Identifier: Apache-2.0 */
#include "node/process/process.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/nsfs.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/hash.h"
#include "base/proc_stat.h"

static bool process_is_of_image(int word)
{
	return (word >= PROC_STAT_CODE && word <= PROC_STAT_STACK) || word >= PROC_STAT_DATA;
}

int process_read_mark(pid_t pid, struct process_mark *ret)
{
	struct process_mark mark = {.pid = pid, .image = HASH_SEED};
	struct proc_stat stat;

	if (proc_stat_read(pid, &stat) || proc_stat_is_dead(&stat))
		return -ESRCH;
	mark.start = stat.word[PROC_STAT_START];
	for (int i = 0; i < PROC_STAT_WORDS; i++)
		if (process_is_of_image(i))
			mark.image = hash_word(mark.image, stat.word[i]);
	*ret = mark;
	return 0;
}

bool process_is_same(const struct process_mark *a, const struct process_mark *b)
{
	return a->pid == b->pid && a->start == b->start && a->image == b->image;
}

int process_read_user(pid_t pid, uid_t *ret)
{
	char path[64], status[4096];
	const char *line;
	unsigned int uid[4];

	snprintf(path, sizeof(path), "/proc/%ld/status", (long)pid);
	if (fd_read_text(AT_FDCWD, path, status, sizeof(status)) < 0)
		return -ESRCH;
	/* The program's own name, in the first line, cannot contain a newline (it is escaped). */
	line = strstr(status, "\nUid:");
	if (!line || sscanf(line + 5, "%u %u %u %u", &uid[0], &uid[1], &uid[2], &uid[3]) != 4)
		return -ESRCH;
	*ret = uid[0];
	return uid[0] == uid[1] && uid[0] == uid[2] && uid[0] == uid[3] ? 0 : -EPERM;
}

/* The kernel nests user namespaces no deeper than this. */
#define NAMESPACES 33

/* Closes it. */
static int process_namespace_is_of_user(int namespace, uid_t user)
{
	CLEANUP_CLOSE int at = namespace;
	uid_t owner;

	for (int i = 0; i < NAMESPACES; i++) {
		int above;

		if (ioctl(at, NS_GET_OWNER_UID, &owner) < 0)
			return err_errno();
		if (owner == user)
			return 1;
		/* -EPERM: this is the first one, or is above this process's own. */
		above = ioctl(at, NS_GET_PARENT);
		if (above < 0)
			return errno == EPERM ? 0 : err_errno();
		close(at);
		at = above;
	}
	return 0;
}

/* Returns true if it has all users of this process: no user can make a namespace that does. */
static bool process_has_our_users(pid_t pid)
{
	char path[64], own[4096], others[4096];

	snprintf(path, sizeof(path), "/proc/%ld/uid_map", (long)pid);
	return fd_read_text(AT_FDCWD, "/proc/self/uid_map", own, sizeof(own)) > 0 &&
	       fd_read_text(AT_FDCWD, path, others, sizeof(others)) > 0 && !strcmp(own, others);
}

int process_is_of_user(pid_t pid, uid_t user)
{
	char path[64];
	uid_t real;
	int fd, r;

	if (process_read_user(pid, &real) == -ESRCH)
		return -ESRCH;
	if (real == user)
		return 1;
	snprintf(path, sizeof(path), "/proc/%ld/ns/user", (long)pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	r = fd < 0 ? err_errno() : 0;
	if (r == -ENOENT)
		return -ESRCH;
	/* The kernel, or a security module, may hide the namespace of one that can do more. */
	if (r < 0)
		return process_has_our_users(pid) ? 0 : r;
	return process_namespace_is_of_user(fd, user);
}

/* Finds a value of the auxiliary vector, which the kernel makes at exec; -1: it is not there. */
static unsigned long process_noted(const unsigned long *vector, size_t n, unsigned long what)
{
	for (size_t i = 0; i + 1 < n && vector[i] != AT_NULL; i += 2)
		if (vector[i] == what)
			return vector[i + 1];
	return (unsigned long)-1;
}

bool process_has_own_environment(pid_t pid)
{
	unsigned long vector[128], uid, euid;
	CLEANUP_CLOSE int fd = -EBADF;
	char path[64];
	ssize_t n;

	snprintf(path, sizeof(path), "/proc/%ld/auxv", (long)pid);
	fd = fd_openat(AT_FDCWD, path, O_RDONLY, 0);
	n = fd < 0 ? -1 : read(fd, vector, sizeof(vector));
	if (n < 0)
		return false;
	/*
	 * Both are numbers of the process's user namespace, so they can be compared with each other
	 * only.
	 */
	uid = process_noted(vector, (size_t)n / sizeof(*vector), AT_UID);
	euid = process_noted(vector, (size_t)n / sizeof(*vector), AT_EUID);
	return uid != (unsigned long)-1 && uid == euid;
}
