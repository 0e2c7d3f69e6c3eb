/* SPDX-License-Identifier: Apache-2.0 */
/*
 * To be preloaded: makes a directory of plain files, ALLOT_CGROUP_ROOT, behave as the kernel's tree
 * of cgroups as far as allot uses it. A process is in the cgroup that <root>/self names, until it
 * moves. Regions of device memory are those of <root>/dmem.capacity; a file dmem.current in a
 * cgroup says what is in use there. <root>/no-reclaim is a kernel that lowers no limit below that.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define TEXT 4096

static const char *const files[] = {"cgroup.procs", "cgroup.subtree_control", "dmem.max",
				    "dmem.current"};

static int fail(int error)
{
	errno = error;
	return -1;
}

/* Of a path inside the tree what is behind the root, "" or with a slash; NULL for others. */
static const char *inside(const char *path)
{
	const char *root = getenv("ALLOT_CGROUP_ROOT");
	size_t len = root ? strlen(root) : 0;

	if (!len || strncmp(path, root, len) || (path[len] && path[len] != '/'))
		return NULL;
	return path + len;
}

static void file_in(const char *dir, const char *name, char ret[PATH_MAX])
{
	snprintf(ret, PATH_MAX, "%.3800s/%.200s", dir, name);
}

/* By system calls, since the functions are ours. */
static bool get(const char *dir, const char *name, char text[TEXT])
{
	char path[PATH_MAX];
	ssize_t n = -1;
	int fd;

	file_in(dir, name, path);
	fd = (int)syscall(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC);
	if (fd >= 0) {
		n = syscall(SYS_read, fd, text, TEXT - 1);
		close(fd);
	}
	text[n < 0 ? 0 : n] = '\0';
	return n >= 0;
}

static void put(const char *dir, const char *name, const char *text)
{
	char path[PATH_MAX];
	int fd;

	file_in(dir, name, path);
	fd = (int)syscall(SYS_openat, AT_FDCWD, path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC,
			  0644);
	if (fd < 0 || syscall(SYS_write, fd, text, strlen(text)) != (ssize_t)strlen(text))
		abort();
	close(fd);
}

/* The number behind a region in a file of regions; "max" is the most. */
static unsigned long long amount(const char *text, const char *region)
{
	size_t len = strlen(region);

	for (; text && *text; text = strchr(text, '\n'), text += text != NULL)
		if (!strncmp(text, region, len) && text[len] == ' ')
			return strncmp(text + len + 1, "max", 3) ? strtoull(text + len, NULL, 10)
								 : ULLONG_MAX;
	return 0;
}

/* The root that a container is shown is none: it has a type, as all have but the first. */
static bool is_root(const char *dir)
{
	char text[TEXT];

	return !*inside(dir) && !get(dir, "cgroup.type", text);
}

static bool passes_on(const char *dir)
{
	char text[TEXT];

	return get(dir, "cgroup.subtree_control", text) && strstr(text, "dmem");
}

static void above(const char *dir, char ret[PATH_MAX])
{
	snprintf(ret, PATH_MAX, "%s", dir);
	*strrchr(ret, '/') = '\0';
}

static bool has_controller(const char *dir)
{
	char parent[PATH_MAX];

	if (!*inside(dir))
		return true;
	above(dir, parent);
	return passes_on(parent);
}

/* All regions without a limit. */
static void make_max(const char *dir)
{
	char capacity[TEXT], text[TEXT] = "", *rest = capacity, *line;

	get(getenv("ALLOT_CGROUP_ROOT"), "dmem.capacity", capacity);
	while ((line = strsep(&rest, "\n")))
		if (*line)
			snprintf(text + strlen(text), TEXT - strlen(text), "%.*s max\n",
				 (int)strcspn(line, " "), line);
	put(dir, "dmem.max", text);
}

/* The number of processes that live; of a test's own, "1" is one. */
static int population(const char *dir)
{
	char text[TEXT], *rest = text, *line;
	int n = 0;

	get(dir, "cgroup.procs", text);
	while ((line = strsep(&rest, "\n")))
		n += *line && !kill((pid_t)atol(line), 0);
	return n;
}

static long moving;

static int forget(const char *path, const struct stat *st, int kind, struct FTW *at)
{
	char text[TEXT], left[TEXT] = "", dir[PATH_MAX], *rest = text, *line;

	(void)st;
	if (kind != FTW_F || strcmp(path + at->base, files[0]) != 0)
		return 0;
	above(path, dir);
	get(dir, files[0], text);
	while ((line = strsep(&rest, "\n")))
		if (*line && atol(line) != moving)
			snprintf(left + strlen(left), TEXT - strlen(left), "%s\n", line);
	put(dir, files[0], left);
	return 0;
}

static int move(const char *dir)
{
	char text[TEXT];

	if (!is_root(dir) && passes_on(dir))
		return fail(EBUSY);
	moving = (long)getpid();
	nftw(getenv("ALLOT_CGROUP_ROOT"), forget, 16, FTW_PHYS);
	get(dir, files[0], text);
	snprintf(text + strlen(text), TEXT - strlen(text), "%ld\n", moving);
	put(dir, files[0], text);
	return 0;
}

static const char *changed;

static int change_child(const char *path, const struct stat *st, int kind, struct FTW *at)
{
	char max[PATH_MAX];

	(void)st;
	if (kind != FTW_D || at->level != 1)
		return 0;
	file_in(path, "dmem.max", max);
	if (*changed == '+')
		make_max(path);
	else
		unlink(max);
	return 0;
}

static int control(const char *dir, const char *text)
{
	if (strcmp(text, "+dmem") != 0 && strcmp(text, "-dmem") != 0)
		return fail(EINVAL);
	if (!has_controller(dir))
		return fail(ENOENT);
	if (*text == '+' && !is_root(dir) && population(dir))
		return fail(EBUSY);
	put(dir, "cgroup.subtree_control", *text == '+' ? "dmem\n" : "");
	changed = text;
	nftw(dir, change_child, 16, FTW_PHYS);
	return 0;
}

static int limit(const char *dir, char *text)
{
	char capacity[TEXT], old[TEXT], new[TEXT] = "", use[TEXT], *rest = old, *line, *end;
	const char *root = getenv("ALLOT_CGROUP_ROOT"), *region = strsep(&text, " ");
	bool max = text && !strcmp(text, "max");
	unsigned long long bytes = text ? strtoull(text, &end, 10) : 0;

	get(root, "dmem.capacity", capacity);
	if (!text || (!max && (*end || end == text)) || !amount(capacity, region))
		return fail(EINVAL);
	get(dir, "dmem.current", use);
	if (!max && bytes < amount(use, region) && get(root, "no-reclaim", new))
		return 0;
	new[0] = '\0';
	get(dir, "dmem.max", old);
	while ((line = strsep(&rest, "\n"))) {
		size_t len = strlen(region), at = strlen(new);

		if (!strncmp(line, region, len) && line[len] == ' ')
			snprintf(new + at, TEXT - at, "%s %s\n", region, text);
		else if (*line)
			snprintf(new + at, TEXT - at, "%s\n", line);
	}
	put(dir, "dmem.max", new);
	return 0;
}

static bool path_of(int fd, char ret[PATH_MAX])
{
	char link[64];
	ssize_t n;

	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	n = syscall(SYS_readlinkat, AT_FDCWD, link, ret, PATH_MAX - 1);
	ret[n < 0 ? 0 : n] = '\0';
	return n > 0;
}

/* What is written to a file of a cgroup is an order to the kernel. */
ssize_t write(int fd, const void *buf, size_t len)
{
	char path[PATH_MAX], text[TEXT], *name;
	int saved = errno, r;

	if (!path_of(fd, path) || !inside(path) || len >= TEXT) {
		errno = saved;
		return syscall(SYS_write, fd, buf, len);
	}
	memcpy(text, buf, len);
	text[len] = '\0';
	name = strrchr(path, '/');
	*name++ = '\0';
	if (!strcmp(name, "cgroup.procs"))
		r = strcmp(text, "0") ? fail(ESRCH) : move(path);
	else if (!strcmp(name, "cgroup.subtree_control"))
		r = control(path, text);
	else
		r = strcmp(name, "dmem.max") ? fail(EINVAL) : limit(path, text);
	return r < 0 ? -1 : (ssize_t)len;
}

/* /proc/self/cgroup is what the test says, of the same length or longer than what is there. */
ssize_t read(int fd, void *buf, size_t len)
{
	char path[PATH_MAX], text[TEXT];
	ssize_t n = syscall(SYS_read, fd, buf, len);
	int saved = errno;

	if (n > 0 && path_of(fd, path) && !strncmp(path, "/proc/", 6) &&
	    !strcmp(strrchr(path, '/'), "/cgroup") &&
	    get(getenv("ALLOT_CGROUP_ROOT"), "self", text) && strlen(text) <= len) {
		n = (ssize_t)strlen(text);
		memcpy(buf, text, (size_t)n);
	}
	errno = saved;
	return n;
}

int mkdir(const char *path, mode_t mode)
{
	int r = (int)syscall(SYS_mkdirat, AT_FDCWD, path, mode);

	if (r == 0 && inside(path)) {
		put(path, files[0], "");
		put(path, files[1], "");
		if (has_controller(path))
			make_max(path);
	}
	return r;
}

/* Only if nobody is in it and nothing below it; its files go with it. */
int rmdir(const char *path)
{
	char file[PATH_MAX];
	struct stat st;

	if (inside(path) && !stat(path, &st)) {
		if (population(path) || st.st_nlink > 2)
			return fail(EBUSY);
		for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
			file_in(path, files[i], file);
			unlink(file);
		}
	}
	return (int)syscall(SYS_unlinkat, AT_FDCWD, path, AT_REMOVEDIR);
}
