/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/pods/others.h"

#include <ctype.h>
#include <fcntl.h>
#include <glob.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/fd.h"
#include "text/log.h"
#include "text/units.h"

/* The Pod that has each device, in words; "": none. */
struct others {
	const struct kube_conf *conf;
	const struct node_devices *devices;
	const V1__PodResources *pod; /* that is looked at */
	char words[POLICY_DEVICES][NODE_WHY];
};

static void others_say(struct others *others, unsigned int device, const char *resource)
{
	if (!*others->words[device])
		snprintf(others->words[device], NODE_WHY, "%.60s has given it to Pod %.63s/%.100s",
			 resource, others->pod->namespace_, others->pod->name);
}

/* --- NVIDIA's names --------------------------------------------------------------------------- */

/* The N of /dev/nvidiaN, by which NVIDIA's driver names a device; where that is not told, its index. */
static unsigned int others_minor(const struct device *device)
{
	char path[128], text[2048];
	const char *at;
	unsigned int minor;

	snprintf(path, sizeof(path), "/proc/driver/nvidia/gpus/%s/information", device->pci);
	at = fd_read_text(AT_FDCWD, path, text, sizeof(text)) > 0 ? strstr(text, "Device Minor:") : NULL;
	return at && sscanf(at, "Device Minor: %u", &minor) == 1 ? minor : device->number;
}

/* Returns true if it is divided by MIG. */
static bool others_is_divided(const struct device *device)
{
	char pattern[128];
	glob_t found;
	int r;

	snprintf(pattern, sizeof(pattern), "/proc/driver/nvidia/capabilities/gpu%u/mig/gi*",
		 others_minor(device));
	r = glob(pattern, GLOB_NOSORT, NULL, &found);
	globfree(&found);
	return r == 0;
}

/* --- AMD's names ------------------------------------------------------------------------------ */

/* Returns true if sysfs has the device's render node in that folder. */
static bool others_has_node(const char *folder, const char *name, const struct device *device)
{
	char path[160];

	snprintf(path, sizeof(path), "/sys/%s/%.60s/drm/renderD%" PRIu32, folder, name, device->render_minor);
	return access(path, F_OK) == 0;
}

/* All partitions of a board have its PCI address; its PCI device is the first. */
static bool others_is_at(const struct others *others, const char *pci, const struct device *device)
{
	unsigned int partitions = 0;

	if (!*pci || strcmp(device->pci, pci) != 0)
		return false;
	for (unsigned int d = 0; d < others->devices->n; d++)
		partitions += !strcmp(others->devices->list[d].device.pci, pci);
	return partitions == 1 || others_has_node("bus/pci/devices", pci, device);
}

/*
 * The device plugin's name: the PCI address, the platform device of any other partition, like
 * amdgpu_xcp_30, and "-slice-3" behind either for a part of its time.
 */
static bool others_amd_names(const struct others *others, const char *id, const struct device *device)
{
	const char *slice = strstr(id, "-slice-");
	char name[64];

	snprintf(name, sizeof(name), "%.*s", slice ? (int)(slice - id) : 60, id);
	if (strchr(name, '/'))
		return false;
	return others_is_at(others, name, device) ||
	       (!strncmp(name, "amdgpu_xcp_", 11) && others_has_node("devices/platform", name, device));
}

/* --- Device plugins -------------------------------------------------------------------------- */

/*
 * The UUID as drivers write it: "GPU-...", "GPU-...::3", "MIG-GPU-.../1/0"; "GPU-....3" is partition 3
 * of a board. Slots of ours begin with "gpu-", so those that we gave out by another name of the
 * resource are none.
 */
static bool others_names(const struct others *others, const char *id, const struct device *device)
{
	struct units_text own = units_uuid(device->uuid);
	const char *at = strstr(id, own.s), *end = at ? at + strlen(own.s) : NULL;

	if (at && *end != '.' && !isalnum((unsigned char)*end))
		return true;
	return device->vendor == DEVICE_AMD && others_amd_names(others, id, device);
}

/* A part by MIG has a UUID of its own, which does not say of which GPU: of one that is so divided. */
static bool others_may_have_part(const struct others *others, const char *id, const struct device *device)
{
	return device->vendor == DEVICE_NVIDIA && !strncmp(id, "MIG-", 4) && !strstr(id, "GPU-") &&
	       (others->devices->n == 1 || others_is_divided(device));
}

static void others_look_at_device(struct others *others, const char *id, const char *resource)
{
	for (unsigned int d = 0; d < others->devices->n; d++) {
		const struct device *device = &others->devices->list[d].device;

		if (others_names(others, id, device) || others_may_have_part(others, id, device))
			others_say(others, d, resource);
	}
}

static void others_look_at_devices(struct others *others, const V1__ContainerDevices *given)
{
	if (kube_conf_resource(others->conf, given->resource_name))
		return;
	for (size_t i = 0; i < given->n_device_ids; i++)
		others_look_at_device(others, given->device_ids[i], given->resource_name);
}

/* --- DRA drivers ----------------------------------------------------------------------------- */

/* "gpu-0" and parts of it, "gpu-0-mig-1g10gb-19-0"; or the UUID in small letters. */
static bool others_is_called(const char *name, const struct device *device)
{
	char own[NODE_NAME_BYTES];
	unsigned int minor;
	int end = 0;

	node_device_name(device->uuid, own);
	/* A name may go on behind NVIDIA's UUID; behind AMD's there is the number of a partition. */
	if (device->vendor == DEVICE_AMD ? !strcmp(name, own) : strstr(name, own) != NULL)
		return true;
	/* AMD's driver: card and render node. */
	if (device->vendor == DEVICE_AMD)
		return sscanf(name, "gpu-%*u-%u%n", &minor, &end) == 1 && !name[end] &&
		       minor == device->render_minor;
	return device->vendor == DEVICE_NVIDIA && strncmp(name, "gpu-", 4) == 0 &&
	       sscanf(name, "gpu-%u%n", &minor, &end) == 1 && (!name[end] || !strncmp(&name[end], "-mig-", 5)) &&
	       minor == others_minor(device);
}

/* Drivers of other things may call a device "gpu-0", too. */
static bool others_is_gpus(const struct kube_conf *conf, const char *driver)
{
	return strcmp(driver, conf->driver) && strstr(driver, "gpu");
}

static void others_look_at_claim(struct others *others, const V1__ClaimResource *given)
{
	if (!others_is_gpus(others->conf, given->driver_name))
		return;
	for (unsigned int d = 0; d < others->devices->n; d++)
		if (others_is_called(given->device_name, &others->devices->list[d].device))
			others_say(others, d, given->driver_name);
}

/* --- All of the list ------------------------------------------------------------------------- */

static void others_look_at_container(struct others *others, const V1__ContainerResources *container)
{
	for (size_t i = 0; i < container->n_devices; i++)
		others_look_at_devices(others, container->devices[i]);
	for (size_t i = 0; i < container->n_dynamic_resources; i++) {
		const V1__DynamicResource *claim = container->dynamic_resources[i];

		for (size_t k = 0; k < claim->n_claim_resources; k++)
			others_look_at_claim(others, claim->claim_resources[k]);
	}
}

static bool others_take(struct node_device *device, const char *words)
{
	struct units_text name = units_uuid(device->device.uuid);

	if (!node_take(device, words))
		return false;
	if (*words)
		log_line(LOG_WARN, "device %s: %s; until it is free it is sick for who asks for a part of it",
			 name.s, words);
	else
		log_line(LOG_SAY, "device %s is free of other drivers' Pods", name.s);
	return true;
}

bool others_note(const struct kube_conf *conf, struct node_devices *devices,
		 const V1__ListPodResourcesResponse *list, bool whole)
{
	static struct others others;
	bool changed = false;

	others = (struct others){.conf = conf, .devices = devices};
	for (size_t i = 0; i < list->n_pod_resources; i++) {
		others.pod = list->pod_resources[i];
		for (size_t k = 0; k < others.pod->n_containers; k++)
			others_look_at_container(&others, others.pod->containers[k]);
	}
	for (unsigned int d = 0; d < devices->n; d++)
		if (whole || *others.words[d])
			changed |= others_take(&devices->list[d], others.words[d]);
	return changed;
}
