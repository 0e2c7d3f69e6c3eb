/* SPDX-License-Identifier: Apache-2.0 */
/* This node's GPUs as Kubernetes is told of them. */
#ifndef ALLOT_KUBE_STATE_NODE_H
#define ALLOT_KUBE_STATE_NODE_H

#include <stdbool.h>

#include "node/devices.h"
#include "node/faults.h"

#define NODE_WHY 256
#define NODE_NAME_BYTES 64 /* what Kubernetes takes for a device's name, a DNS label, with its end */

/* What is said of a device by its UUID, in words. */
enum node_words {
	NODE_FAULT,    /* by the driver: it is faulty */
	NODE_STRANGER, /* Pods use it that have no part of it */
	NODE_WORDS
};

struct node_device {
	struct device device;
	bool sick; /* nothing new is to come there: it is gone, faulty, or another's */
	bool gone; /* the driver does not list it */
	char why[NODE_WHY]; /* of a sick one, in words */
	char said[NODE_WORDS][NODE_WHY]; /* "": nothing */
	char taken[NODE_WHY]; /* who else has given it out, in words; "": nobody */
	int numa; /* -1: not known */
};

/* A device that was there once stays in the list, sick, until the daemon ends. */
struct node_devices {
	unsigned int n;
	struct node_device list[POLICY_DEVICES];
	uint8_t nvlinks[POLICY_DEVICES][POLICY_DEVICES]; /* between two of them, by their places */
};

/* "gpu-00112233-4455-6677-8899-aabbccddeeff", "amd-...": its name where a name is a DNS label. */
void node_device_name(const uint8_t uuid[static 16], char ret[static NODE_NAME_BYTES]);
/* The device of that name, or NULL. */
const struct node_device *node_find_name(const struct node_devices *devices, const char *name);
const struct node_device *node_find(const struct node_devices *devices, const uint8_t uuid[static 16]);

/* Takes over the driver's list: a device that is not in it is sick. Returns true if something changed. */
bool node_update(struct node_devices *devices, const struct devices *now);

/* Takes over what is said of devices: nothing of those that are not among them. Likewise. */
bool node_hear(struct node_devices *devices, enum node_words which, const struct faults *words);

/*
 * Notes the other driver that has given it out, in words; "": none. Returns true if the device is sick or well
 * by now that was not so, or is sick for another reason.
 */
bool node_take(struct node_device *device, const char *words);

#endif
