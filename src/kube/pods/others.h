/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Others who hand out this node's GPUs: a vendor's device plugin or DRA driver beside us, of which the
 * kubelet's list says what containers have of them. A GPU that such a container has is sick for us
 * until it is free, as nobody holds that container to a part of it.
 */
#ifndef ALLOT_KUBE_PODS_OTHERS_H
#define ALLOT_KUBE_PODS_OTHERS_H

#include <stdbool.h>

#include "kube/state/conf.h"
#include "kube/state/node.h"
#include "kube/wire/podresources.pb-c.h"

/*
 * Notes who has each device by the list. Without `whole`, which is said of a list that may lack Pods,
 * none becomes free. Returns true if a device is sick or well by now that was not so before, which is
 * logged. Pure, but for that and for what the kernel says of a GPU: its minor number, and whether it is divided.
 */
bool others_note(const struct kube_conf *conf, struct node_devices *devices,
		 const V1__ListPodResourcesResponse *list, bool whole);

#endif
