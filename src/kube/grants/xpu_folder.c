/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/grants/xpu_folder.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/fd.h"
#include "cdi/spec.h"
#include "kube/grants/vgpu_config.h"

static bool xpu_is_folder_name(const char *name)
{
	size_t n = strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-");

	return n && !name[n];
}

void xpu_folder_name(const char *uid, const char *container, char ret[static XPU_FOLDER_BYTES])
{
	int n = snprintf(ret, XPU_FOLDER_BYTES, "%s/%s", uid, container);

	if (n >= XPU_FOLDER_BYTES || !xpu_is_folder_name(uid) || !xpu_is_folder_name(container))
		*ret = 0;
}

int xpu_folder_path(const struct kube_conf *conf, const char *folder, char ret[static PATH_MAX])
{
	return snprintf(ret, PATH_MAX, "%s/%s", conf->xpu, folder) < PATH_MAX ? 0 : -ENAMETOOLONG;
}

/* Also where it is there. Whatever the daemon's umask: programs of any user go through it. */
static int xpu_make_folder(const char *path)
{
	if (mkdir(path, 0755) == 0)
		return chmod(path, 0755) < 0 ? err_errno() : 0;
	return errno == EEXIST ? 0 : err_errno();
}

/* Makes each folder of the path behind the first `skip` bytes. */
static int xpu_make_folders(char *path, size_t skip)
{
	int r;

	for (char *end = strchr(path + skip, '/'); end; end = strchr(end + 1, '/')) {
		*end = 0;
		r = xpu_make_folder(path);
		*end = '/';
		if (r < 0)
			return r;
	}
	return xpu_make_folder(path);
}

/* The folder that the container has as /etc/xpu; NULL: none. */
static const char *xpu_find_mount(const json_t *spec)
{
	const json_t *device = json_array_get(json_object_get(spec, "devices"), 0), *mount;
	const json_t *mounts = json_object_get(json_object_get(device, "containerEdits"), "mounts");
	size_t i;

	json_array_foreach (mounts, i, mount) {
		const char *to = json_string_value(json_object_get(mount, "containerPath"));

		if (to && !strcmp(to, CDI_XPU))
			return json_string_value(json_object_get(mount, "hostPath"));
	}
	return NULL;
}

void xpu_folder_find(const struct kube_conf *conf, const json_t *spec, char ret[static PATH_MAX])
{
	size_t len = strlen(conf->xpu);
	const char *path = len ? xpu_find_mount(spec) : NULL;

	*ret = 0;
	if (path && !strncmp(path, conf->xpu, len) && path[len] == '/' && !strstr(path, "/..") &&
	    strlen(path) < PATH_MAX)
		strcpy(ret, path);
}

void xpu_folder_remove(const struct kube_conf *conf, char *folder)
{
	CLEANUP_CLOSE int dir = -EBADF;
	char *parent = strrchr(folder, '/');

	if (!parent)
		return;
	dir = fd_openat(AT_FDCWD, folder, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0);
	if (dir >= 0)
		vgpu_config_remove(dir);
	rmdir(folder);
	*parent = 0;
	if (strcmp(folder, conf->xpu) != 0)
		rmdir(folder);
}

/* The policy's limits, in the form of a scheduler's decision. */
static struct decision_container xpu_decide(const struct policy *policy)
{
	struct decision_container ret = {.n = policy->ndevices};

	for (uint32_t i = 0; i < policy->ndevices; i++) {
		const struct policy_device *d = &policy->device[i];

		ret.device[i].memory_bytes = d->limit_bytes ? d->limit_bytes
							    : d->total_bytes / 1000 * d->limit_permille;
		ret.device[i].cores = policy->compute == POLICY_COMPUTE_OFF ? 0 : d->share_permille / 10;
	}
	return ret;
}

/* What containers without CDI have of this folder itself. */
static int xpu_write_shared(const struct kube_conf *conf, const char *library)
{
	CLEANUP_CLOSE int dir = fd_openat(AT_FDCWD, conf->xpu, O_RDONLY | O_DIRECTORY, 0);
	int r = dir < 0 ? dir : vgpu_config_write_library(dir, library);

	return r < 0 ? r : vgpu_config_write_preload(dir);
}

int xpu_folder_choose(const struct kube_conf *conf, const struct policy *policy, const char *name,
		      char ret[static PATH_MAX])
{
	struct decision_container limits = xpu_decide(policy);
	char text[VGPU_CONFIG_BYTES];
	int r;

	*ret = 0;
	if (!*conf->xpu)
		return 0;
	r = vgpu_config_text(&limits, text);
	if (r < 0)
		return conf->by_mounts ? r : 0;
	return xpu_folder_path(conf, name, ret);
}

int xpu_folder_write(const struct kube_conf *conf, const struct policy *policy, const char *ids, const char *library,
		     char *folder)
{
	struct decision_container limits = xpu_decide(policy);
	CLEANUP_CLOSE int dir = -EBADF;
	int r = xpu_make_folders(folder, strlen(conf->xpu));

	if (r < 0)
		return r;
	dir = fd_openat(AT_FDCWD, folder, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0);
	if (dir < 0)
		return dir;
	r = vgpu_config_write(dir, &limits);
	if (r == 0 && *ids)
		r = vgpu_config_write_ids(dir, ids);
	if (r == 0 && conf->by_mounts)
		r = xpu_write_shared(conf, library);
	return r;
}
