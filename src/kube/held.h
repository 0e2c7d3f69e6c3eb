/* SPDX-License-Identifier: Apache-2.0 */
/* Which containers have something of ours, as slots or by claims, from what PodResources says. Pure. */
#ifndef ALLOT_KUBE_HELD_H
#define ALLOT_KUBE_HELD_H

#include "kube/conf.h"
#include "kube/counts.h"
#include "kube/node.h"
#include "kube/podresources.pb-c.h"

/* Into `ret`, malloc'ed: *ret_n of them. -ENOMEM. */
int held_read(const struct kube_conf *conf, const struct node_devices *devices,
	      const V1__ListPodResourcesResponse *list, struct counts_held **ret, size_t *ret_n);

#endif
