/* SPDX-License-Identifier: Apache-2.0 */
#include "base/guarded.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/userns.h"

#define LINKS_MOST 40 /* as the kernel follows */

/*
 * The walk goes from name to name, each opened from the folder before it: nobody can exchange a
 * folder between its check and its use.
 */
struct walk {
	int dir;	     /* the folder that was reached */
	char at[PATH_MAX];   /* its path; "": the root */
	char rest[PATH_MAX]; /* the rest of the path */
	size_t own;	     /* bytes at its end that are the caller's, not a link's */
	unsigned int links;  /* that were followed */
	struct guarded_why *why;
};

static int guarded_refuse(const struct walk *walk, int error, const char *name, const char *words)
{
	int n = snprintf(walk->why->path, sizeof(walk->why->path), "%s/%s", walk->at, name);

	if (n < 0 || (size_t)n >= sizeof(walk->why->path))
		return -ENAMETOOLONG;
	walk->why->words = words;
	return error;
}

/* In a user namespace root outside is nobody. */
static bool guarded_is_ours(const struct stat *st)
{
	return st->st_uid == 0 || st->st_uid == geteuid() ||
	       (st->st_uid == USERNS_OVERFLOW_UID && userns_is_nested());
}

static bool guarded_is_read_only(int fd)
{
	struct statvfs fs;

	return fstatvfs(fd, &fs) == 0 && (fs.f_flag & ST_RDONLY);
}

static int guarded_check(const struct walk *walk, int fd, const char *name, const struct stat *st)
{
	bool others_write = st->st_mode & (S_IWGRP | S_IWOTH);

	if (!guarded_is_ours(st))
		return guarded_refuse(walk, -EPERM, name, "another user owns it");
	if (S_ISLNK(st->st_mode) || !others_write)
		return 0;
	if (!S_ISDIR(st->st_mode))
		return guarded_refuse(walk, -EPERM, name, "others may write it");
	if ((st->st_mode & S_ISVTX) || guarded_is_read_only(fd))
		return 0;
	return guarded_refuse(walk, -EPERM, name, "others may write this folder, and so exchange what is in it");
}

/* Takes the next name from `rest`. "": there is none. */
static int guarded_next(struct walk *walk, char ret[static NAME_MAX + 1])
{
	size_t len, skip = strspn(walk->rest, "/");

	memmove(walk->rest, walk->rest + skip, strlen(walk->rest + skip) + 1);
	len = strcspn(walk->rest, "/");
	if (len > NAME_MAX)
		return -ENAMETOOLONG;
	memcpy(ret, walk->rest, len);
	ret[len] = '\0';
	memmove(walk->rest, walk->rest + len, strlen(walk->rest + len) + 1);
	return 0;
}

static int guarded_go_to_root(struct walk *walk)
{
	CLEANUP_CLOSE int fd = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
	struct stat st;

	if (fd < 0 || fstat(fd, &st) < 0)
		return err_errno();
	cleanup_close(&walk->dir);
	walk->dir = TAKE_FD(fd);
	walk->at[0] = '\0';
	return guarded_check(walk, walk->dir, "", &st);
}

static void guarded_note_folder(struct walk *walk, const char *name)
{
	char *slash = strrchr(walk->at, '/');

	if (!strcmp(name, "..") && slash)
		*slash = '\0';
	else if (strcmp(name, "..") != 0)
		snprintf(walk->at + strlen(walk->at), sizeof(walk->at) - strlen(walk->at), "/%s", name);
}

static int guarded_check_opened(const struct walk *walk, int fd, const char *name)
{
	struct stat st;

	return fstat(fd, &st) < 0 ? err_errno() : guarded_check(walk, fd, name, &st);
}

/* A pipe that a shell hands over (/dev/stdin) is a link of procfs that is no path. */
static bool guarded_is_pipe(int link, const char *target)
{
	struct statfs fs;

	return !strncmp(target, "pipe:[", 6) && fstatfs(link, &fs) == 0 && fs.f_type == PROC_SUPER_MAGIC;
}

static int guarded_open_pipe(const struct walk *walk, const char *name)
{
	CLEANUP_CLOSE int fd = openat(walk->dir, name, O_RDONLY | O_CLOEXEC);
	int r = fd < 0 ? err_errno() : guarded_check_opened(walk, fd, name);

	return r < 0 ? r : TAKE_FD(fd);
}

static int guarded_follow(struct walk *walk, int link, const char *name)
{
	char target[PATH_MAX], rest[PATH_MAX];
	ssize_t n = fd_read_link(link, "", target, sizeof(target));

	if (n < 0)
		return (int)n;
	if (guarded_is_pipe(link, target))
		return guarded_open_pipe(walk, name);
	if (++walk->links > LINKS_MOST)
		return guarded_refuse(walk, -ELOOP, name, strerror(ELOOP));
	strcpy(rest, walk->rest);
	if (strlen(rest) < walk->own)
		walk->own = strlen(rest);
	n = snprintf(walk->rest, sizeof(walk->rest), "%s/%s", target, rest);
	if (n < 0 || (size_t)n >= sizeof(walk->rest))
		return -ENAMETOOLONG;
	return *target == '/' ? guarded_go_to_root(walk) : 0;
}

/* Opens the file itself: the opened file is checked. */
static int guarded_open_file(const struct walk *walk, const char *name)
{
	CLEANUP_CLOSE int fd = fd_openat(walk->dir, name, O_RDONLY, 0);
	int r = fd < 0 ? fd : guarded_check_opened(walk, fd, name);

	return r < 0 ? r : TAKE_FD(fd);
}

/* With the name taken: the path's own may be missing, a link's may not. */
static int guarded_missing(const struct walk *walk, int error, const char *name)
{
	if (error != -ENOENT || strlen(walk->rest) < walk->own)
		return error;
	return guarded_refuse(walk, -ENOLINK, name, "a symbolic link leads there, and nothing is there");
}

/* Goes one name on. Returns 0, or the descriptor of the file at the path's end. */
static int guarded_step(struct walk *walk, const char *name)
{
	CLEANUP_CLOSE int fd = openat(walk->dir, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	struct stat st;
	int r;

	if (fd < 0)
		return guarded_missing(walk, err_errno(), name);
	if (fstat(fd, &st) < 0)
		return err_errno();
	/* The owner is checked before the file is opened: opening a stranger's pipe waits for a writer. */
	r = guarded_check(walk, fd, name, &st);
	if (r < 0)
		return r;
	if (!S_ISDIR(st.st_mode) && !S_ISLNK(st.st_mode))
		return walk->rest[strspn(walk->rest, "/")] ? -ENOTDIR : guarded_open_file(walk, name);
	if (S_ISLNK(st.st_mode))
		return guarded_follow(walk, fd, name);
	guarded_note_folder(walk, name);
	cleanup_close(&walk->dir);
	walk->dir = TAKE_FD(fd);
	return 0;
}

static int guarded_begin(struct walk *walk, const char *path)
{
	char here[PATH_MAX] = "";
	int n;

	if (*path != '/' && !getcwd(here, sizeof(here)))
		return err_errno();
	n = snprintf(walk->rest, sizeof(walk->rest), "%s/%s", here, path);
	walk->own = strlen(walk->rest);
	return n < 0 || (size_t)n >= sizeof(walk->rest) ? -ENAMETOOLONG : guarded_go_to_root(walk);
}

int guarded_open(const char *path, struct guarded_why *why)
{
	struct walk walk = {.dir = -EBADF, .why = why};
	char name[NAME_MAX + 1];
	int r = guarded_begin(&walk, path);

	while (r == 0) {
		r = guarded_next(&walk, name);
		if (r == 0 && !*name)
			r = -EISDIR;
		else if (r == 0 && strcmp(name, ".") != 0)
			r = guarded_step(&walk, name);
	}
	cleanup_close(&walk.dir);
	return r;
}
