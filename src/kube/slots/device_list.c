/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/slots/device_list.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/number.h"
#include "kube/wire/deviceplugin.pb-c.h"
#include "kube/pods/device_id.h"

#define FEWEST_BYTES 16 /* of a device in the list */

static uint64_t device_list_count(const struct kube_resource *resource,
				  const struct node_devices *devices)
{
	uint64_t n = 0;

	for (unsigned int i = 0; i < devices->n; i++)
		n = sat_add_u64(n, device_id_count(resource, &devices->list[i]));
	return n;
}

/* A list of one: lists one behind the other are one list. */
static void device_list_add(const struct kube_resource *resource, const struct node_device *d,
			    uint64_t n, ProtobufCBuffer *to)
{
	V1beta1__ListAndWatchResponse list = V1BETA1__LIST_AND_WATCH_RESPONSE__INIT;
	V1beta1__Device device = V1BETA1__DEVICE__INIT, *devices[] = {&device};
	V1beta1__TopologyInfo topology = V1BETA1__TOPOLOGY_INFO__INIT;
	V1beta1__NUMANode node = V1BETA1__NUMANODE__INIT, *nodes[] = {&node};
	char name[DEVICE_ID_BYTES];

	device_id_name(resource, d, n, name);
	device.id = name;
	device.health = (char *)(d->sick ? "Unhealthy" : "Healthy");
	/* Units have no NUMA node: their GPU need not be that of the container's slots. */
	if (resource->unit == KUBE_SLOTS && d->numa >= 0) {
		node.id = d->numa;
		topology.nodes = nodes;
		topology.n_nodes = 1;
		device.topology = &topology;
	}
	list.devices = devices;
	list.n_devices = 1;
	v1beta1__list_and_watch_response__pack_to_buffer(&list, to);
}

static int device_list_fill(const struct kube_resource *resource,
			    const struct node_devices *devices, ProtobufCBufferSimple *to)
{
	for (unsigned int i = 0; i < devices->n; i++) {
		const struct node_device *d = &devices->list[i];

		for (uint64_t n = 0; n < device_id_count(resource, d); n++) {
			device_list_add(resource, d, n, &to->base);
			if (to->len > DEVICE_LIST_MOST)
				return -EMSGSIZE;
		}
	}
	return 0;
}

int device_list_make(const struct kube_resource *resource, const struct node_devices *devices,
		     struct device_list *ret)
{
	uint8_t first[256];
	ProtobufCBufferSimple to = PROTOBUF_C_BUFFER_SIMPLE_INIT(first);
	int r;

	ret->n = device_list_count(resource, devices);
	r = ret->n > DEVICE_LIST_MOST / FEWEST_BYTES ? -EMSGSIZE
						     : device_list_fill(resource, devices, &to);
	if (r == 0) {
		ret->bytes = malloc(to.len + 1);
		r = ret->bytes ? 0 : -ENOMEM;
	}
	if (r == 0 && to.len)
		memcpy(ret->bytes, to.data, to.len);
	ret->len = r == 0 ? to.len : 0;
	PROTOBUF_C_BUFFER_SIMPLE_CLEAR(&to);
	return r;
}

void device_list_free(struct device_list *list)
{
	free(list->bytes);
	*list = (struct device_list){.n = 0};
}
