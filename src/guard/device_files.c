/* SPDX-License-Identifier: Apache-2.0 */
#include "guard/device_files.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

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

/* "0000:c1:00.0", of the bus that a display node's device is on; "" for none. */
static void device_files_key(unsigned int card, char ret_pci[TOPOLOGY_PCI_BYTES])
{
	char path[64], link[256];
	const char *name;
	ssize_t n;

	snprintf(path, sizeof(path), "/sys/dev/char/%d:%u/device", DRM_MAJOR, card);
	n = readlink(path, link, sizeof(link) - 1);
	link[n < 0 ? 0 : n] = '\0';
	name = strrchr(link, '/');
	snprintf(ret_pci, TOPOLOGY_PCI_BYTES, "%s", name ? name + 1 : "");
}

static bool device_files_is_card_of(const struct topology_node *node, const char *pci)
{
	char place[TOPOLOGY_PCI_BYTES];

	topology_pci_name(node, place);
	return *pci && !strcmp(place, pci);
}

bool device_files_find(const struct device_files *files, dev_t device, uint32_t *ret_gpu_id)
{
	char pci[TOPOLOGY_PCI_BYTES] = "";

	if (device && device == files->kfd) {
		*ret_gpu_id = 0;
		return true;
	}
	if (major(device) != DRM_MAJOR)
		return false;
	if (minor(device) < FIRST_RENDER)
		device_files_key(minor(device), pci);
	for (uint32_t i = 0; i < files->topology->node_count; i++) {
		const struct topology_node *node = &files->topology->nodes[i];

		if (!node->gpu_id ||
		    (node->render_minor != minor(device) && !device_files_is_card_of(node, pci)))
			continue;
		*ret_gpu_id = node->gpu_id;
		return true;
	}
	return false;
}
