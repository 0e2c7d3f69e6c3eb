/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Asks the kubelet every few seconds which container has which devices, its own and others', so that
 * it is known which of them other drivers have given out, and which containers have a part of ours.
 */
#ifndef ALLOT_KUBE_PODS_LISTER_H
#define ALLOT_KUBE_PODS_LISTER_H

#include "base/loop.h"
#include "kube/state/conf.h"
#include "kube/wire/grpc.h"
#include "kube/state/node.h"

struct lister;

/* `changed`: devices are sick or well by now that were not. All stays where it is. -errno. */
int lister_open(struct loop *loop, struct grpc *grpc, const struct kube_conf *conf,
		struct node_devices *devices, void (*changed)(void *arg), void *arg, struct lister **ret);
/* Takes NULL. The loop is not run after this. */
void lister_close(struct lister *lister);

#endif
