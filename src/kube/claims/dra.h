/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The driver of dynamic resource allocation (resource.k8s.io/v1): what the kubelet asks of it.
 *
 *	kubelet ──► plugins_registry/<driver>-reg.sock ──► GetInfo ──► plugins/<driver>/dra.sock
 *	NodePrepareResources ──► claim (api) ──► claim_read ──► grant_put ──► CDI names
 *	NodeUnprepareResources ──► grant_drop
 *	NodeWatchResources ◄── whether devices are well
 */
#ifndef ALLOT_KUBE_CLAIMS_DRA_H
#define ALLOT_KUBE_CLAIMS_DRA_H

#include "kube/wire/api.h"
#include "kube/state/conf.h"
#include "kube/wire/grpc.h"
#include "kube/pods/lister.h"
#include "kube/state/node.h"

struct dra;

/*
 * All stays where it is. `lister` may be NULL: then claims that nobody unprepares stay. `registered` is
 * called whenever a kubelet has taken the driver: it may have removed the slices before. -errno, after a line
 * in the log.
 */
int dra_open(struct loop *loop, struct grpc *grpc, struct lister *lister, struct api *api,
	     const struct kube_conf *conf, const struct node_devices *devices, void (*registered)(void *arg),
	     void *arg, struct dra **ret);
/* Devices have come, gone, or are sick or well. */
void dra_tell(struct dra *dra);
/* Takes NULL. Grants stay. */
void dra_close(struct dra *dra);

#endif
