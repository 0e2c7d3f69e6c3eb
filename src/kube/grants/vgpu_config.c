/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/grants/vgpu_config.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/container.h"
#include "base/fd.h"
#include "nvidia/uuid.h"

#define BESIDE "." VGPU_CONFIG_NAME ".new"
#define MODE   0644 /* programs of any user read it */

/* The smallest that is not 0; 0: none. */
static uint64_t vgpu_config_least(const struct decision_container *container,
				  uint64_t (*of)(const struct decision_device *device))
{
	uint64_t least = 0;

	for (unsigned int i = 0; i < container->n; i++) {
		uint64_t value = of(&container->device[i]);

		if (value && (!least || value < least))
			least = value;
	}
	return least;
}

static uint64_t vgpu_config_mib(const struct decision_device *device)
{
	return device->memory_bytes >> 20;
}

static uint64_t vgpu_config_cores(const struct decision_device *device)
{
	return device->cores;
}

int vgpu_config_text(const struct decision_container *container, char ret[static VGPU_CONFIG_BYTES])
{
	unsigned long long mib = vgpu_config_least(container, vgpu_config_mib);
	unsigned int cores = (unsigned int)vgpu_config_least(container, vgpu_config_cores);

	if (mib)
		snprintf(ret, VGPU_CONFIG_BYTES, "UsedMem:%llu\nUsedCores:%u\n", mib, cores);
	else if (cores)
		snprintf(ret, VGPU_CONFIG_BYTES, "UsedCores:%u\n", cores);
	else
		return -ENODATA;
	return 0;
}

/* Where what a container is to mount is missing, runtimes make an empty folder of that name. */
static int vgpu_config_rename(int dir, const char *name)
{
	if (renameat(dir, BESIDE, dir, name) == 0)
		return 0;
	if (errno != EISDIR || unlinkat(dir, name, AT_REMOVEDIR) < 0)
		return -errno;
	return renameat(dir, BESIDE, dir, name) < 0 ? -errno : 0;
}

/* A killed writer leaves the file beside, which the next one writes over. */
static int vgpu_config_put_bytes(int dir, const char *name, const char *bytes, size_t len)
{
	int CLEANUP_CLOSE fd = fd_openat(dir, BESIDE, O_WRONLY | O_CREAT | O_TRUNC, MODE);
	int r;

	if (fd < 0)
		return fd;
	r = fd_pwrite_all(fd, bytes, len, 0);
	/* Whatever the daemon's umask. */
	if (!r && fchmod(fd, MODE) < 0)
		r = -errno;
	if (!r && fsync(fd) < 0)
		r = -errno;
	if (!r)
		r = vgpu_config_rename(dir, name);
	if (r)
		unlinkat(dir, BESIDE, 0);
	return r;
}

static int vgpu_config_put(int dir, const char *name, const char *text)
{
	return vgpu_config_put_bytes(dir, name, text, strlen(text));
}

int vgpu_config_write(int dir, const struct decision_container *container)
{
	char text[VGPU_CONFIG_BYTES];
	int r = vgpu_config_text(container, text);

	if (!r)
		return vgpu_config_put(dir, VGPU_CONFIG_NAME, text);
	if (unlinkat(dir, VGPU_CONFIG_NAME, 0) < 0 && errno != ENOENT)
		return -errno;
	return r;
}

void vgpu_config_ids(const struct decision_container *container, char ret[static VGPU_CONFIG_IDS_BYTES])
{
	char uuid[UUID_TEXT_SIZE];
	size_t at = 0;

	*ret = 0;
	for (unsigned int i = 0; i < container->n; i++) {
		uuid_format(container->device[i].uuid, uuid);
		at += (size_t)snprintf(ret + at, VGPU_CONFIG_IDS_BYTES - at, "%s-%" PRIu32 "\n", uuid,
				       container->device[i].part);
	}
}

int vgpu_config_write_ids(int dir, const char *text)
{
	return vgpu_config_put(dir, VGPU_CONFIG_IDS, text);
}

/* All of a file; to be freed. */
static int vgpu_config_read(int dir, const char *path, char **ret, struct stat *ret_st)
{
	CLEANUP_CLOSE int fd = fd_openat(dir, path, O_RDONLY | O_NONBLOCK, 0);
	char *bytes;
	int r;

	if (fd < 0)
		return fd;
	if (fstat(fd, ret_st) < 0)
		return -errno;
	if (!S_ISREG(ret_st->st_mode))
		return -EINVAL;
	bytes = malloc((size_t)ret_st->st_size + 1);
	r = bytes ? fd_pread_all(fd, bytes, (size_t)ret_st->st_size, 0) : -ENOMEM;
	if (r < 0)
		free(bytes);
	else
		*ret = bytes;
	return r;
}

static bool vgpu_config_has(int dir, const char *name, const char *bytes, size_t len)
{
	char *now = NULL;
	struct stat st;
	bool has = vgpu_config_read(dir, name, &now, &st) == 0 && (size_t)st.st_size == len &&
		   (st.st_mode & 07777) == MODE && !memcmp(now, bytes, len);

	free(now);
	return has;
}

/* A file of that content stays as it is: containers have this very file mounted. */
static int vgpu_config_keep(int dir, const char *name, const char *bytes, size_t len)
{
	return vgpu_config_has(dir, name, bytes, len) ? 0 : vgpu_config_put_bytes(dir, name, bytes, len);
}

int vgpu_config_write_preload(int dir)
{
	static const char text[] = CONTAINER_LIBRARY "\n";

	return vgpu_config_keep(dir, VGPU_CONFIG_PRELOAD, text, strlen(text));
}

int vgpu_config_write_library(int dir, const char *library)
{
	char *bytes = NULL;
	struct stat st;
	int r = vgpu_config_read(AT_FDCWD, library, &bytes, &st);

	if (r == 0)
		r = vgpu_config_keep(dir, VGPU_CONFIG_LIBRARY, bytes, (size_t)st.st_size);
	free(bytes);
	return r;
}

void vgpu_config_remove(int dir)
{
	unlinkat(dir, VGPU_CONFIG_NAME, 0);
	unlinkat(dir, VGPU_CONFIG_IDS, 0);
	unlinkat(dir, BESIDE, 0);
}
