/* SPDX-License-Identifier: Apache-2.0 */
/* This node's GPUs as Kubernetes is told of them. */
#ifndef ALLOT_KUBE_NODE_H
#define ALLOT_KUBE_NODE_H

#include <stdbool.h>

#include "node/devices.h"

#define NODE_WHY 256
#define NODE_NAME_BYTES 64 /* what Kubernetes takes for a device's name, a DNS label, with its end */

struct node_device {
	struct device device;
	bool sick; /* nothing new is to come there: it is gone, lost, or another's */
	bool gone; /* the driver does not list it */
	char why[NODE_WHY]; /* of a sick one, in words */
	char taken[NODE_WHY]; /* who else has given it out, in words; "": nobody */
	int numa; /* -1: not known */
};

/* Who was there once stays, sick, until the daemon ends. */
struct node_devices {
	unsigned int n;
	struct node_device list[POLICY_DEVICES];
};

/* "gpu-00112233-4455-6677-8899-aabbccddeeff", "amd-...": its name where a name is a DNS label. */
void node_device_name(const uint8_t uuid[static 16], char ret[static NODE_NAME_BYTES]);
/* The device of that name, or NULL. */
const struct node_device *node_find_name(const struct node_devices *devices, const char *name);
const struct node_device *node_find(const struct node_devices *devices, const uint8_t uuid[static 16]);

/* What `now` says of them: whoever is not in it is sick. Returns true if something is another than before. */
bool node_update(struct node_devices *devices, const struct devices *now);

/* Who else has given it out, "" for nobody. Returns true if that changes whether it is sick, or why. */
bool node_take(struct node_device *device, const char *words);

#endif
