/* SPDX-License-Identifier: Apache-2.0 */
#include "node/devices.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "amd/identity.h"
#include "base/dir.h"
#include "base/fd.h"
#include "base/hash.h"
#include "base/number.h"
#include "nvidia/nvml_link.h"

/* NVML writes eight digits of domain, and capitals; the kernel's tools write four. */
static void devices_copy_pci(char ret[static 32], const char *pci)
{
	size_t i = 0;

	if (!strncmp(pci, "0000", 4) && strchr(pci, ':') == pci + 8)
		pci += 4;
	for (; i < 31 && pci[i]; i++)
		ret[i] = (char)tolower((unsigned char)pci[i]);
	ret[i] = '\0';
}

int device_of_nvml(struct nvml *nvml, unsigned int index, struct device *ret)
{
	struct device d = {.vendor = DEVICE_NVIDIA, .number = index};
	struct nvml_device seen;
	int r = nvml_device_get(nvml, index, &seen);

	if (r < 0)
		return r;
	memcpy(d.uuid, seen.uuid, sizeof(d.uuid));
	snprintf(d.model, sizeof(d.model), "%s", seen.name);
	snprintf(d.architecture, sizeof(d.architecture), "%s", seen.architecture);
	devices_copy_pci(d.pci, seen.pci);
	d.total_bytes = seen.total_bytes;
	*ret = d;
	return 0;
}

void device_of_node(const struct topology_node *node, struct device *ret)
{
	struct device d = {.vendor = DEVICE_AMD, .number = node->id,
			   .render_minor = node->render_minor};
	char gfx[TOPOLOGY_GFX_BYTES];

	amd_identity(node, d.uuid);
	topology_gfx_name(node, gfx);
	snprintf(d.model, sizeof(d.model), "%s%s%s", node->name, *node->name && *gfx ? " " : "",
		 gfx);
	snprintf(d.architecture, sizeof(d.architecture), "%s", gfx);
	topology_pci_name(node, d.pci);
	d.total_bytes = topology_vram_bytes(node);
	*ret = d;
}

static int devices_add_nvidia(struct devices *d)
{
	struct nvml *nvml;
	unsigned int n = 0;
	int r = nvml_open(NULL, &nvml);

	if (r < 0)
		return r;
	r = nvml_device_count(nvml, &n);
	for (unsigned int i = 0; r == 0 && i < n && d->n < POLICY_DEVICES; i++) {
		r = device_of_nvml(nvml, i, &d->list[d->n]);
		d->n++;
	}
	nvml_close(nvml);
	return r < 0 ? r : n ? 0 : -ENODEV;
}

static uint8_t device_nvlinks(struct nvml *nvml, const struct device *from, const struct device *to)
{
	struct nvml_link link;

	if (from->vendor != DEVICE_NVIDIA || to->vendor != DEVICE_NVIDIA || from == to ||
	    nvml_link_get(nvml, from->number, to->number, &link) < 0 || !link.nvlink)
		return 0;
	return (uint8_t)min_u64(link.nvlinks, UINT8_MAX);
}

void devices_read_links(struct devices *devices)
{
	struct nvml *nvml;

	memset(devices->nvlinks, 0, sizeof(devices->nvlinks));
	if (nvml_open(NULL, &nvml) < 0)
		return;
	for (unsigned int i = 0; i < devices->n; i++)
		for (unsigned int k = 0; k < devices->n; k++)
			devices->nvlinks[i][k] = device_nvlinks(nvml, &devices->list[i], &devices->list[k]);
	nvml_close(nvml);
}

static int devices_add_amd(struct devices *d)
{
	CLEANUP_TOPOLOGY struct topology *amd = NULL;
	struct topology_complaint complaint;
	int r = topology_read(NULL, &amd, &complaint);

	if (r < 0) {
		if (!devices_absent(r))
			snprintf(d->amd_trouble, sizeof(d->amd_trouble), "AMD: %s", complaint.text);
		return r;
	}
	for (uint32_t i = 0; i < amd->node_count && d->n < POLICY_DEVICES; i++)
		if (amd->nodes[i].gpu_id)
			device_of_node(&amd->nodes[i], &d->list[d->n++]);
	return amd->gpu_count ? 0 : -ENODEV;
}

/*
 * Trouble with NVIDIA's devices is trouble with the whole list: without them AMD's devices would
 * move up and have their indices.
 */
void devices_read(struct devices *ret)
{
	memset(ret, 0, sizeof(*ret));
	ret->nvidia_error = devices_add_nvidia(ret);
	if (ret->nvidia_error)
		ret->n = 0;
	ret->amd_error = devices_add_amd(ret);
	if (ret->nvidia_error && !devices_absent(ret->nvidia_error)) {
		snprintf(ret->trouble, sizeof(ret->trouble), "%s",
			 devices_nvidia_words(ret->nvidia_error));
		ret->n = 0;
	} else if (!ret->n && *ret->amd_trouble) {
		memcpy(ret->trouble, ret->amd_trouble, sizeof(ret->trouble));
	} else if (!ret->n) {
		devices_explain_none(ret->nvidia_error, ret->amd_error, ret->trouble);
	}
}

void devices_read_amd(struct devices *ret)
{
	memset(ret, 0, sizeof(*ret));
	ret->nvidia_error = -ENOENT;
	ret->amd_error = devices_add_amd(ret);
}

const struct device *devices_find(const struct devices *devices, const uint8_t uuid[16])
{
	for (unsigned int i = 0; i < devices->n; i++)
		if (!memcmp(devices->list[i].uuid, uuid, sizeof(devices->list[i].uuid)))
			return &devices->list[i];
	return NULL;
}

#define NVIDIA_DIR "/proc/driver/nvidia/gpus"

uint64_t devices_stamp(void)
{
	CLEANUP_DIR DIR *dir = opendir(NVIDIA_DIR);
	uint64_t names = 0, changes = HASH_SEED;
	const char *name;
	char text[32];

	/* In no order. */
	while ((name = dir_next(dir)))
		names += hash_mix(hash_string(HASH_SEED, name));
	if (fd_read_text(AT_FDCWD, TOPOLOGY_DIR "/generation_id", text, sizeof(text)) > 0)
		changes = hash_string(HASH_SEED, text);
	return names ^ hash_mix(changes);
}

bool devices_absent(int err)
{
	return err == -ENOENT || err == -ENODEV;
}

void devices_explain_none(int nvidia_error, int amd_error, char ret[static DEVICES_WORDS])
{
	const char *amd = amd_error == -ENOENT ? "the AMD driver is missing (no " TOPOLOGY_DIR ")"
					       : "the AMD driver shows no device";

	snprintf(ret, DEVICES_WORDS,
		 "no GPU here: the NVIDIA driver %s, %s; install one, or try \"allot sim\"",
		 nvidia_error == -ENOENT ? "is missing (no libnvidia-ml.so.1)" : "finds no device",
		 TOPOLOGY_BUILT ? amd : "and allot is built without AMD GPUs");
}

const char *devices_nvidia_words(int err)
{
	if (err == -EACCES)
		return "the NVIDIA driver refuses access; check the permissions of /dev/nvidia*";
	return "the NVIDIA driver does not answer as it should; see \"allot doctor\"";
}
