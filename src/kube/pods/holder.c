/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/pods/holder.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/hash.h"
#include "base/number.h"
#include "base/parse.h"
#include "kube/grants/grant.h"
#include "kube/pods/device_id.h"
#include "text/units.h"

int holder_each_slot(const struct kube_conf *conf, const V1__ContainerResources *container,
		     int (*fn)(const char *slot, void *arg), void *arg)
{
	int r = 0;

	for (size_t i = 0; i < container->n_devices; i++) {
		const V1__ContainerDevices *d = container->devices[i];
		const struct kube_resource *resource = kube_conf_resource(conf, d->resource_name);

		if (!resource || resource->unit != KUBE_SLOTS)
			continue;
		for (size_t n = 0; r == 0 && n < d->n_device_ids; n++)
			r = fn(d->device_ids[n], arg);
	}
	return r;
}

struct reading {
	const struct node_devices *devices;
	struct holder *holder;
};

static int holder_add_slot(const char *name, void *arg)
{
	const struct reading *reading = arg;
	struct holder *h = reading->holder;
	struct holder_device *device;
	struct device_slot slot;

	if (!h->first || strcmp(name, h->first) < 0)
		h->first = name;
	if (device_id_parse(reading->devices, name, &slot) < 0) {
		h->foreign = name;
		return 0;
	}
	device = &h->device[slot.device];
	device->slots++;
	device->part_bytes += reading->devices->list[slot.device].device.total_bytes / slot.of;
	device->part_permille += 1000 / slot.of;
	return 0;
}

static void holder_add_units(const struct kube_resource *resource, size_t n, struct holder *h)
{
	uint64_t amount;

	if (!n || resource->unit == KUBE_SLOTS)
		return;
	if (__builtin_mul_overflow(resource->amount, n, &amount))
		amount = UINT64_MAX;
	if (resource->unit == KUBE_MEMORY) {
		h->asks_memory = true;
		h->memory_bytes = sat_add_u64(h->memory_bytes, amount);
	} else {
		h->asks_cores = true;
		h->cores = sat_add_u64(h->cores, amount);
	}
}

void holder_read(const struct kube_conf *conf, const struct node_devices *devices,
		 const V1__PodResources *pod, const V1__ContainerResources *container,
		 struct holder *ret)
{
	struct reading reading = {devices, ret};

	*ret = (struct holder){.pod = pod, .container = container};
	holder_each_slot(conf, container, holder_add_slot, &reading);
	for (size_t i = 0; i < container->n_devices; i++) {
		const V1__ContainerDevices *d = container->devices[i];
		const struct kube_resource *resource = kube_conf_resource(conf, d->resource_name);

		if (resource)
			holder_add_units(resource, d->n_device_ids, ret);
	}
}

static bool holder_is_among(const char *id, char *const *ids, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (!strcmp(id, ids[i]))
			return true;
	return false;
}

/* The list has a resource's devices in several parts where they are on several NUMA nodes. */
static bool holder_has_exactly(const V1__ContainerResources *container, const char *resource,
			       char *const *ids, size_t n)
{
	size_t has = 0;

	for (size_t i = 0; i < container->n_devices; i++) {
		const V1__ContainerDevices *d = container->devices[i];

		if (strcmp(d->resource_name, resource))
			continue;
		for (size_t k = 0; k < d->n_device_ids; k++)
			if (!holder_is_among(d->device_ids[k], ids, n))
				return false;
		has += d->n_device_ids;
	}
	return has && has == n;
}

int holder_find(const struct kube_conf *conf, const struct node_devices *devices,
		const V1__ListPodResourcesResponse *list, const char *resource, char *const *ids,
		size_t n, struct holder *ret)
{
	const V1__PodResources *pod = NULL;
	const V1__ContainerResources *container = NULL;

	for (size_t i = 0; i < list->n_pod_resources; i++) {
		const V1__PodResources *p = list->pod_resources[i];

		for (size_t k = 0; k < p->n_containers; k++) {
			if (!holder_has_exactly(p->containers[k], resource, ids, n))
				continue;
			if (container)
				return -ENOTUNIQ;
			pod = p;
			container = p->containers[k];
		}
	}
	if (!container)
		return -ENOENT;
	holder_read(conf, devices, pod, container, ret);
	return 0;
}

uint64_t holder_quota(const struct holder *holder, unsigned int device)
{
	const struct holder_device *d = &holder->device[device];
	uint64_t bytes;

	if (!d->slots || !holder->asks_memory)
		return d->part_bytes;
	return __builtin_mul_overflow(holder->memory_bytes, d->slots, &bytes) ? UINT64_MAX : bytes;
}

static uint32_t holder_share(const struct holder *holder, const struct holder_device *d)
{
	if (!holder->asks_cores)
		return (uint32_t)max_u64(d->part_permille, 1);
	return (uint32_t)min_u64(min_u64(holder->cores, 100) * d->slots * 10, 1000);
}

/* Words for a quota that the device has no room for. */
static int holder_check_room(const struct node_device *device, uint64_t quota, uint64_t given,
			     char why[static HOLDER_WHY])
{
	uint64_t total = device->device.total_bytes;

	if (quota > total) {
		snprintf(why, HOLDER_WHY,
			 "it asks for %s on %s, which has %s: ask for less memory or more slots",
			 units_bytes(quota).s, units_uuid(device->device.uuid).s,
			 units_bytes(total).s);
		return -ENOSPC;
	}
	if (quota > sat_sub_u64(total, given)) {
		snprintf(why, HOLDER_WHY,
			 "it asks for %s on %s, of whose %s other containers were given %s: a "
			 "scheduler that knows each GPU's memory would not have placed it there; "
			 "delete the Pod, or another one on this GPU",
			 units_bytes(quota).s, units_uuid(device->device.uuid).s,
			 units_bytes(total).s, units_bytes(given).s);
		return -ENOSPC;
	}
	return 0;
}

static void holder_put_device(const struct holder *holder, unsigned int i,
			      const struct node_device *device, struct policy *policy)
{
	struct policy_device *to = &policy->device[policy->ndevices++];

	memcpy(to->uuid, device->device.uuid, sizeof(to->uuid));
	to->total_bytes = device->device.total_bytes;
	to->limit_bytes = holder_quota(holder, i);
	to->share_permille = holder_share(holder, &holder->device[i]);
	/* Of a device whose size is not known. */
	if (!to->limit_bytes)
		to->limit_permille = (uint32_t)max_u64(holder->device[i].part_permille, 1);
}

int holder_policy(const struct kube_conf *conf, const struct node_devices *devices,
		  const struct holder *holder, const uint64_t given_bytes[static POLICY_DEVICES],
		  struct policy *ret, char why[static HOLDER_WHY])
{
	int r = 0;

	*ret = (struct policy){.compute = holder->asks_cores && conf->cores_limit
						  ? POLICY_COMPUTE_CAP
						  : POLICY_COMPUTE_SHARE};
	if (holder->foreign) {
		snprintf(why, HOLDER_WHY, "it holds slot %.*s, of a GPU that is not on this node",
			 DEVICE_ID_BYTES, holder->foreign);
		return -ENODEV;
	}
	for (unsigned int i = 0; r == 0 && i < devices->n; i++) {
		if (!holder->device[i].slots)
			continue;
		r = holder_check_room(&devices->list[i], holder_quota(holder, i), given_bytes[i],
				      why);
		holder_put_device(holder, i, &devices->list[i], ret);
	}
	holder_name(holder, ret, ret->name);
	if (r == 0 && policy_check(ret) < 0) {
		snprintf(why, HOLDER_WHY, "its limits are no policy: more than %s of memory",
			 units_bytes(SIZE_MAX_BYTES).s);
		r = -EINVAL;
	}
	return r;
}

static uint64_t holder_slots_of_gpu(const struct kube_conf *conf)
{
	for (size_t i = 0; i < conf->nresources; i++)
		if (conf->resource[i].unit == KUBE_SLOTS && conf->resource[i].amount)
			return conf->resource[i].amount;
	return 1;
}

static int holder_add_decided(const struct node_devices *devices,
			      const struct decision_device *decided, uint64_t slots,
			      const uint64_t given_bytes[static POLICY_DEVICES],
			      struct policy *policy, char why[static HOLDER_WHY])
{
	const struct node_device *device = node_find(devices, decided->uuid);
	struct policy_device *to;

	if (!device) {
		snprintf(why, HOLDER_WHY, "its scheduler gave it %s, which is not on this node",
			 units_uuid(decided->uuid).s);
		return -ENODEV;
	}
	to = &policy->device[policy->ndevices++];
	memcpy(to->uuid, decided->uuid, sizeof(to->uuid));
	to->total_bytes = device->device.total_bytes;
	to->limit_bytes = decided->memory_bytes ? decided->memory_bytes : to->total_bytes / slots;
	to->share_permille = decided->cores ? (uint32_t)min_u64(decided->cores, 100) * 10
					    : (uint32_t)max_u64(1000 / slots, 1);
	return holder_check_room(device, to->limit_bytes, given_bytes[device - devices->list], why);
}

int holder_policy_decided(const struct kube_conf *conf, const struct node_devices *devices,
			  const struct holder *holder, const struct decision_container *decision,
			  const uint64_t given_bytes[static POLICY_DEVICES], struct policy *ret, char why[static HOLDER_WHY])
{
	uint64_t slots = holder_slots_of_gpu(conf);
	bool asks_cores = false;
	int r = 0;

	*ret = (struct policy){.ndevices = 0};
	for (unsigned int i = 0; r == 0 && i < decision->n; i++) {
		asks_cores |= decision->device[i].cores;
		r = holder_add_decided(devices, &decision->device[i], slots, given_bytes, ret, why);
	}
	ret->compute = asks_cores && conf->cores_limit ? POLICY_COMPUTE_CAP : POLICY_COMPUTE_SHARE;
	holder_name(holder, ret, ret->name);
	if (r == 0 && policy_check(ret) < 0) {
		snprintf(why, HOLDER_WHY, "what its scheduler gave it is no policy");
		r = -EINVAL;
	}
	return r;
}

void holder_name(const struct holder *holder, const struct policy *policy,
		 char ret[static POLICY_NAME_BYTES])
{
	const char *part[] = {holder->pod->namespace_, holder->pod->name, holder->container->name,
			      holder->first};
	uint64_t hash = hash_word(HASH_SEED, policy->compute);
	char unique[17];

	for (int i = 0; i < 4; i++)
		hash = hash_word(hash_string(hash, part[i]), 0);
	hash = hash_bytes(hash, policy->device, policy->ndevices * sizeof(policy->device[0]));
	snprintf(unique, sizeof(unique), "%016" PRIx64, hash);
	grant_name(part[0], part[1], part[2], unique, ret);
}
