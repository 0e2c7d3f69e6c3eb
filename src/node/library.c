/* SPDX-License-Identifier: Apache-2.0 */
#include "node/library.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"

static int library_binary_dir(char ret[static PATH_MAX])
{
	char path[PATH_MAX];
	ssize_t n = fd_read_link(AT_FDCWD, "/proc/self/exe", path, sizeof(path));

	if (n < 0)
		return (int)n;
	*strrchr(path, '/') = 0;
	memcpy(ret, path, sizeof(path));
	return 0;
}

/*
 * The first of `places`, relative to the binary, that holds `file`. ALLOT_LIBDIR is the library
 * directory relative to the prefix.
 */
static int library_search(const char *const places[], const char *file, char ret[static PATH_MAX])
{
	char dir[PATH_MAX], path[PATH_MAX * 2], real[PATH_MAX];
	int r = library_binary_dir(dir);

	if (r < 0)
		return r;
	for (; *places; places++) {
		snprintf(path, sizeof(path), "%s/%s/%s", dir, *places, file);
		if (!access(path, R_OK) && realpath(path, real)) {
			memcpy(ret, real, sizeof(real));
			return 0;
		}
	}
	return -ENOENT;
}

int library_find(char ret[static PATH_MAX])
{
	static const char *const places[] = {"../guest", "../" ALLOT_LIBDIR, "../lib", NULL};
	const char *chosen = getenv("ALLOT_LIBRARY");
	char path[PATH_MAX];
	int r = 0;

	if (chosen && *chosen) {
		if (access(chosen, R_OK) < 0 || !realpath(chosen, path))
			return -errno;
	} else {
		r = library_search(places, "liballot.so", path);
	}
	if (r < 0)
		return r;
	memcpy(ret, path, sizeof(path));
	return strpbrk(path, " :") ? -EINVAL : 0;
}

static int library_is_kept(const struct dirent *entry)
{
	return !strncmp(entry->d_name, "liballot-", strlen("liballot-"));
}

/* By what it is, and not by its content, which would have to be read at each start. */
void library_find_kept(char path[static PATH_MAX])
{
	char dir[PATH_MAX], kept[2 * PATH_MAX];
	struct dirent **files = NULL;
	struct stat own, other;
	int n;

	snprintf(dir, sizeof(dir), "%.*s/allot/kept", (int)(strrchr(path, '/') - path), path);
	n = stat(path, &own) < 0 ? 0 : scandir(dir, &files, library_is_kept, alphasort);
	for (int i = 0; i < n; i++) {
		snprintf(kept, sizeof(kept), "%s/%s", dir, files[i]->d_name);
		if (!lstat(kept, &other) && fd_is_same(&other, &own) && strlen(kept) < PATH_MAX)
			strcpy(path, kept);
		free(files[i]);
	}
	free(files);
}

/* A path from the root: CRIU goes to the folder of its images before it looks. */
int library_criu_plugin(unsigned int hooks, char ret[static PATH_MAX])
{
	static const char *const places[] = {"../criu", "../" ALLOT_LIBDIR "/allot", "../lib/allot",
					     NULL};
	const char *chosen = getenv("ALLOT_CRIU_PLUGINS");
	char name[32], path[2 * PATH_MAX], real[PATH_MAX];
	int r = 0;

	snprintf(name, sizeof(name), "criu-%u", hooks);
	snprintf(path, sizeof(path), "%s/%s", chosen ? chosen : "", name);
	if (!chosen || !*chosen)
		r = library_search(places, name, real);
	else if (!realpath(path, real))
		r = -errno;
	if (r < 0)
		return r;
	snprintf(path, sizeof(path), "%s/allot_amdgpu.so", real);
	if (access(path, R_OK) < 0)
		return -ENOENT;
	memcpy(ret, real, sizeof(real));
	return 0;
}

int library_command(char ret[static PATH_MAX])
{
	static const char *const places[] = {"../bin", "../cli", NULL};

	return library_search(places, "allot", ret);
}

int library_daemon(char ret[static PATH_MAX])
{
	static const char *const places[] = {"../daemon", "../" ALLOT_SBINDIR, "../sbin", "../bin", NULL};

	return library_search(places, "allotd", ret);
}

int library_program(const char *name, char ret[static PATH_MAX])
{
	static const char *const places[] = {"../tools", "../" ALLOT_LIBEXECDIR "/allot",
					     "../libexec/allot", NULL};

	return library_search(places, name, ret);
}

int library_preload_list(char ret[static PATH_MAX])
{
	static const char *const places[] = {"../cdi", "../" ALLOT_LIBDIR "/allot", "../lib/allot",
					     NULL};

	return library_search(places, "ld.so.preload", ret);
}

int library_sim_dir(char ret[static PATH_MAX])
{
	static const char *const places[] = {"../../sim", "../" ALLOT_LIBDIR "/allot/sim",
					     "../lib/allot/sim", NULL};
	const char *chosen = getenv("ALLOT_SIM_LIBRARY_DIR");
	char path[PATH_MAX];
	int r;

	if (chosen && *chosen) {
		snprintf(path, sizeof(path), "%s/libcuda.so.1", chosen);
		if (access(path, R_OK) < 0 || !realpath(chosen, path))
			return -errno;
		memcpy(ret, path, sizeof(path));
		return 0;
	}
	r = library_search(places, "libcuda.so.1", path);
	if (r < 0)
		return r;
	/* libcuda.so.1 is a plain file there, so its directory survives realpath(). */
	*strrchr(path, '/') = 0;
	memcpy(ret, path, sizeof(path));
	return 0;
}
