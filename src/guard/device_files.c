/* SPDX-License-Identifier: Apache-2.0 */
#include "guard/device_files.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/dir.h"
#include "base/err.h"

#define DRM_MAJOR    226
#define FIRST_RENDER 128

struct device_files {
	const struct topology *topology;
	dev_t kfd;
};

int device_files_open(const struct topology *topology, struct device_files **ret)
{
	struct device_files *files;
	struct stat st;

	if (stat("/dev/kfd", &st) < 0)
		return err_errno();
	if (!S_ISCHR(st.st_mode))
		return -ENODEV;
	files = malloc(sizeof(*files));
	if (!files)
		return -ENOMEM;
	*files = (struct device_files){.topology = topology, .kfd = st.st_rdev};
	*ret = files;
	return 0;
}

void device_files_close(struct device_files *files)
{
	free(files);
}

/*
 * The minor of the render node of a display node's device; 0: it has none. All but the first partition
 * of a board have a device of their own, which is on no bus.
 */
static unsigned int device_files_render(unsigned int card)
{
	CLEANUP_DIR DIR *dir = NULL;
	char path[64];
	const char *name;
	uint64_t minor;

	snprintf(path, sizeof(path), "/sys/dev/char/%d:%u/device/drm", DRM_MAJOR, card);
	dir = opendir(path);
	while ((name = dir_next(dir)))
		if (!strncmp(name, "renderD", 7) && !parse_u64(name + 7, 0, UINT32_MAX, &minor))
			return (unsigned int)minor;
	return 0;
}

bool device_files_find(const struct device_files *files, dev_t device, uint32_t *ret_gpu_id)
{
	unsigned int render = minor(device);

	if (device && device == files->kfd) {
		*ret_gpu_id = 0;
		return true;
	}
	if (major(device) != DRM_MAJOR)
		return false;
	if (render < FIRST_RENDER)
		render = device_files_render(render);
	for (uint32_t i = 0; i < files->topology->node_count; i++) {
		const struct topology_node *node = &files->topology->nodes[i];

		if (!node->gpu_id || !render || node->render_minor != render)
			continue;
		*ret_gpu_id = node->gpu_id;
		return true;
	}
	return false;
}
