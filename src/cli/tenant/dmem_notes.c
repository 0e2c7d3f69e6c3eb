/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/tenant/dmem_notes.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/dir.h"
#include "base/err.h"
#include "base/fd.h"
#include "cli/tenant/cgroup.h"

static int dmem_notes_dir(const char *runtime, char ret[static PATH_MAX])
{
	int n = snprintf(ret, PATH_MAX, "%s/.cgroups", runtime);

	return n < 0 || n >= PATH_MAX ? -ENAMETOOLONG : 0;
}

/*
 * Any process of the user may have written the note. So it is only followed to a cgroup that has a
 * name like those that allot makes.
 */
static int dmem_notes_read_note(int dirfd, const char *note, char ret[static PATH_MAX])
{
	char cgroup[PATH_MAX];
	ssize_t n = fd_read_link(dirfd, note, cgroup, sizeof(cgroup));

	if (n < 0)
		return (int)n;
	if (cgroup[0] != '/' || strstr(cgroup, "/../") ||
	    strncmp(strrchr(cgroup, '/'), "/allot-", 7))
		return -EINVAL;
	strcpy(ret, cgroup);
	return 0;
}

void dmem_note_end(int dirfd, const char *note)
{
	char cgroup[PATH_MAX], path[PATH_MAX];

	if (dmem_notes_read_note(dirfd, note, cgroup) < 0 || cgroup_path(cgroup, "", path) < 0)
		return;
	if (!rmdir(path) || errno == ENOENT)
		unlinkat(dirfd, note, 0);
}

/* Others remove the directory whenever it is empty, which it is until this succeeds. */
int dmem_note(const char *runtime, const char *tenant, const char *cgroup,
	      char ret_path[static PATH_MAX])
{
	char dir[PATH_MAX], path[PATH_MAX];
	int n, r = dmem_notes_dir(runtime, dir);

	if (r < 0)
		return r;
	n = snprintf(path, sizeof(path), "%.*s/%s-%ld", PATH_MAX - 96, dir, tenant, (long)getpid());
	if (n < 0 || (size_t)n >= sizeof(path))
		return -ENAMETOOLONG;
	for (int tries = 0; tries < 10; tries++) {
		if (mkdir(dir, 0700) < 0 && errno != EEXIST)
			return err_errno();
		if (!symlink(cgroup, path)) {
			strcpy(ret_path, path);
			return 0;
		}
		r = err_errno();
		if (r == -EEXIST) /* of a process that had this pid before */
			dmem_note_end(AT_FDCWD, path);
		else if (r != -ENOENT)
			break;
	}
	return r;
}

static bool dmem_notes_is_of(const char *note, const char *tenant)
{
	const char *pid = strrchr(note, '-');
	size_t len = strlen(tenant);

	return pid && (size_t)(pid - note) == len && !strncmp(note, tenant, len);
}

static DIR *dmem_notes_open_dir(const char *runtime)
{
	char dir[PATH_MAX];

	return dmem_notes_dir(runtime, dir) < 0 ? NULL : opendir(dir);
}

void dmem_notes_each(const char *runtime, const char *tenant,
		     void (*fn)(const char *cgroup, void *arg), void *arg)
{
	CLEANUP_DIR DIR *notes = dmem_notes_open_dir(runtime);
	char cgroup[PATH_MAX];
	const char *note;

	while ((note = dir_next(notes)))
		if (dmem_notes_is_of(note, tenant) &&
		    !dmem_notes_read_note(dirfd(notes), note, cgroup))
			fn(cgroup, arg);
}

void dmem_notes_sweep(const char *runtime, time_t before)
{
	CLEANUP_DIR DIR *notes = dmem_notes_open_dir(runtime);
	const char *note;
	char dir[PATH_MAX];
	struct stat st;

	while ((note = dir_next(notes)))
		if (!fstatat(dirfd(notes), note, &st, AT_SYMLINK_NOFOLLOW) &&
		    S_ISLNK(st.st_mode) && st.st_mtime <= before)
			dmem_note_end(dirfd(notes), note);
	if (notes && !dmem_notes_dir(runtime, dir))
		rmdir(dir);
}
