/* SPDX-License-Identifier: Apache-2.0 */
#include "cdi/spec.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/fd.h"
#include "text/json.h"
#include "text/units.h"

#define VERSION "0.5.0" /* the oldest that knows all that is in a file of ours */

/* Runtimes read all files that end in ".json" or ".yaml". */
#define FILE_BEGIN CDI_VENDOR "-%s-"
#define FILE_END   ".json"
#define FRESH_END  ".XXXXXX" /* of a file that is being written, as mkostemp has it */

int cdi_spec_dir(char ret[static PATH_MAX])
{
	const char *config = getenv("XDG_CONFIG_HOME"), *home = getenv("HOME");
	int n;

	if (geteuid() == 0)
		n = snprintf(ret, PATH_MAX, "/etc/cdi");
	else if (config && *config == '/')
		n = snprintf(ret, PATH_MAX, "%s/cdi", config);
	else if (home && *home == '/')
		n = snprintf(ret, PATH_MAX, "%s/.config/cdi", home);
	else
		return -ENOENT;
	return n < PATH_MAX ? 0 : -ENAMETOOLONG;
}

static int spec_path(const char *dir, const char *class, const char *name, const char *end,
		     char ret[static PATH_MAX])
{
	return snprintf(ret, PATH_MAX, "%s/" FILE_BEGIN "%s%s", dir, class, name, end) < PATH_MAX
		       ? 0
		       : -ENAMETOOLONG;
}

static void spec_put_mount(struct json *j, const char *host, const char *container)
{
	static const char *const options[] = {"ro", "bind", "nosuid", "nodev"};

	json_open(j, NULL, '{');
	json_text(j, "hostPath", host);
	json_text(j, "containerPath", container);
	json_open(j, "options", '[');
	for (size_t i = 0; i < sizeof(options) / sizeof(options[0]); i++)
		json_text(j, NULL, options[i]);
	json_close(j, ']');
	json_close(j, '}');
}

static void spec_put_node(struct json *j, const char *path)
{
	json_open(j, NULL, '{');
	json_text(j, "path", path);
	json_close(j, '}');
}

static void spec_put_nodes(struct json *j, const struct devices *devices)
{
	bool first = true;
	char path[64];

	for (unsigned int i = 0; i < devices->n; i++) {
		if (devices->list[i].vendor != DEVICE_AMD)
			continue;
		if (first) {
			json_open(j, "deviceNodes", '[');
			spec_put_node(j, "/dev/kfd");
			first = false;
		}
		snprintf(path, sizeof(path), "/dev/dri/renderD%u", devices->list[i].render_minor);
		spec_put_node(j, path);
	}
	if (!first)
		json_close(j, ']');
}

/* "GPU-...,GPU-...": all of them, or NVIDIA's. */
static void spec_list_uuids(const struct devices *devices, bool nvidia_alone,
			    char ret[static POLICY_DEVICES * sizeof(struct units_text)])
{
	char *end = ret;

	*ret = '\0';
	for (unsigned int i = 0; i < devices->n; i++)
		if (!nvidia_alone || devices->list[i].vendor == DEVICE_NVIDIA)
			end += sprintf(end, "%s%s", end > ret ? "," : "",
				       units_uuid(devices->list[i].uuid).s);
}

/* NVIDIA's, if there are any. */
static void spec_put_visible(struct json *j, const struct cdi_spec *spec, const char *variable)
{
	char uuids[POLICY_DEVICES * sizeof(struct units_text)];
	char text[64 + sizeof(uuids)];

	spec_list_uuids(spec->devices, true, uuids);
	snprintf(text, sizeof(text), "%s=%s", variable, uuids);
	if (*uuids)
		json_text(j, NULL, text);
}

static void spec_put_env(struct json *j, const struct cdi_spec *spec)
{
	json_open(j, "env", '[');
	json_text(j, NULL, "ALLOT_TENANT_DIR=" CDI_TENANT);
	if (spec->named)
		spec_put_visible(j, spec, "CUDA_VISIBLE_DEVICES");
	if (spec->by_variable)
		spec_put_visible(j, spec, "NVIDIA_VISIBLE_DEVICES");
	json_close(j, ']');
}

static void spec_put_option(struct json *j, const struct cdi_option *option)
{
	json_text(j, NULL, option->option);
	if (option->value)
		json_text(j, NULL, option->value);
}

static void spec_put_hook(struct json *j, const struct cdi_spec *spec)
{
	char uuids[POLICY_DEVICES * sizeof(struct units_text)];

	spec_list_uuids(spec->devices, false, uuids);
	json_open(j, NULL, '{');
	json_text(j, "hookName", "createRuntime");
	json_text(j, "path", spec->command);
	json_open(j, "args", '[');
	json_text(j, NULL, "allot");
	json_text(j, NULL, "cdi");
	json_text(j, NULL, "hook");
	if (spec->named)
		spec_put_option(j, &(struct cdi_option){"--gpu", uuids});
	for (size_t i = 0; i < spec->noptions; i++)
		spec_put_option(j, &spec->options[i]);
	json_close(j, ']');
	json_close(j, '}');
}

static void spec_begin(struct json *j, const char *class, const char *name)
{
	char kind[64];

	snprintf(kind, sizeof(kind), CDI_VENDOR "/%s", class);
	json_open(j, NULL, '{');
	json_text(j, "cdiVersion", VERSION);
	json_text(j, "kind", kind);
	json_open(j, "devices", '[');
	json_open(j, NULL, '{');
	json_text(j, "name", name);
	json_open(j, "containerEdits", '{');
}

static void spec_end(struct json *j)
{
	json_close(j, '}');
	json_close(j, '}');
	json_close(j, ']');
	json_close(j, '}');
}

/* A device without edits is none. */
static void spec_print_beside(const struct cdi_spec *spec, FILE *out)
{
	struct json j = {.out = out};
	char env[2 * PATH_MAX];

	snprintf(env, sizeof(env), "ALLOT_BESIDE=%s", spec->beside);
	spec_begin(&j, spec->class, spec->name);
	json_open(&j, "env", '[');
	json_text(&j, NULL, env);
	json_close(&j, ']');
	spec_end(&j);
}

static void spec_print(const struct cdi_spec *spec, FILE *out)
{
	struct json j = {.out = out};

	spec_begin(&j, spec->class, spec->name);
	spec_put_env(&j, spec);
	spec_put_nodes(&j, spec->devices);
	json_open(&j, "mounts", '[');
	spec_put_mount(&j, spec->library, CDI_LIBRARY);
	spec_put_mount(&j, spec->preload, CONTAINER_PRELOAD);
	if (spec->xpu)
		spec_put_mount(&j, spec->xpu, CDI_XPU);
	json_close(&j, ']');
	json_open(&j, "hooks", '[');
	spec_put_hook(&j, spec);
	json_close(&j, ']');
	spec_end(&j);
}

/* The descriptor is closed, whatever the answer. */
static int spec_fill(int fd, const struct cdi_spec *spec)
{
	FILE *out = fd < 0 ? NULL : fdopen(fd, "w");
	int r = 0;

	if (!out) {
		if (fd >= 0)
			close(fd);
		return -ENOMEM;
	}
	if (spec->beside)
		spec_print_beside(spec, out);
	else
		spec_print(spec, out);
	/* For every user's runtime to read. */
	if (fflush(out) || ferror(out) || fchmod(fd, 0644) < 0 || fsync(fd) < 0)
		r = err_errno();
	if (fclose(out) && r == 0)
		r = err_errno();
	return r;
}

/* Makes the directory and its parents, whatever the umask: others' runtimes read it, too. */
static int spec_make_dir(const char *dir)
{
	char path[PATH_MAX];

	snprintf(path, sizeof(path), "%s", dir);
	for (char *end = strchr(path + 1, '/'); end; end = strchr(end + 1, '/')) {
		*end = '\0';
		if (mkdir(path, 0755) < 0 && errno != EEXIST)
			return err_errno();
		*end = '/';
	}
	if (mkdir(dir, 0755) == 0)
		return chmod(dir, 0755) < 0 ? err_errno() : 0;
	return errno == EEXIST ? 0 : err_errno();
}

/*
 * Locks the file for its writer: cdi_spec_sweep skips locked files. -EAGAIN: it was removed before
 * that.
 */
static int spec_lock(int fd)
{
	struct stat st;

	if (flock(fd, LOCK_EX) < 0 || fstat(fd, &st) < 0)
		return err_errno();
	return st.st_nlink ? 0 : -EAGAIN;
}

/* Makes a file beside the one of that name. Returns its descriptor, or -errno. */
static int spec_make_fresh(const char *dir, const struct cdi_spec *spec, char ret_fresh[static PATH_MAX])
{
	int fd, r;

	do {
		r = spec_path(dir, spec->class, spec->name, FRESH_END, ret_fresh);
		if (r < 0)
			return r;
		fd = mkostemp(ret_fresh, O_CLOEXEC);
		if (fd < 0)
			return err_errno();
		r = spec_lock(fd);
		if (r < 0)
			close(fd);
	} while (r == -EAGAIN);
	if (r < 0)
		unlink(ret_fresh);
	return r < 0 ? r : fd;
}

int cdi_spec_write(const char *dir, const struct cdi_spec *spec)
{
	char path[PATH_MAX], fresh[PATH_MAX];
	CLEANUP_CLOSE int locked = -EBADF;
	int r = spec_path(dir, spec->class, spec->name, FILE_END, path);

	if (r == 0)
		r = spec_make_dir(dir);
	if (r < 0)
		return r;
	locked = spec_make_fresh(dir, spec, fresh);
	if (locked < 0)
		return locked;
	/* The lock lasts until the file has its name. */
	r = spec_fill(fcntl(locked, F_DUPFD_CLOEXEC, 0), spec);
	if (r == 0 && rename(fresh, path) < 0)
		r = err_errno();
	if (r < 0)
		unlink(fresh);
	return r;
}

int cdi_spec_write_beside(const char *dir, const char *class, const char *name, const char *of)
{
	return cdi_spec_write(dir, &(struct cdi_spec){.class = class, .name = name, .beside = of});
}

int cdi_spec_path(const char *dir, const char *class, const char *name, char ret[static PATH_MAX])
{
	return spec_path(dir, class, name, FILE_END, ret);
}

/* The name in a file's name, which is cut; NULL: it is none of that class. */
static char *spec_name(char *file, const char *class)
{
	char begin[64];
	size_t len = strlen(file), skip, end = strlen(FILE_END);

	snprintf(begin, sizeof(begin), FILE_BEGIN, class);
	skip = strlen(begin);
	if (len <= skip + end || strncmp(file, begin, skip) || strcmp(file + len - end, FILE_END))
		return NULL;
	file[len - end] = '\0';
	return file + skip;
}

int cdi_spec_list(const char *dir, const char *class, int (*fn)(const char *name, void *arg), void *arg)
{
	struct dirent **files = NULL;
	int n = scandir(dir, &files, NULL, alphasort), r = 0;

	if (n < 0)
		return errno == ENOENT ? 0 : err_errno();
	for (int i = 0; i < n; i++) {
		char *name = spec_name(files[i]->d_name, class);

		if (!r && name)
			r = fn(name, arg);
		free(files[i]);
	}
	free(files);
	return r;
}

static bool spec_is_fresh(const char *file, const char *class)
{
	char begin[64];
	size_t len = strlen(file), end = strlen(FRESH_END);

	snprintf(begin, sizeof(begin), FILE_BEGIN, class);
	return len > strlen(begin) + end && !strncmp(file, begin, strlen(begin)) && file[len - end] == '.' &&
	       !strpbrk(&file[len - end + 1], "._-");
}

/* A writer that lives has the lock. */
static void spec_sweep_one(int dir, const char *file)
{
	CLEANUP_CLOSE int fd = fd_openat(dir, file, O_RDONLY | O_NOFOLLOW | O_NONBLOCK, 0);

	if (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0)
		unlinkat(dir, file, 0);
}

int cdi_spec_sweep(const char *dir, const char *class)
{
	struct dirent **files = NULL;
	CLEANUP_CLOSE int fd = -EBADF;
	int n = scandir(dir, &files, NULL, NULL);

	if (n < 0)
		return errno == ENOENT ? 0 : err_errno();
	fd = fd_openat(AT_FDCWD, dir, O_RDONLY | O_DIRECTORY, 0);
	for (int i = 0; i < n; i++) {
		if (fd >= 0 && spec_is_fresh(files[i]->d_name, class))
			spec_sweep_one(fd, files[i]->d_name);
		free(files[i]);
	}
	free(files);
	return fd < 0 ? fd : 0;
}

int cdi_spec_remove(const char *dir, const char *class, const char *name)
{
	char path[PATH_MAX];
	int r = spec_path(dir, class, name, FILE_END, path);

	if (r < 0)
		return r;
	return unlink(path) < 0 ? err_errno() : 0;
}
