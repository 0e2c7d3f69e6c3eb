/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/pods/held.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kube/pods/device_id.h"
#include "kube/pods/holder.h"

struct holding {
	const struct node_devices *devices;
	struct counts_held *held;
	bool any;
};

static int held_add_slot(const char *name, void *arg)
{
	struct holding *holding = arg;
	struct device_slot slot;

	if (device_id_parse(holding->devices, name, &slot) == 0)
		holding->any = holding->held->device[slot.device] = true;
	return 0;
}

static void held_add_claim(struct holding *holding, const V1__ClaimResource *given)
{
	const struct node_device *device = node_find_name(holding->devices, given->device_name);

	if (device)
		holding->any = holding->held->device[device - holding->devices->list] = true;
}

static void held_add_claims(struct holding *holding, const struct kube_conf *conf,
			    const V1__ContainerResources *container)
{
	for (size_t i = 0; i < container->n_dynamic_resources; i++) {
		const V1__DynamicResource *claim = container->dynamic_resources[i];

		for (size_t k = 0; k < claim->n_claim_resources; k++)
			if (!strcmp(claim->claim_resources[k]->driver_name, conf->driver))
				held_add_claim(holding, claim->claim_resources[k]);
	}
}

/* Returns true if the container has something. */
static bool held_look_at(const struct kube_conf *conf, const struct node_devices *devices,
			 const V1__PodResources *pod, const V1__ContainerResources *container,
			 struct counts_held *ret)
{
	struct holding holding = {devices, ret, false};

	memset(ret, 0, sizeof(*ret));
	snprintf(ret->space, sizeof(ret->space), "%s", pod->namespace_);
	snprintf(ret->pod, sizeof(ret->pod), "%s", pod->name);
	snprintf(ret->container, sizeof(ret->container), "%s", container->name);
	if (conf->ways & KUBE_PLUGIN)
		holder_each_slot(conf, container, held_add_slot, &holding);
	if (conf->ways & KUBE_DRA)
		held_add_claims(&holding, conf, container);
	return holding.any;
}

static size_t held_most(const V1__ListPodResourcesResponse *list)
{
	size_t n = 0;

	for (size_t i = 0; i < list->n_pod_resources; i++)
		n += list->pod_resources[i]->n_containers;
	return n;
}

int held_read(const struct kube_conf *conf, const struct node_devices *devices,
	      const V1__ListPodResourcesResponse *list, struct counts_held **ret, size_t *ret_n)
{
	struct counts_held *held = calloc(held_most(list) + 1, sizeof(*held)), *smaller;
	size_t n = 0;

	if (!held)
		return -ENOMEM;
	for (size_t i = 0; i < list->n_pod_resources; i++) {
		const V1__PodResources *pod = list->pod_resources[i];

		for (size_t k = 0; k < pod->n_containers; k++)
			n += held_look_at(conf, devices, pod, pod->containers[k], &held[n]);
	}
	smaller = realloc(held, (n + 1) * sizeof(*held));
	*ret = smaller ? smaller : held;
	*ret_n = n;
	return 0;
}
