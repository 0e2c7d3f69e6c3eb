/* SPDX-License-Identifier: Apache-2.0 */
/*
 * This node's ResourceSlices: what it has, for the scheduler. They are listed and written where they
 * differ at each registration, and when something has changed; at rest nothing is written.
 */
#ifndef ALLOT_KUBE_SLICES_SLICES_H
#define ALLOT_KUBE_SLICES_SLICES_H

#include <stdbool.h>

#include "kube/wire/api.h"
#include "kube/state/conf.h"
#include "kube/state/node.h"

struct slices;

/* All stays where it is. -errno; -EINVAL: the node's or the driver's name is none of Kubernetes'. */
int slices_open(struct loop *loop, struct api *api, const struct kube_conf *conf,
		const struct node_devices *devices, struct slices **ret);
/* They are to be as the devices are now, whatever others did to them. */
void slices_sync(struct slices *slices);
/* Returns true if since the last slices_sync they were found to be as the devices are. */
bool slices_is_settled(const struct slices *slices);
/* Takes NULL. What is published stays. The loop is not run after this. */
void slices_close(struct slices *slices);

#endif
