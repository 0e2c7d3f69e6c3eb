/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "cli/device/topo.h"
#include "node/devices.h"
#include "nvidia/nvml_link.h"

/* A driver that lists more devices is not believed. */
#define NVIDIA_MOST 256

/* Makes room for more devices, which are zero. Links are made when all devices are known. */
static struct topo_device *topo_add_devices(struct topo *t, size_t more)
{
	struct topo_device *device = reallocarray(t->device, t->n + more, sizeof(*device));

	if (!device)
		return NULL;
	t->device = device;
	device += t->n;
	memset(device, 0, more * sizeof(*device));
	return device;
}

static int topo_read_nvidia(struct topo *t, struct nvml *nvml)
{
	struct topo_device *device;
	unsigned int n;
	int r = nvml_device_count(nvml, &n);

	if (r < 0)
		return r;
	if (!n)
		return -ENODEV;
	n = n < NVIDIA_MOST ? n : NVIDIA_MOST;
	device = topo_add_devices(t, n);
	if (!device)
		return -ENOMEM;
	for (unsigned int i = 0; i < n; i++) {
		r = device_of_nvml(nvml, i, &device[i].device);
		if (r < 0)
			return r;
		device[i].index = i;
		snprintf(device[i].name, sizeof(device[i].name), "nvidia%u", i);
		t->n++;
	}
	return 0;
}

static int topo_read_amd(struct topo *t, const struct topology *amd)
{
	struct topo_device *d = amd->gpu_count ? topo_add_devices(t, amd->gpu_count) : NULL;

	t->amd_hidden = amd->hidden;
	t->amd_without_render_node = amd->without_render_node;
	if (!amd->gpu_count)
		return -ENODEV;
	if (!d)
		return -ENOMEM;
	for (uint32_t i = 0; i < amd->node_count; i++) {
		const struct topology_node *node = &amd->nodes[i];

		if (!node->gpu_id)
			continue;
		device_of_node(node, &d->device);
		d->index = node->id;
		snprintf(d->name, sizeof(d->name), "amd%" PRIu32, node->id);
		d->gpu_id = node->gpu_id;
		d->hive_id = node->hive_id;
		d++;
		t->n++;
	}
	return 0;
}

static bool topo_both_of(const struct topo *t, size_t i, size_t j, enum device_vendor vendor)
{
	return t->device[i].device.vendor == vendor && t->device[j].device.vendor == vendor;
}

static int topo_link_nvidia(struct topo *t, struct nvml *nvml)
{
	for (size_t i = 0; i < t->n; i++)
		for (size_t j = 0; j < t->n; j++) {
			struct topo_link *link = &t->link[i * t->n + j];
			struct nvml_link seen;
			int r;

			if (i == j || !topo_both_of(t, i, j, DEVICE_NVIDIA))
				continue;
			r = nvml_link_get(nvml, t->device[i].index, t->device[j].index, &seen);
			if (r < 0)
				return r;
			*link = (struct topo_link){.reach = seen.reach,
						   .type = seen.nvlink ? "NVLink" : "PCIe",
						   .count = seen.nvlinks,
						   .path = seen.nvlink ? NULL : seen.path,
						   .max_mb_per_s = seen.mb_per_s};
		}
	return 0;
}

static void topo_link_amd(struct topo *t, const struct topology *amd)
{
	for (size_t i = 0; i < t->n; i++)
		for (size_t j = 0; j < t->n; j++) {
			const struct topology_link *seen;

			if (i == j || !topo_both_of(t, i, j, DEVICE_AMD))
				continue;
			seen = topology_link(amd, t->device[i].index, t->device[j].index);
			if (!seen)
				continue;
			t->link[i * t->n + j] =
				(struct topo_link){.reach = true,
						   .type = topology_link_name(seen->type),
						   .path = seen->indirect ? "CPU" : NULL,
						   .weight = seen->weight,
						   .min_mb_per_s = seen->min_mb_per_s,
						   .max_mb_per_s = seen->max_mb_per_s};
		}
}

int topo_read(struct topo *ret)
{
	const char *root = getenv("ALLOT_AMD_ROOT");
	CLEANUP_TOPOLOGY struct topology *amd = NULL;
	struct topo t = {.amd_root = root && *root ? root : NULL};
	struct nvml *nvml = NULL;
	int r;

	t.nvidia_error = nvml_open(NULL, &nvml);
	if (!t.nvidia_error)
		t.nvidia_error = topo_read_nvidia(&t, nvml);
	if (t.nvidia_error)
		t.n = 0; /* or some of AMD's devices would look like all of them */
	t.amd_error = topology_read(t.amd_root, &amd, &t.amd_complaint);
	if (!t.amd_error)
		t.amd_error = topo_read_amd(&t, amd);
	t.link = calloc(t.n * t.n + 1, sizeof(*t.link));
	r = t.link && t.nvidia_error != -ENOMEM && t.amd_error != -ENOMEM ? 0 : -ENOMEM;
	if (!r && !t.nvidia_error)
		t.nvidia_error = topo_link_nvidia(&t, nvml);
	if (!r && !t.amd_error)
		topo_link_amd(&t, amd);
	nvml_close(nvml);
	if (r < 0) {
		topo_free(&t);
		return r;
	}
	*ret = t;
	return 0;
}

void topo_free(struct topo *topo)
{
	free(topo->device);
	free(topo->link);
}

const struct topo_link *topo_link(const struct topo *topo, size_t from, size_t to)
{
	return from == to ? NULL : &topo->link[from * topo->n + to];
}

const char *topo_nvidia_trouble(const struct topo *topo)
{
	if (!topo->nvidia_error || devices_absent(topo->nvidia_error))
		return NULL;
	return devices_nvidia_words(topo->nvidia_error);
}

const char *topo_amd_trouble(const struct topo *topo)
{
	bool nothing =
		topo->amd_error == -ENODEV || (topo->amd_error == -ENOENT && !topo->amd_root);

	return !topo->amd_error || nothing ? NULL : topo->amd_complaint.text;
}
