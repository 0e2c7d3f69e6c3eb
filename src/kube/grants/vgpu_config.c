/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/grants/vgpu_config.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/container.h"
#include "base/fd.h"
#include "nvidia/uuid.h"

#define BESIDE "." VGPU_CONFIG_NAME ".new"
#define PRELOAD_BYTES 64

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

/* A killed writer leaves the file beside, which the next one writes over. */
static int vgpu_config_put(int dir, const char *name, const char *text)
{
	int CLEANUP_CLOSE fd = fd_openat(dir, BESIDE, O_WRONLY | O_CREAT | O_TRUNC, 0644);
	int r;

	if (fd < 0)
		return fd;
	r = fd_pwrite_all(fd, text, strlen(text), 0);
	/* The daemon's umask is no matter: programs of any user read it. */
	if (!r && fchmod(fd, 0644) < 0)
		r = -errno;
	if (!r && fsync(fd) < 0)
		r = -errno;
	if (!r && renameat(dir, BESIDE, dir, name) < 0)
		r = -errno;
	if (r)
		unlinkat(dir, BESIDE, 0);
	return r;
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

int vgpu_config_write_preload(int dir)
{
	static const char text[] = CONTAINER_LIBRARY "\n";
	char now[PRELOAD_BYTES];

	/* Containers have this very file mounted. */
	if (fd_read_text(dir, VGPU_CONFIG_PRELOAD, now, sizeof(now)) >= 0 && !strcmp(now, text))
		return 0;
	return vgpu_config_put(dir, VGPU_CONFIG_PRELOAD, text);
}

void vgpu_config_remove(int dir)
{
	unlinkat(dir, VGPU_CONFIG_NAME, 0);
	unlinkat(dir, VGPU_CONFIG_IDS, 0);
	unlinkat(dir, BESIDE, 0);
}
