/* SPDX-License-Identifier: Apache-2.0 */
/* The grants of this node's slots: written, and dropped when no container has the slot any more. */
#ifndef ALLOT_KUBE_SLOTS_SLOT_GRANTS_H
#define ALLOT_KUBE_SLOTS_SLOT_GRANTS_H

#include <stdbool.h>

#include "kube/state/conf.h"
#include "kube/grants/grant.h"
#include "kube/state/node.h"
#include "kube/wire/podresources.pb-c.h"

struct slot_grants;

/* With those that are there already. -errno, which has been logged. */
int slot_grants_open(const struct kube_conf *conf, struct slot_grants **ret);
/* Grants stay. Takes NULL. */
void slot_grants_close(struct slot_grants *grants);

bool slot_grants_any(const struct slot_grants *grants);

/*
 * Of all the container's slots: the first has the tenant. `folder` is that of its vgpu.config; NULL: by the
 * slot. 0 or -errno with words.
 */
int slot_grants_put(struct slot_grants *grants, const V1__ContainerResources *container,
		    const char *first, const struct policy *policy, const struct grant_folder *folder,
		    char why[static GRANT_WHY]);

/* The kubelet's list by now: memory of grants that no container has any more is not given. */
void slot_grants_look(struct slot_grants *grants, const V1__ListPodResourcesResponse *list);

/* Memory of each device that other containers than that one have, by their grants. */
void slot_grants_given(struct slot_grants *grants, const struct node_devices *devices,
		       const V1__ContainerResources *container,
		       uint64_t ret_bytes[static POLICY_DEVICES]);

/*
 * Drops those of slots that no container of the list has (slot_grants_look), if an earlier list had none either: a
 * list may be older than a grant that was put meanwhile.
 */
void slot_grants_sweep(struct slot_grants *grants);

#endif
