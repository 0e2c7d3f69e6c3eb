/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names of a resource's devices, as the kubelet has them. A slot's name says which part of which GPU
 * it is, so it keeps its meaning when the configuration changes under a container that has it. Pure.
 *
 *	gpu-00112233-4455-6677-8899-aabbccddeeff.3of10	slot 3 of 10
 *	gpu-00112233-4455-6677-8899-aabbccddeeff.m17	a unit of memory
 *	gpu-00112233-4455-6677-8899-aabbccddeeff.c17	a unit of a GPU's time
 *
 * Units are counted alone: the GPU in their names is the one whose health they have.
 */
#ifndef ALLOT_KUBE_PODS_DEVICE_ID_H
#define ALLOT_KUBE_PODS_DEVICE_ID_H

#include "kube/state/conf.h"
#include "kube/grants/grant.h"
#include "kube/state/node.h"
#include "node/process/pod.h"

#define DEVICE_ID_BYTES (NODE_NAME_BYTES + 24)
#define SLOT_GRANT	POD_SLOT /* the id of a slot's grant: this and the slot's name */

struct device_slot {
	unsigned int device; /* its place in the list of devices */
	uint32_t n, of;
};

/* 0; -EINVAL: it is no slot's name; -ENODEV: the node never had this GPU. */
int device_id_parse(const struct node_devices *devices, const char *name, struct device_slot *ret);

/* How many devices of the resource one GPU is. */
uint64_t device_id_count(const struct kube_resource *resource, const struct node_device *device);
/* The name of device `n` of the resource, on that GPU. */
void device_id_name(const struct kube_resource *resource, const struct node_device *device,
		    uint64_t n, char ret[static DEVICE_ID_BYTES]);

void device_id_grant(const char *name, char ret[static GRANT_ID_BYTES]);

#endif
