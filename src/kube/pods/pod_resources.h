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
 * Returns true if the list has a Pod that the kubelet heard of from the API server, which tells it of all Pods of the
 * node at once. A kubelet that started while that server does not answer lists the Pods of its own files alone
 * until it does, and the containers of all others run. Each node has such Pods, if only of its network.
 */
bool pod_resources_has_api_pods(const struct kube_conf *conf, const V1__ListPodResourcesResponse *list);
/*
 * False: the list may lack Pods that are there, as the kubelet has just started, or has heard of none from the
 * API server for less than 10 minutes.
 */
bool pod_resources_is_whole(const struct kube_conf *conf, const V1__ListPodResourcesResponse *list);

/* It will not be called any more. Takes NULL. */
void pod_resources_forget(struct pod_resources_call *call);

#endif
