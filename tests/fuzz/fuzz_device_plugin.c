/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages to the device plugin. The first byte says which: 'p' a request of
 * GetPreferredAllocation, 'a' of Allocate, 'd' a Pod by the API server, else a list, of which each
 * container is looked up.
 */
#include <errno.h>
#include <string.h>

#include "kube/slots/allocate.h"
#include "kube/pods/device_id.h"
#include "kube/pods/holder.h"
#include "kube/schedulers/pod_decision.h"
#include "tests/fuzz/fuzz.h"

#define GPU_BYTES (UINT64_C(80) << 30)

static struct node_devices devices;
static struct kube_conf conf;

static void begin(void)
{
	static const struct kube_resource resource[] = {
		{"g", KUBE_SLOTS, 10}, {"m", KUBE_MEMORY, UINT64_C(1) << 30}, {"c", KUBE_CORES, 1}};

	memcpy(conf.resource, resource, sizeof(resource));
	conf.nresources = 3;
	strcpy(conf.nvidia_cdi, "none");
	strcpy(conf.node, "n");
	conf.scheduler = KUBE_HAMI;
	for (devices.n = 0; devices.n < 2; devices.n++) {
		devices.list[devices.n].device.uuid[15] = (uint8_t)devices.n;
		devices.list[devices.n].device.total_bytes = GPU_BYTES;
		devices.list[devices.n].numa = (int)devices.n;
	}
}

static void check_prefer(const uint8_t *data, size_t size)
{
	V1beta1__PreferredAllocationRequest *request =
		v1beta1__preferred_allocation_request__unpack(NULL, size, data);
	V1beta1__PreferredAllocationResponse *response = NULL;
	char why[ALLOCATE_WHY] = "";

	if (!request)
		return;
	if (allocate_prefer(&conf, &devices, &conf.resource[0], request, &response, why) < 0)
		MUST(*why);
	else
		for (size_t i = 0; i < response->n_container_responses; i++)
			MUST(response->container_responses[i]->n_deviceids ==
			     (size_t)(request->container_requests[i]->allocation_size > 0
					      ? request->container_requests[i]->allocation_size
					      : 0));
	allocate_free_preferred(response);
	v1beta1__preferred_allocation_request__free_unpacked(request, NULL);
}

static void check_allocate(const uint8_t *data, size_t size)
{
	V1beta1__AllocateRequest *request = v1beta1__allocate_request__unpack(NULL, size, data);
	V1beta1__AllocateResponse *response = NULL;
	char why[ALLOCATE_WHY] = "";

	if (!request)
		return;
	if (allocate_answer(&conf, &devices, &conf.resource[0], request, &response, why) < 0) {
		MUST(*why);
	} else {
		MUST(response->n_container_responses == request->n_container_requests);
		v1beta1__allocate_response__free_unpacked(response, NULL);
	}
	v1beta1__allocate_request__free_unpacked(request, NULL);
}

static void check_holder(const V1__ListPodResourcesResponse *list, const V1__PodResources *pod,
			 const V1__ContainerResources *container)
{
	static const uint64_t given[POLICY_DEVICES];
	static struct holder holder;
	static struct policy policy;
	char why[HOLDER_WHY] = "";
	int r;

	holder_read(&conf, &devices, pod, container, &holder);
	if (holder.first) {
		r = holder_policy(&conf, &devices, &holder, given, &policy, why);
		MUST(r < 0 ? *why != '\0' : policy_check(&policy) == 0);
	}
	if (container->n_devices)
		holder_find(&conf, &devices, list, container->devices[0]->resource_name,
			    container->devices[0]->device_ids, container->devices[0]->n_device_ids,
			    &holder);
}

static void check_list(const uint8_t *data, size_t size)
{
	V1__ListPodResourcesResponse *list =
		v1__list_pod_resources_response__unpack(NULL, size, data);

	for (size_t i = 0; list && i < list->n_pod_resources && i < 8; i++)
		for (size_t k = 0; k < list->pod_resources[i]->n_containers && k < 8; k++)
			check_holder(list, list->pod_resources[i],
				     list->pod_resources[i]->containers[k]);
	if (list)
		v1__list_pod_resources_response__free_unpacked(list, NULL);
}

/* What an API server says of a Pod, whose annotations its user may have written. */
static void check_pod(const uint8_t *data, size_t size)
{
	static const uint64_t given[POLICY_DEVICES];
	static struct pod_decision decision;
	static struct holder holder;
	static struct policy policy;
	static V1__PodResources pod = V1__POD_RESOURCES__INIT;
	static V1__ContainerResources container = V1__CONTAINER_RESOURCES__INIT;
	char why[HOLDER_WHY] = "";

	if (pod_decision_read(&conf, (const char *)data, size, "c", &decision, why) < 0) {
		MUST(*why);
		return;
	}
	MUST(decision.container.n >= 1 && decision.container.n <= POLICY_DEVICES);
	holder.pod = &pod;
	holder.container = &container;
	holder.first = "";
	if (holder_policy_decided(&conf, &devices, &holder, &decision.container, given, &policy, why) < 0)
		MUST(*why);
	else
		MUST(policy_check(&policy) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (!devices.n)
		begin();
	if (!size)
		return 0;
	switch (*data) {
	case 'p':
		check_prefer(data + 1, size - 1);
		break;
	case 'a':
		check_allocate(data + 1, size - 1);
		break;
	case 'd':
		check_pod(data + 1, size - 1);
		break;
	default:
		check_list(data + 1, size - 1);
	}
	return 0;
}
