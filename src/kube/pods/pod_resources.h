/* SPDX-License-Identifier: Apache-2.0 */
/* Asks the kubelet which container has which devices: PodResources, v1. */
#ifndef ALLOT_KUBE_PODS_POD_RESOURCES_H
#define ALLOT_KUBE_PODS_POD_RESOURCES_H

#include <stdbool.h>

#include "kube/state/conf.h"
#include "kube/wire/grpc.h"
#include "kube/wire/podresources.pb-c.h"

struct pod_resources_call;

/* Once. `list` is NULL, with words of why, where there is none. */
typedef void pod_resources_heard(void *arg, const V1__ListPodResourcesResponse *list,
				 const char *why);

/* -errno where `heard` will not be called. `ret` is good until it is. */
int pod_resources_list(struct grpc *grpc, const struct kube_conf *conf, pod_resources_heard *heard,
		       void *arg, struct pod_resources_call **ret);
/*
 * False: the list may lack Pods that are there, as the kubelet has just started, or hears of none from the
 * API server.
 */
bool pod_resources_is_whole(const struct kube_conf *conf, const V1__ListPodResourcesResponse *list);

/* It will not be called any more. Takes NULL. */
void pod_resources_forget(struct pod_resources_call *call);

#endif
