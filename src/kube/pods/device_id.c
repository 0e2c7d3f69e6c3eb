/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/pods/device_id.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define DIGITS_MOST 9 /* so that a number is less than 2^32 */

/* Decimal, without zeros in front of it. Returns what is behind it, or NULL. */
static const char *device_id_number(const char *text, uint32_t *ret)
{
	size_t digits = strspn(text, "0123456789");
	uint32_t n = 0;

	if (!digits || digits > DIGITS_MOST || (digits > 1 && *text == '0'))
		return NULL;
	for (size_t i = 0; i < digits; i++)
		n = n * 10 + (uint32_t)(text[i] - '0');
	*ret = n;
	return text + digits;
}

int device_id_parse(const struct node_devices *devices, const char *name, struct device_slot *ret)
{
	const char *dot = strchr(name, '.'), *end;
	const struct node_device *device;
	char gpu[NODE_NAME_BYTES];
	struct device_slot slot;

	if (!dot || (size_t)(dot - name) >= sizeof(gpu))
		return -EINVAL;
	end = device_id_number(dot + 1, &slot.n);
	if (!end || strncmp(end, "of", 2))
		return -EINVAL;
	end = device_id_number(end + 2, &slot.of);
	if (!end || *end || slot.n >= slot.of)
		return -EINVAL;
	snprintf(gpu, sizeof(gpu), "%.*s", (int)(dot - name), name);
	device = node_find_name(devices, gpu);
	if (!device)
		return -ENODEV;
	slot.device = (unsigned int)(device - devices->list);
	*ret = slot;
	return 0;
}

uint64_t device_id_count(const struct kube_resource *resource, const struct node_device *device)
{
	if (!resource->amount)
		return 0;
	switch (resource->unit) {
	case KUBE_SLOTS:
		return resource->amount;
	case KUBE_MEMORY:
		return device->device.total_bytes / resource->amount;
	case KUBE_CORES:
		return 100 / resource->amount;
	}
	return 0;
}

void device_id_name(const struct kube_resource *resource, const struct node_device *device,
		    uint64_t n, char ret[static DEVICE_ID_BYTES])
{
	char gpu[NODE_NAME_BYTES];

	node_device_name(device->device.uuid, gpu);
	if (resource->unit == KUBE_SLOTS)
		snprintf(ret, DEVICE_ID_BYTES, "%s.%" PRIu64 "of%" PRIu64, gpu, n,
			 resource->amount);
	else
		snprintf(ret, DEVICE_ID_BYTES, "%s.%c%" PRIu64, gpu,
			 resource->unit == KUBE_MEMORY ? 'm' : 'c', n);
}

void device_id_grant(const char *name, char ret[static GRANT_ID_BYTES])
{
	snprintf(ret, GRANT_ID_BYTES, SLOT_GRANT "%s", name);
}
