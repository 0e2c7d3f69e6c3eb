/* SPDX-License-Identifier: Apache-2.0 */
/* All devices of a resource, as ListAndWatch tells the kubelet of them. Pure. */
#ifndef ALLOT_KUBE_SLOTS_DEVICE_LIST_H
#define ALLOT_KUBE_SLOTS_DEVICE_LIST_H

#include <stddef.h>
#include <stdint.h>

#include "kube/state/conf.h"
#include "kube/state/node.h"

/* A quarter of what kubelets take: their list grows by what later versions say of a device. */
#define DEVICE_LIST_MOST ((size_t)1 << 20)

struct device_list {
	uint8_t *bytes; /* a v1beta1.ListAndWatchResponse, of malloc */
	size_t len;
	uint64_t n; /* devices */
};

/* -ENOMEM; -EMSGSIZE: it would be above DEVICE_LIST_MOST; ret->n is set all the same. */
int device_list_make(const struct kube_resource *resource, const struct node_devices *devices,
		     struct device_list *ret);
void device_list_free(struct device_list *list);

#endif
