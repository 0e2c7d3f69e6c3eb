/* SPDX-License-Identifier: Apache-2.0 */
#include "node/members.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/parse.h"
#include "node/lookup.h"
#include "node/mapped.h"

#define VARIABLE "ALLOT_TENANT_DIR="

/*
 * No program gets more than that from the kernel. A process can say that its environment is elsewhere
 * (PR_SET_MM_MAP), and as long as its memory.
 */
#define ENVIRONMENT_BYTES (6 << 20)

/* The directory that stands in an environment. Whether there is one. */
static bool members_read_variable(const char *path, char ret[static PATH_MAX])
{
	FILE *file = fopen(path, "re");
	char entry[sizeof(VARIABLE) + PATH_MAX - 1];
	bool found = false;
	size_t n = 0;
	int c = 0;

	if (!file)
		return false;
	for (int i = 0; !found && i < ENVIRONMENT_BYTES && (c = getc_unlocked(file)) != EOF; i++) {
		/* One that does not fit is none of ours, and has no end here. */
		if (n < sizeof(entry))
			entry[n++] = (char)c;
		if (c)
			continue;
		found = !entry[n - 1] && !strncmp(entry, VARIABLE, strlen(VARIABLE));
		n = 0;
	}
	fclose(file);
	if (found)
		strcpy(ret, entry + strlen(VARIABLE));
	return found;
}

/*
 * The path is a process's word: nobody waits for the file system or the automounter that it leads
 * to, which may be the process's own. What is a tenant's is in memory, and so in the kernel's cache.
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

static void members_add(struct members *members, pid_t pid)
{
	struct member member = {.pid = pid}, *list;
	char path[64], dir[PATH_MAX];
	struct stat st;

	/* The directory's owner is the process's user; its files are root's where it is not dumpable. */
	snprintf(path, sizeof(path), "/proc/%ld", (long)pid);
	if (stat(path, &st) < 0)
		return;
	member.uid = st.st_uid;
	snprintf(path, sizeof(path), "/proc/%ld/environ", (long)pid);
	/* By what it is, not how it is called: /run and /var/run lead to one. */
	if (!members_read_variable(path, dir) || members_stat(dir, &member) < 0)
		return;
	list = reallocarray(members->list, members->n + 1, sizeof(*list));
	if (!list)
		return;
	list[members->n++] = member;
	members->list = list;
}

static void members_read(struct members *members)
{
	DIR *proc = opendir("/proc");
	struct dirent *entry;
	uint64_t pid;

	members->read = true;
	while (proc && (entry = readdir(proc)))
		if (!parse_u64(entry->d_name, 1, INT32_MAX, &pid) && (pid_t)pid != getpid())
			members_add(members, (pid_t)pid);
	if (proc)
		closedir(proc);
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

/* Who cannot use the tenant is not in it, whatever that process says that it was started with. */
static bool members_match(const struct member *member, const struct tenant_files *files)
{
	return member->dev == files->dir.st_dev && member->ino == files->dir.st_ino &&
	       (!member->uid || member->uid == files->ledger.st_uid ||
		(files->ledger.st_mode & S_IWOTH));
}

pid_t members_find(struct members *members, const char *dir)
{
	struct tenant_files files;

	if (!members->read)
		members_read(members);
	if (members_look(dir, &files) < 0)
		return 0;
	for (size_t i = 0; i < members->n; i++)
		if (members_match(&members->list[i], &files))
			return members->list[i].pid;
	return 0;
}

bool members_has(struct members *members, const char *dir, pid_t pid)
{
	struct tenant_files files;

	if (!members->read)
		members_read(members);
	if (members_look(dir, &files) < 0)
		return false;
	for (size_t i = 0; i < members->n; i++)
		if (members->list[i].pid == pid && members_match(&members->list[i], &files))
			return true;
	return false;
}

bool members_is(const char *dir, pid_t pid)
{
	struct members one = {.read = true};
	bool is;

	members_add(&one, pid);
	is = members_has(&one, dir, pid);
	members_free(&one);
	return is;
}

void members_free(struct members *members)
{
	free(members->list);
	*members = (struct members){0};
}
