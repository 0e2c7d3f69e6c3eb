/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A container that holds slots: what it may use, from what PodResources says of it. Each of its
 * slots is a part of one GPU; each part has as much memory and time as the container asks for by
 * the other resources, or where it asks for none, as much of the GPU as one slot is. Pure.
 */
#ifndef ALLOT_KUBE_PODS_HOLDER_H
#define ALLOT_KUBE_PODS_HOLDER_H

#include "kube/state/conf.h"
#include "kube/schedulers/decision.h"
#include "kube/state/node.h"
#include "kube/wire/podresources.pb-c.h"
#include "ledger/policy.h"

#define HOLDER_WHY 512

struct holder_device {
	uint32_t slots;
	uint64_t part_bytes; /* of the GPU, as many as these slots are */
	uint32_t part_permille;
};

struct holder {
	const V1__PodResources *pod; /* all that it points to is the list's */
	const V1__ContainerResources *container;
	const char *first;   /* of its slots, by name; NULL: it holds none */
	const char *foreign; /* a slot of no GPU of this node; NULL: none */
	bool asks_memory, asks_cores;
	uint64_t memory_bytes; /* of each slot */
	uint64_t cores;	       /* percent of each slot */
	struct holder_device device[POLICY_DEVICES];
};

void holder_read(const struct kube_conf *conf, const struct node_devices *devices,
		 const V1__PodResources *pod, const V1__ContainerResources *container,
		 struct holder *ret);

/* Calls fn for each slot of the container; its answer, if that is not 0, ends it. */
int holder_each_slot(const struct kube_conf *conf, const V1__ContainerResources *container,
		     int (*fn)(const char *slot, void *arg), void *arg);

/*
 * The container that has these devices of the resource and no others of it: 0. -ENOENT: none has;
 * -ENOTUNIQ: more than one.
 */
int holder_find(const struct kube_conf *conf, const struct node_devices *devices,
		const V1__ListPodResourcesResponse *list, const char *resource, char *const *ids,
		size_t n, struct holder *ret);

/* Memory that it may use of a device. */
uint64_t holder_quota(const struct holder *holder, unsigned int device);

/*
 * Of bytes of each device that others were given: 0, or -EINVAL, -ENOSPC, -ENODEV with words of why
 * there is no such policy.
 */
int holder_policy(const struct kube_conf *conf, const struct node_devices *devices,
		  const struct holder *holder, const uint64_t given_bytes[static POLICY_DEVICES],
		  struct policy *ret, char why[static HOLDER_WHY]);

/* The same where a scheduler decided what it has. */
int holder_policy_decided(const struct kube_conf *conf, const struct node_devices *devices,
			  const struct holder *holder, const struct decision_container *decision,
			  const uint64_t given_bytes[static POLICY_DEVICES], struct policy *ret,
			  char why[static HOLDER_WHY]);

/*
 * The tenant's name. A container that is started again finds its tenant by it; a Pod of the same
 * name that comes later, with other slots or limits, has another one.
 */
void holder_name(const struct holder *holder, const struct policy *policy,
		 char ret[static POLICY_NAME_BYTES]);

#endif
