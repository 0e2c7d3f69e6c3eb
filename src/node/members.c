/* SPDX-License-Identifier: Apache-2.0 */
#include "node/members.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/dir.h"
#include "base/number.h"
#include "node/process/allowance.h"
#include "node/process/lookup.h"
#include "node/process/mapped.h"
#include "node/process/process.h"

#define VARIABLE "ALLOT_TENANT_DIR="

/*
 * No program gets more than that from the kernel. A process can say that its environment is elsewhere
 * (PR_SET_MM_MAP), and as long as its memory.
 */
#define ENVIRONMENT_BYTES (6 << 20)

/* Knowledge of a process's environment. */
enum environment { NAMES_NOTHING, NAMES_TENANT, UNREAD };

struct known {
	struct process_mark mark;
	enum environment environment;
	struct member member; /* of UNREAD: pid and uid */
};

/* All processes of the last walk, sorted by pid, as /proc lists them. */
static struct {
	pthread_mutex_t lock;
	size_t n;
	struct known *list;
} known = {.lock = PTHREAD_MUTEX_INITIALIZER};

/*
 * Reads the tenant's directory from a process's environment; an empty string if it names none.
 * Returns false if the user's budget ended before.
 */
static bool members_read_variable(pid_t pid, uid_t uid, char ret[static PATH_MAX])
{
	uint64_t left = allowance_left(ALLOWANCE_ENVIRONMENTS, uid, ENVIRONMENT_BYTES);
	uint64_t most = min_u64(left, ENVIRONMENT_BYTES), at = 0;
	char path[64], entry[sizeof(VARIABLE) + PATH_MAX - 1];
	bool found = false;
	FILE *file;
	size_t n = 0;
	int c = 0;

	*ret = '\0';
	snprintf(path, sizeof(path), "/proc/%ld/environ", (long)pid);
	file = fopen(path, "re");
	for (; file && !found && at < most && (c = getc_unlocked(file)) != EOF; at++) {
		/* A variable that does not fit is not ours; it has no end here. */
		if (n < sizeof(entry))
			entry[n++] = (char)c;
		if (c)
			continue;
		found = !entry[n - 1] && !strncmp(entry, VARIABLE, strlen(VARIABLE));
		n = 0;
	}
	if (file)
		fclose(file);
	allowance_spend(ALLOWANCE_ENVIRONMENTS, uid, at);
	if (found)
		strcpy(ret, entry + strlen(VARIABLE));
	return found || at < most || most == ENVIRONMENT_BYTES;
}

/*
 * The path is a process's word: nobody waits for the file system or the automounter that it leads
 * to, which may be the process's own. A tenant's directory is in memory, and so in the kernel's
 * cache.
 */
static int members_stat(const char *path, struct member *ret)
{
	CLEANUP_CLOSE int fd = lookup_open(AT_FDCWD, path, O_DIRECTORY, LOOKUP_CACHED);
	struct stat st;
	int r;

	if (fd == -ENOSYS || fd == -EINVAL || fd == -EPERM)
		fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return -ENOENT;
	r = lookup_stat(fd, &st);
	if (r < 0)
		return r;
	ret->dev = st.st_dev;
	ret->ino = st.st_ino;
	return 0;
}

static enum environment members_look_into(pid_t pid, struct member *ret)
{
	char dir[PATH_MAX];

	/* A process with rights of several users may have been started by any of them. */
	if (process_read_user(pid, &ret->uid) < 0)
		return NAMES_NOTHING;
	if (!members_read_variable(pid, ret->uid, dir)) {
		allowance_put_off(ALLOWANCE_ENVIRONMENTS, ret->uid);
		return UNREAD;
	}
	/* By what it is, not how it is called: /run and /var/run lead to one. */
	return *dir && process_has_own_environment(pid) && !members_stat(dir, ret) ? NAMES_TENANT
										   : NAMES_NOTHING;
}

/* Returns false if the process has ended. `before`: the last walk's entry of that pid, or NULL. */
static bool members_know(pid_t pid, const struct known *before, struct known *ret)
{
	if (process_read_mark(pid, &ret->mark) < 0)
		return false;
	if (before && before->environment != UNREAD && process_is_same(&before->mark, &ret->mark)) {
		*ret = *before;
		return true;
	}
	ret->member = (struct member){.pid = pid};
	ret->environment = members_look_into(pid, &ret->member);
	ret->member.unread = ret->environment == UNREAD;
	return true;
}

static bool members_add(struct members *members, const struct member *member)
{
	struct member *list = reallocarray(members->list, members->n + 1, sizeof(*list));

	if (!list)
		return false;
	list[members->n++] = *member;
	members->list = list;
	return true;
}

/* Finds the last walk's entry of a pid. `at` only moves forward, as the pids of a walk do. */
static const struct known *members_known(size_t *at, pid_t pid)
{
	while (*at < known.n && known.list[*at].mark.pid < pid)
		++*at;
	return *at < known.n && known.list[*at].mark.pid == pid ? &known.list[*at] : NULL;
}

/* Called with the lock. Without memory, the next walk reads the rest of the processes again. */
static void members_read_all(DIR *proc, struct members *members)
{
	struct known *now = NULL, *more, one;
	size_t n = 0, room = 0, at = 0;
	pid_t pid;

	while ((pid = dir_next_number(proc)) >= 0) {
		if (pid == getpid() || !members_know(pid, members_known(&at, pid), &one))
			continue;
		if (one.environment != NAMES_NOTHING)
			members_add(members, &one.member);
		if (n == room) {
			more = reallocarray(now, room += 1024, sizeof(*more));
			if (!more)
				break;
			now = more;
		}
		now[n++] = one;
	}
	free(known.list);
	known.list = now;
	known.n = n;
}

static void members_read(struct members *members)
{
	CLEANUP_DIR DIR *proc = opendir("/proc");

	members->read = true;
	pthread_mutex_lock(&known.lock);
	members_read_all(proc, members);
	pthread_mutex_unlock(&known.lock);
}

struct tenant_files {
	struct stat dir, ledger;
};

static int members_look(const char *dir, struct tenant_files *ret)
{
	if (stat(dir, &ret->dir) < 0)
		return -errno;
	if (mapped_find_ledger(dir, &ret->ledger) < 0)
		ret->ledger = ret->dir;
	return 0;
}

/*
 * In a container all users reach the tenant's directory, and their processes may be of it. Outside,
 * that directory is in one that only root may enter (tenant_open_to_all), so this returns false
 * there.
 */
static bool members_is_reached_by_all(const char *dir, const struct tenant_files *files)
{
	char path[PATH_MAX + sizeof("/..")];
	struct stat st;

	snprintf(path, sizeof(path), "%s/..", dir);
	return (files->ledger.st_mode & S_IWOTH) && !stat(path, &st) && (st.st_mode & S_IXOTH);
}

/* Returns true if the process's user may use the tenant. */
static bool members_may_be(const struct member *member, const char *dir,
			   const struct tenant_files *files)
{
	return member->uid == files->ledger.st_uid || members_is_reached_by_all(dir, files);
}

static bool members_match(const struct member *member, const char *dir,
			  const struct tenant_files *files)
{
	return !member->unread && member->dev == files->dir.st_dev &&
	       member->ino == files->dir.st_ino && members_may_be(member, dir, files);
}

pid_t members_find(struct members *members, const char *dir)
{
	struct tenant_files files;
	pid_t unread = 0;

	if (!members->read)
		members_read(members);
	if (members_look(dir, &files) < 0)
		return 0;
	for (size_t i = 0; i < members->n; i++) {
		const struct member *member = &members->list[i];

		if (members_match(member, dir, &files))
			return member->pid;
		if (member->unread && !unread && members_may_be(member, dir, &files))
			unread = member->pid;
	}
	return unread;
}

bool members_has(struct members *members, const char *dir, pid_t pid)
{
	struct tenant_files files;

	if (!members->read)
		members_read(members);
	if (members_look(dir, &files) < 0)
		return false;
	for (size_t i = 0; i < members->n; i++)
		if (members->list[i].pid == pid && members_match(&members->list[i], dir, &files))
			return true;
	return false;
}

bool members_is(const char *dir, pid_t pid)
{
	struct members one = {.read = true};
	struct known now;
	bool is = members_know(pid, NULL, &now) && now.environment == NAMES_TENANT &&
		  members_add(&one, &now.member) && members_has(&one, dir, pid);

	members_free(&one);
	return is;
}

void members_free(struct members *members)
{
	free(members->list);
	*members = (struct members){0};
}
