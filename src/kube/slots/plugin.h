/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kubelet's device plugin, v1beta1, one for each resource of the configuration.
 *
 *	kubelet.sock appears ──► own socket anew ──► Register
 *	Allocate ──► a CDI name for each slot, at once
 *	PreStartContainer ──► PodResources: whose are these slots? ──► grant_put
 *	the same where a scheduler decides ──► the Pod, by api ──► grant_put
 */
#ifndef ALLOT_KUBE_SLOTS_PLUGIN_H
#define ALLOT_KUBE_SLOTS_PLUGIN_H

#include "base/loop.h"
#include "kube/wire/api.h"
#include "kube/state/conf.h"
#include "kube/wire/grpc.h"
#include "kube/pods/lister.h"
#include "kube/state/node.h"

struct plugin;

/* All stays where it is. `api` may be NULL where no scheduler decides. -errno. */
int plugin_open(struct loop *loop, struct grpc *grpc, struct lister *lister, struct api *api,
		const struct kube_conf *conf, const struct node_devices *devices, struct plugin **ret);
/* Devices have come, gone, or are sick or well. */
void plugin_tell(struct plugin *plugin);
/* Takes NULL. */
void plugin_close(struct plugin *plugin);

#endif
