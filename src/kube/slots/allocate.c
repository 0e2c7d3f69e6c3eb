/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/slots/allocate.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/container.h"
#include "base/err.h"
#include "cdi/spec.h"
#include "kube/grants/grant.h"
#include "kube/slots/prefer.h"
#include "kube/pods/device_id.h"
#include "text/units.h"

#define ANNOTATION "cdi.k8s.io/allot-" /* and the resource's name */
/* Bounds of a request; kubelets ask for one container at a time. */
#define CONTAINERS_MOST 64
#define SLOTS_MOST	512
#define MOUNTS		3
#define AVAILABLE_MOST	8192

#define allocate_say(why, r, ...) err_say(why, ALLOCATE_WHY, r, __VA_ARGS__)

static int allocate_find_slot(const struct node_devices *devices, const char *name, struct device_slot *ret,
			      char why[static ALLOCATE_WHY])
{
	int r = device_id_parse(devices, name, ret);

	if (r == -EINVAL)
		return allocate_say(why, r, "\"%.63s\" is no slot's name", name);
	return r < 0 ? allocate_say(why, r, "slot %.63s is of no GPU of this node", name) : 0;
}

/* An array of `n` pointers; one more has room. */
static void *allocate_pointers(size_t n)
{
	return calloc(n + 1, sizeof(void *));
}

/* --- Allocate -------------------------------------------------------------------------------- */

typedef V1beta1__ContainerAllocateResponse container_answer;

static int answer_add(container_answer *answer, const char *name)
{
	V1beta1__CDIDevice *device = malloc(sizeof(*device));

	if (!device)
		return -ENOMEM;
	v1beta1__cdidevice__init(device);
	device->name = strdup(name);
	answer->cdi_devices[answer->n_cdi_devices++] = device;
	return device->name ? 0 : -ENOMEM;
}

/* A scheduler's decision is known when the container starts, and by our grant only its GPUs can be
 * used. */
static void answer_name_all(struct grant_names *names)
{
	for (size_t i = 1; i < names->n; i++) {
		char *device = strchr(names->name[i], '=');

		if (device)
			strcpy(device, "=all");
	}
}

/* Of the slot, and those of its GPU if no earlier slot was of that. */
static int answer_add_slot(const struct kube_conf *conf, const struct node_device *device,
			   const char *slot, bool first, container_answer *answer,
			   char why[static ALLOCATE_WHY])
{
	static struct grant grant;
	static struct grant_names names;
	int r = 0;

	_Static_assert(ALLOCATE_WHY == GRANT_WHY, "either fits");
	grant = (struct grant){.policy.ndevices = 1};
	device_id_grant(slot, grant.id);
	memcpy(grant.policy.device[0].uuid, device->device.uuid, 16);
	if (!first) {
		snprintf(names.name[0], sizeof(names.name[0]), GRANT_KIND "=%s", grant.id);
		return answer_add(answer, names.name[0]);
	}
	r = grant_names(conf, &grant, &names, why);
	if (r == 0 && conf->scheduler != KUBE_STOCK)
		answer_name_all(&names);
	for (size_t i = 0; r == 0 && i < names.n; i++)
		r = answer_add(answer, names.name[i]);
	return r;
}

static int answer_annotate(const struct kube_resource *resource, container_answer *answer)
{
	V1beta1__ContainerAllocateResponse__AnnotationsEntry *entry = malloc(sizeof(*entry));
	size_t len = 1, at = 0;
	char key[sizeof(ANNOTATION) + KUBE_NAME_BYTES], *slash;

	if (!entry)
		return -ENOMEM;
	v1beta1__container_allocate_response__annotations_entry__init(entry);
	answer->annotations[answer->n_annotations++] = entry;
	snprintf(key, sizeof(key), ANNOTATION "%s", resource->name);
	slash = strchr(key + strlen(ANNOTATION), '/');
	if (slash)
		*slash = '-';
	for (size_t i = 0; i < answer->n_cdi_devices; i++)
		len += strlen(answer->cdi_devices[i]->name) + 1;
	entry->key = strdup(key);
	entry->value = malloc(len);
	if (!entry->key || !entry->value)
		return -ENOMEM;
	for (size_t i = 0; i < answer->n_cdi_devices; i++)
		at += (size_t)snprintf(entry->value + at, len - at, "%s%s", i ? "," : "",
				       answer->cdi_devices[i]->name);
	return 0;
}

static int answer_set_variable(container_answer *answer, const char *key, const char *value)
{
	V1beta1__ContainerAllocateResponse__EnvsEntry *entry = malloc(sizeof(*entry));

	if (!entry)
		return -ENOMEM;
	v1beta1__container_allocate_response__envs_entry__init(entry);
	answer->envs[answer->n_envs++] = entry;
	entry->key = strdup(key);
	entry->value = strdup(value);
	return entry->key && entry->value ? 0 : -ENOMEM;
}

/*
 * To NVIDIA's runtime: no GPU. Otherwise it brings all that the image asks for into a container whose runtime
 * knows nothing of CDI, where nothing is limited. The grant, or NVIDIA's own CDI device, says another thing.
 */
static int answer_hide_gpus(container_answer *answer)
{
	return answer_set_variable(answer, "NVIDIA_VISIBLE_DEVICES", "void");
}

/* --- For runtimes without CDI ---------------------------------------------------------------- */

static int answer_mount(container_answer *answer, const char *host, const char *container)
{
	V1beta1__Mount *mount = malloc(sizeof(*mount));

	if (!mount)
		return -ENOMEM;
	v1beta1__mount__init(mount);
	answer->mounts[answer->n_mounts++] = mount;
	mount->host_path = strdup(host);
	mount->container_path = strdup(container);
	mount->read_only = true;
	return mount->host_path && mount->container_path ? 0 : -ENOMEM;
}

/* The slot by which PreStartContainer names the grant, too (holder.h): the first one by its name. */
static const char *answer_first_slot(const V1beta1__ContainerAllocateRequest *request)
{
	const char *first = request->devices_ids[0];

	for (size_t i = 1; i < request->n_devices_ids; i++)
		if (strcmp(request->devices_ids[i], first) < 0)
			first = request->devices_ids[i];
	return first;
}

static int answer_add_mounts(const struct kube_conf *conf, const V1beta1__ContainerAllocateRequest *request,
			     container_answer *answer, char why[static ALLOCATE_WHY])
{
	static struct grant_mounts mounts;
	char id[GRANT_ID_BYTES];
	int r;

	device_id_grant(answer_first_slot(request), id);
	r = grant_mounts(conf, id, &mounts, why);
	if (r == 0)
		r = answer_mount(answer, mounts.folder, CDI_XPU);
	if (r == 0)
		r = answer_mount(answer, mounts.library, CONTAINER_LIBRARY);
	if (r == 0)
		r = answer_mount(answer, mounts.preload, CONTAINER_PRELOAD);
	return r;
}

/* NVIDIA's runtime brings the GPUs of the slots, each once. */
static int answer_show_gpus(const struct node_devices *devices, const V1beta1__ContainerAllocateRequest *request,
			    container_answer *answer, char why[static ALLOCATE_WHY])
{
	static char uuids[POLICY_DEVICES * (sizeof(struct units_text) + 1)];
	bool seen[POLICY_DEVICES] = {false};
	struct device_slot slot;
	size_t at = 0;

	*uuids = 0;
	for (size_t i = 0; i < request->n_devices_ids; i++) {
		const char *name = request->devices_ids[i];
		int r = allocate_find_slot(devices, name, &slot, why);

		if (r < 0)
			return r;
		if (devices->list[slot.device].device.vendor != DEVICE_NVIDIA)
			return allocate_say(why, -ENOTSUP, "slot %.63s is of an AMD GPU, which needs a runtime with CDI; "
					    "take delivery = mounts from allotd.conf", name);
		if (!seen[slot.device])
			at += (size_t)snprintf(uuids + at, sizeof(uuids) - at, "%s%s", at ? "," : "",
					       units_uuid(devices->list[slot.device].device.uuid).s);
		seen[slot.device] = true;
	}
	return answer_set_variable(answer, "NVIDIA_VISIBLE_DEVICES", uuids);
}

static int answer_without_cdi(const struct kube_conf *conf, const struct node_devices *devices,
			      const V1beta1__ContainerAllocateRequest *request, container_answer *answer,
			      char why[static ALLOCATE_WHY])
{
	int r = answer_show_gpus(devices, request, answer, why);

	return r < 0 ? r : answer_add_mounts(conf, request, answer, why);
}

/* --- All of the answer ----------------------------------------------------------------------- */

static int answer_slots(const struct kube_conf *conf, const struct node_devices *devices,
			const V1beta1__ContainerAllocateRequest *request, container_answer *answer,
			char why[static ALLOCATE_WHY])
{
	bool seen[POLICY_DEVICES] = {false};
	struct device_slot slot;
	bool first;
	int r = 0;

	for (size_t i = 0; r == 0 && i < request->n_devices_ids; i++) {
		const char *name = request->devices_ids[i];

		r = allocate_find_slot(devices, name, &slot, why);
		if (r < 0)
			return r;
		first = conf->scheduler == KUBE_STOCK ? !seen[slot.device] : i == 0;
		r = answer_add_slot(conf, &devices->list[slot.device], name, first, answer, why);
		seen[slot.device] = true;
	}
	return r;
}

/* Part of the answer in any case, so that it is freed with that. */
static container_answer *answer_new(const V1beta1__ContainerAllocateRequest *request,
				    V1beta1__AllocateResponse *response)
{
	container_answer *answer = malloc(sizeof(*answer));

	if (!answer)
		return NULL;
	v1beta1__container_allocate_response__init(answer);
	response->container_responses[response->n_container_responses++] = answer;
	/* NVIDIA's names are as many as ours at most: one for each GPU. */
	answer->cdi_devices = allocate_pointers(2 * request->n_devices_ids);
	answer->annotations = allocate_pointers(1);
	answer->envs = allocate_pointers(1);
	answer->mounts = allocate_pointers(MOUNTS);
	return answer->cdi_devices && answer->annotations && answer->envs && answer->mounts ? answer : NULL;
}

static int allocate_container(const struct kube_conf *conf, const struct node_devices *devices,
			      const struct kube_resource *resource,
			      const V1beta1__ContainerAllocateRequest *request,
			      V1beta1__AllocateResponse *response, char why[static ALLOCATE_WHY])
{
	container_answer *answer;
	int r;

	if (resource->unit == KUBE_SLOTS && request->n_devices_ids > SLOTS_MOST)
		return allocate_say(why, -EINVAL, "a container asks for %zu slots, more than %d",
				    request->n_devices_ids, SLOTS_MOST);
	answer = answer_new(request, response);
	if (!answer)
		return -ENOMEM;
	if (resource->unit != KUBE_SLOTS || !request->n_devices_ids)
		return 0;
	if (conf->by_mounts)
		return answer_without_cdi(conf, devices, request, answer, why);
	r = answer_slots(conf, devices, request, answer, why);
	if (r < 0 || !answer->n_cdi_devices)
		return r;
	r = answer_hide_gpus(answer);
	return r < 0 ? r : answer_annotate(resource, answer);
}

int allocate_answer(const struct kube_conf *conf, const struct node_devices *devices,
		    const struct kube_resource *resource, const V1beta1__AllocateRequest *request,
		    V1beta1__AllocateResponse **ret, char why[static ALLOCATE_WHY])
{
	V1beta1__AllocateResponse *response;
	size_t n = request->n_container_requests;
	int r = 0;

	if (n > CONTAINERS_MOST)
		return allocate_say(why, -EINVAL, "the request is for %zu containers, more than %d",
				    n, CONTAINERS_MOST);
	allocate_say(why, 0, "out of memory");
	response = malloc(sizeof(*response));
	if (!response)
		return -ENOMEM;
	v1beta1__allocate_response__init(response);
	response->container_responses = allocate_pointers(n);
	if (!response->container_responses)
		r = -ENOMEM;
	for (size_t i = 0; r == 0 && i < n; i++)
		r = allocate_container(conf, devices, resource, request->container_requests[i],
				       response, why);
	if (r < 0)
		v1beta1__allocate_response__free_unpacked(response, NULL);
	else
		*ret = response;
	return r;
}

/* --- GetPreferredAllocation ----------------------------------------------------------------- */

/* A scheduler that decides places containers by their sizes, whatever the kubelet prefers. */
static bool prefer_is_sized(const struct kube_conf *conf)
{
	for (size_t i = 0; conf->scheduler == KUBE_STOCK && i < conf->nresources; i++)
		if (conf->resource[i].unit == KUBE_MEMORY)
			return true;
	return false;
}

static int prefer_container(const struct kube_conf *conf, const struct node_devices *devices,
			    const V1beta1__ContainerPreferredAllocationRequest *request,
			    V1beta1__PreferredAllocationResponse *response,
			    char why[static ALLOCATE_WHY])
{
	V1beta1__ContainerPreferredAllocationResponse *answer;
	struct prefer_request ask = {
		.available = request->available_deviceids,
		.n_available = request->n_available_deviceids,
		.must = request->must_include_deviceids,
		.n_must = request->n_must_include_deviceids,
		.sized = prefer_is_sized(conf),
		.size = request->allocation_size > 0 ? (size_t)request->allocation_size : 0};
	int r;

	if (ask.n_available > AVAILABLE_MOST || ask.n_must > SLOTS_MOST || ask.size > SLOTS_MOST)
		return allocate_say(why, -EINVAL,
				    "a container asks for %zu of %zu slots, more than %d of %d",
				    ask.size, ask.n_available, SLOTS_MOST, AVAILABLE_MOST);
	answer = malloc(sizeof(*answer));
	if (!answer)
		return -ENOMEM;
	v1beta1__container_preferred_allocation_response__init(answer);
	response->container_responses[response->n_container_responses++] = answer;
	answer->deviceids = allocate_pointers(ask.size);
	if (!answer->deviceids)
		return -ENOMEM;
	r = prefer_slots(devices, &ask, answer->deviceids);
	if (r == -EINVAL)
		return allocate_say(why, r,
				    "%d slots are asked for: %zu are free, %zu must be of them",
				    request->allocation_size, ask.n_available, ask.n_must);
	answer->n_deviceids = ask.size;
	return r;
}

int allocate_prefer(const struct kube_conf *conf, const struct node_devices *devices,
		    const struct kube_resource *resource,
		    const V1beta1__PreferredAllocationRequest *request,
		    V1beta1__PreferredAllocationResponse **ret, char why[static ALLOCATE_WHY])
{
	V1beta1__PreferredAllocationResponse *response;
	size_t n = request->n_container_requests;
	int r = 0;

	if (resource->unit != KUBE_SLOTS || n > CONTAINERS_MOST)
		return allocate_say(why, -EINVAL,
				    "of %s nobody is asked which to take, of %zu containers",
				    resource->name, n);
	allocate_say(why, 0, "out of memory");
	response = malloc(sizeof(*response));
	if (!response)
		return -ENOMEM;
	v1beta1__preferred_allocation_response__init(response);
	response->container_responses = allocate_pointers(n);
	if (!response->container_responses)
		r = -ENOMEM;
	for (size_t i = 0; r == 0 && i < n; i++)
		r = prefer_container(conf, devices, request->container_requests[i], response, why);
	if (r < 0)
		allocate_free_preferred(response);
	else
		*ret = response;
	return r;
}

void allocate_free_preferred(V1beta1__PreferredAllocationResponse *response)
{
	if (!response)
		return;
	for (size_t i = 0; i < response->n_container_responses; i++) {
		free(response->container_responses[i]->deviceids);
		free(response->container_responses[i]);
	}
	free(response->container_responses);
	free(response);
}
