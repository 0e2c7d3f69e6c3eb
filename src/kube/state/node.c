/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/state/node.h"

#include <ctype.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "base/fd.h"
#include "text/units.h"

void node_device_name(const uint8_t uuid[static 16], char ret[static NODE_NAME_BYTES])
{
	snprintf(ret, NODE_NAME_BYTES, "%s", units_uuid(uuid).s);
	for (char *c = ret; *c; c++)
		*c = isalnum((unsigned char)*c) ? (char)tolower((unsigned char)*c) : '-';
}

const struct node_device *node_find_name(const struct node_devices *devices, const char *name)
{
	char own[NODE_NAME_BYTES];

	for (unsigned int i = 0; i < devices->n; i++) {
		node_device_name(devices->list[i].device.uuid, own);
		if (!strcmp(own, name))
			return &devices->list[i];
	}
	return NULL;
}

const struct node_device *node_find(const struct node_devices *devices, const uint8_t uuid[static 16])
{
	for (unsigned int i = 0; i < devices->n; i++)
		if (!memcmp(devices->list[i].device.uuid, uuid, 16))
			return &devices->list[i];
	return NULL;
}

static int node_numa(const struct device *device)
{
	char path[128], text[32];
	int numa;

	snprintf(path, sizeof(path), "/sys/bus/pci/devices/%s/numa_node", device->pci);
	if (fd_read_text(AT_FDCWD, path, text, sizeof(text)) < 0 || sscanf(text, "%d", &numa) != 1)
		return -1;
	return numa;
}

/* One that is gone is nobody's. Returns true if it is by now what it was not. */
static bool node_judge(struct node_device *d)
{
	const struct node_device was = *d;
	const char *why = d->gone		 ? "the driver does not list it any more"
			  : *d->said[NODE_FAULT] ? d->said[NODE_FAULT]
			  : *d->taken		 ? d->taken
						 : d->said[NODE_STRANGER];

	d->sick = *why;
	snprintf(d->why, sizeof(d->why), "%s", why);
	return d->sick != was.sick || strcmp(d->why, was.why) != 0;
}

static bool node_leave(struct node_device *d)
{
	d->gone = true;
	return node_judge(d);
}

bool node_take(struct node_device *d, const char *words)
{
	snprintf(d->taken, sizeof(d->taken), "%s", words);
	return node_judge(d);
}

bool node_hear(struct node_devices *devices, enum node_words which, const struct faults *words)
{
	bool changed = false;

	for (unsigned int i = 0; i < devices->n; i++) {
		struct node_device *d = &devices->list[i];
		const char *said = faults_find(words, d->device.uuid);

		snprintf(d->said[which], NODE_WHY, "%s", said ? said : "");
		changed |= node_judge(d);
	}
	return changed;
}

/* Room is only for as many as a policy has. */
static bool node_come(struct node_devices *devices, const struct device *device)
{
	struct node_device *d = (struct node_device *)node_find(devices, device->uuid);
	bool known = d;

	if (!d) {
		if (devices->n == POLICY_DEVICES)
			return false;
		d = &devices->list[devices->n++];
		*d = (struct node_device){.gone = false};
	}
	d->device = *device;
	d->numa = node_numa(device);
	d->gone = false;
	return node_judge(d) || !known;
}

/* Places in the driver's list and in ours differ once a device has gone. */
static uint8_t node_links(const struct devices *now, const struct node_device *a, const struct node_device *b)
{
	const struct device *from = devices_find(now, a->device.uuid), *to = devices_find(now, b->device.uuid);

	return from && to ? now->nvlinks[from - now->list][to - now->list] : 0;
}

static bool node_note_links(struct node_devices *devices, const struct devices *now)
{
	bool changed = false;

	for (unsigned int i = 0; i < devices->n; i++)
		for (unsigned int k = 0; k < devices->n; k++) {
			uint8_t links = node_links(now, &devices->list[i], &devices->list[k]);

			changed |= devices->nvlinks[i][k] != links;
			devices->nvlinks[i][k] = links;
		}
	return changed;
}

bool node_update(struct node_devices *devices, const struct devices *now)
{
	bool changed = false;

	for (unsigned int i = 0; i < devices->n; i++)
		if (!devices_find(now, devices->list[i].device.uuid))
			changed |= node_leave(&devices->list[i]);
	for (unsigned int i = 0; i < now->n; i++)
		changed |= node_come(devices, &now->list[i]);
	changed |= node_note_links(devices, now);
	return changed;
}
