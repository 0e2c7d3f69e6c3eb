/* SPDX-License-Identifier: Apache-2.0 */
/* Which containers have something of ours, as slots or by claims, from what PodResources says. Pure. */
#ifndef ALLOT_KUBE_PODS_HELD_H
#define ALLOT_KUBE_PODS_HELD_H

#include "kube/state/conf.h"
#include "kube/state/counts.h"
#include "kube/state/node.h"
#include "kube/wire/podresources.pb-c.h"

/* Into `ret`, malloc'ed: *ret_n of them. -ENOMEM. */
int held_read(const struct kube_conf *conf, const struct node_devices *devices,
	      const V1__ListPodResourcesResponse *list, struct counts_held **ret, size_t *ret_n);

#endif
