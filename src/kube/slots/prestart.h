/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Containers that are about to start. The kubelet says which slots such a container has, and no
 * more: the kubelet's list says whose these are. One list at a time answers for all that waited when it
 * was asked for, since kubelets limit how many they answer. Lists also say which grants nobody
 * needs any more.
 */
#ifndef ALLOT_KUBE_SLOTS_PRESTART_H
#define ALLOT_KUBE_SLOTS_PRESTART_H

#include "kube/wire/api.h"
#include "kube/state/conf.h"
#include "kube/wire/deviceplugin.pb-c.h"
#include "kube/wire/grpc.h"
#include "kube/pods/lister.h"
#include "kube/state/node.h"

struct prestart;

/* `api` may be NULL where no scheduler decides. */
int prestart_open(struct lister *lister, struct api *api, const struct kube_conf *conf,
		  const struct node_devices *devices, struct prestart **ret);
/* No call is left that it has. Takes NULL. */
void prestart_close(struct prestart *prestart);

/* Finishes the call, later. The request is freed here. */
void prestart_ask(struct prestart *prestart, const struct kube_resource *resource,
		  struct grpc_call *call, V1beta1__PreStartContainerRequest *request);
/* Slots were allocated: their Pod's scheduler waits to hear of it. */
void prestart_allocated(struct prestart *prestart, const V1beta1__AllocateRequest *request);
/* The call is no more. */
void prestart_gone(struct prestart *prestart, const struct grpc_call *call);

int prestart_timeout_ms(const struct prestart *prestart); /* -1: none */
void prestart_run(struct prestart *prestart);

#endif
