/* SPDX-License-Identifier: Apache-2.0 */
#include "base/guarded.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/check.h"
#include "tests/files.h"

static char top[] = "/tmp/allot-guarded-XXXXXX";
static struct guarded_why why;

static void put(const char *name, mode_t mode)
{
	int fd = open(name, O_WRONLY | O_CREAT | O_EXCL, 0600);

	CHECK(fd >= 0);
	CHECK_EQ(fchmod(fd, mode), 0);
	close(fd);
}

static void folder(const char *name, mode_t mode)
{
	CHECK_EQ(mkdir(name, 0700), 0);
	CHECK_EQ(chmod(name, mode), 0);
}

/* Returns the error of opening it, or 0; no descriptor stays open. */
static int answer(const char *path)
{
	int files = count_files(), fd;

	why.words = NULL;
	fd = guarded_open(path, &why);
	if (fd >= 0)
		close(fd);
	CHECK_EQ(count_files(), files);
	return fd < 0 ? fd : 0;
}

static void check_refused(const char *path, int error, const char *at)
{
	char whole[PATH_MAX];

	CHECK_EQ(answer(path), error);
	CHECK(why.words);
	snprintf(whole, sizeof(whole), "%s/%s", top, at);
	CHECK(!strcmp(why.path, whole));
}

static void check_modes(void)
{
	put("good", 0644);
	put("open", 0666);
	put("group", 0660);
	CHECK_EQ(answer("good"), 0);
	check_refused("open", -EPERM, "open");
	check_refused("group", -EPERM, "group");
	CHECK_EQ(answer("none"), -ENOENT);
	CHECK(!why.words);
	CHECK_EQ(answer("good/x"), -ENOTDIR);
	CHECK_EQ(answer("."), -EISDIR);
}

static void check_folders(void)
{
	folder("shared", 0777);
	put("shared/file", 0644);
	folder("shared/own", 0755);
	put("shared/own/file", 0644);
	folder("sticky", 01777);
	put("sticky/file", 0644);
	check_refused("shared/file", -EPERM, "shared");
	check_refused("shared/own/file", -EPERM, "shared");
	check_refused("./shared//../good", -EPERM, "shared");
	CHECK_EQ(answer("sticky/file"), 0);
	CHECK_EQ(answer("sticky/../good"), 0);
}

static void check_links(void)
{
	char whole[PATH_MAX];

	CHECK_EQ(symlink("good", "link"), 0);
	CHECK_EQ(symlink("link", "link2"), 0);
	CHECK_EQ(symlink("shared/own", "way"), 0);
	CHECK_EQ(symlink("nothing", "dangling"), 0);
	CHECK_EQ(symlink("round", "round"), 0);
	snprintf(whole, sizeof(whole), "%s/open", top);
	CHECK_EQ(symlink(whole, "far"), 0);
	CHECK_EQ(answer("link2"), 0);
	check_refused("far", -EPERM, "open");
	check_refused("way/file", -EPERM, "shared");
	check_refused("dangling", -ENOLINK, "nothing");
	check_refused("round", -ELOOP, "round");
	/* A name of the path itself may be missing, behind a folder's link, too. */
	CHECK_EQ(symlink("sticky", "there"), 0);
	CHECK_EQ(symlink("nowhere/x", "gone"), 0);
	CHECK_EQ(answer("there/none"), -ENOENT);
	CHECK_EQ(answer("there/none/file"), -ENOENT);
	CHECK(!why.words);
	check_refused("gone/file", -ENOLINK, "nowhere");
}

/* Of a folder that all may write, the owner of what is in it counts: a link of another's, too. */
static void check_owners(void)
{
	if (geteuid())
		return;
	put("theirs", 0644);
	CHECK_EQ(chown("theirs", 12345, 12345), 0);
	check_refused("theirs", -EPERM, "theirs");
	CHECK_EQ(symlink("../good", "sticky/link"), 0);
	CHECK_EQ(answer("sticky/link"), 0);
	CHECK_EQ(lchown("sticky/link", 12345, 12345), 0);
	check_refused("sticky/link", -EPERM, "sticky/link");
	/* Opened, it would wait for somebody who writes. */
	CHECK_EQ(mkfifo("sticky/pipe", 0600), 0);
	CHECK_EQ(lchown("sticky/pipe", 12345, 12345), 0);
	check_refused("sticky/pipe", -EPERM, "sticky/pipe");
	folder("home", 0755);
	put("home/file", 0644);
	CHECK_EQ(chown("home", 12345, 12345), 0);
	check_refused("home/file", -EPERM, "home");
}

static void check_pipe(void)
{
	int ends[2];
	char path[32];

	CHECK_EQ(pipe(ends), 0);
	snprintf(path, sizeof(path), "/dev/fd/%d", ends[0]);
	CHECK_EQ(answer(path), 0);
	close(ends[0]);
	close(ends[1]);
}

int main(void)
{
	CHECK(mkdtemp(top));
	CHECK_EQ(chdir(top), 0);
	check_modes();
	check_folders();
	check_links();
	check_owners();
	check_pipe();
	CHECK_EQ(chdir("/"), 0);
	return execlp("rm", "rm", "-r", top, NULL);
}
