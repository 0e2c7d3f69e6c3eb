/* SPDX-License-Identifier: Apache-2.0 */
#include "node/members.h"

#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/parse.h"

#define VARIABLE "ALLOT_TENANT_DIR="

/* The directory that stands in an environment: malloc'd, or NULL. */
static char *members_read_variable(const char *path)
{
	FILE *file = fopen(path, "re");
	char *entry = NULL, *found = NULL;
	size_t size = 0;

	if (!file)
		return NULL;
	while (!found && getdelim(&entry, &size, '\0', file) > 0)
		if (!strncmp(entry, VARIABLE, strlen(VARIABLE)))
			found = strdup(entry + strlen(VARIABLE));
	free(entry);
	fclose(file);
	return found;
}

static void members_add(struct members *members, pid_t pid)
{
	struct member *list;
	struct stat st;
	char path[64];
	char *dir;

	snprintf(path, sizeof(path), "/proc/%ld/environ", (long)pid);
	dir = members_read_variable(path);
	/* By what it is, not how it is called: /run and /var/run lead to one. */
	if (dir && !stat(dir, &st) &&
	    (list = reallocarray(members->list, members->n + 1, sizeof(*list)))) {
		list[members->n++] = (struct member){st.st_dev, st.st_ino, pid};
		members->list = list;
	}
	free(dir);
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

pid_t members_find(struct members *members, const char *dir)
{
	struct stat st;

	if (!members->read)
		members_read(members);
	if (stat(dir, &st) < 0)
		return 0;
	for (size_t i = 0; i < members->n; i++)
		if (members->list[i].dev == st.st_dev && members->list[i].ino == st.st_ino)
			return members->list[i].pid;
	return 0;
}

bool members_has(struct members *members, const char *dir, pid_t pid)
{
	struct stat st;

	if (!members->read)
		members_read(members);
	if (stat(dir, &st) < 0)
		return false;
	for (size_t i = 0; i < members->n; i++)
		if (members->list[i].pid == pid && members->list[i].dev == st.st_dev &&
		    members->list[i].ino == st.st_ino)
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
