/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kubelet's list of Pods: which container has which devices (PodResources). The lister alone asks
 * for it, and each list serves everything that needs one: containers that are about to start, what our
 * containers hold, and devices that other drivers have given out.
 */
#ifndef ALLOT_KUBE_PODS_LISTER_H
#define ALLOT_KUBE_PODS_LISTER_H

#include "base/loop.h"
#include "kube/state/conf.h"
#include "kube/wire/grpc.h"
#include "kube/state/node.h"
#include "kube/wire/podresources.pb-c.h"

struct lister;

/* Stays where it is until lister_remove. */
struct lister_hearer {
	struct lister_hearer *next;
	/* Each list. `list` is NULL, with words of why, where there is none. It may ask for the next one. */
	void (*heard)(void *arg, const V1__ListPodResourcesResponse *list, const char *why);
	void *arg;
};

/*
 * From now on a list is asked for at least every 5 s. `changed` is called where others have taken a
 * device, or given one back. -errno.
 */
int lister_open(struct loop *loop, struct grpc *grpc, const struct kube_conf *conf,
		struct node_devices *devices, void (*changed)(void *arg), void *arg, struct lister **ret);
/* Takes NULL. The loop is not run after this. */
void lister_close(struct lister *lister);

void lister_add(struct lister *lister, struct lister_hearer *hearer);
void lister_remove(struct lister *lister, struct lister_hearer *hearer);

/* Asks for a list now; none may be under way. -errno where nothing will be heard. */
int lister_ask(struct lister *lister);
bool lister_is_asking(const struct lister *lister);
/* When the latest list was asked for, by now_monotonic_ns. */
uint64_t lister_asked_ns(const struct lister *lister);

#endif
