/* SPDX-License-Identifier: Apache-2.0 */
/* What a program is told of AMD GPUs: by KFD's topology, by ioctls, and by sysfs. A line each. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "amd/abi/drm.h"
#include "amd/abi/kfd.h"
#include "amd/identity.h"
#include "amd/kfd_ioctl.h"
#include "amd/topology_read.h"
#include "text/units.h"

static uint64_t available(int kfd, uint32_t gpu_id)
{
	struct kfd_ioctl_get_available_memory_args a = {.gpu_id = gpu_id};

	return ioctl(kfd, _IOWR('K', KFD_NR_AVAILABLE_MEMORY, a), &a) < 0 ? 0 : a.available;
}

static uint64_t info_vram(int render)
{
	struct drm_amdgpu_info_vram_gtt sizes = {0};
	struct drm_amdgpu_info a = {.return_pointer = (uintptr_t)&sizes,
				    .return_size = sizeof(sizes),
				    .query = AMDGPU_INFO_VRAM_GTT};

	return ioctl(render, _IOW('d', DRM_NR_AMDGPU_INFO, a), &a) < 0 ? 0 : sizes.vram_size;
}

/* 0 where there is none, as for partitions but the first. */
static uint64_t sysfs(uint32_t minor, const char *name)
{
	char path[128], text[32] = "";
	FILE *file;

	snprintf(path, sizeof(path), "/sys/class/drm/renderD%" PRIu32 "/device/%s", minor, name);
	file = fopen(path, "re");
	if (!file)
		return 0;
	if (!fgets(text, sizeof(text), file))
		*text = '\0';
	fclose(file);
	return strtoull(text, NULL, 10);
}

static void say_gpu(int kfd, const struct topology_node *node)
{
	char path[32], gfx[TOPOLOGY_GFX_BYTES];
	uint8_t uuid[16];
	int render;

	snprintf(path, sizeof(path), "/dev/dri/renderD%" PRIu32, node->render_minor);
	render = open(path, O_RDWR | O_CLOEXEC);
	amd_identity(node, uuid);
	topology_gfx_name(node, gfx);
	printf("{\"stage\": \"gpu\", \"uuid\": \"%s\", \"gpu_id\": %" PRIu32 ", \"minor\": %" PRIu32
	       ", \"gfx\": \"%s\", \"device\": \"%04x:%04x\", \"firmware\": %" PRIu32
	       ", \"sdma_firmware\": %" PRIu32 ", \"units\": %" PRIu32 ", \"xccs\": %" PRIu32
	       ", \"topology\": %" PRIu64 ", \"info\": %" PRIu64 ", \"available\": %" PRIu64
	       ", \"sysfs\": %" PRIu64 "}\n",
	       units_uuid(uuid).s, node->gpu_id, node->render_minor, gfx, node->vendor_id,
	       node->device_id, node->firmware, node->sdma_firmware,
	       node->simds_per_cu ? node->simds / node->simds_per_cu : 0, node->xccs,
	       topology_vram_bytes(node), info_vram(render), available(kfd, node->gpu_id),
	       sysfs(node->render_minor, "mem_info_vram_total"));
	close(render);
}

int main(void)
{
	struct kfd_ioctl_get_version_args version = {0};
	struct topology_complaint complaint;
	CLEANUP_TOPOLOGY struct topology *topology = NULL;
	int kfd = open("/dev/kfd", O_RDWR | O_CLOEXEC);

	if (kfd < 0 || ioctl(kfd, _IOR('K', KFD_NR_GET_VERSION, version), &version) < 0 ||
	    topology_read(NULL, &topology, &complaint) < 0) {
		printf("{\"stage\": \"absent\", \"why\": \"no AMD GPU: /dev/kfd, errno %d\"}\n", errno);
		return 77;
	}
	printf("{\"stage\": \"driver\", \"kfd\": \"%" PRIu32 ".%" PRIu32 "\", \"gpus\": %" PRIu32 "}\n",
	       version.major_version, version.minor_version, topology->gpu_count);
	for (uint32_t i = 0; i < topology->node_count; i++)
		if (topology->nodes[i].gpu_id)
			say_gpu(kfd, &topology->nodes[i]);
	return 0;
}
