/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The parts of allotd that serve Kubernetes, on the daemon's own thread and loop.
 *
 *	kubelet ──► grpc ──► dra, plugin ──► grant (a CDI file) ──► runtime ──► `allot cdi hook` ──► tenant
 *	API server ◄── api ◄── dra (claims), slices (what this node has)
 */
#ifndef ALLOT_KUBE_KUBE_H
#define ALLOT_KUBE_KUBE_H

#include "base/loop.h"
#include "kube/state/conf.h"
#include "node/devices.h"
#include "kube/state/node.h"
#include "node/faults.h"

struct kube;

/* `conf` and `runtime`, where the tenants are, stay where they are. -errno, after a line in the log. */
int kube_open(struct loop *loop, const struct kube_conf *conf, const char *runtime,
	      const struct devices *devices, struct kube **ret);
/* These are the devices now. Takes NULL. */
void kube_tell(struct kube *kube, const struct devices *devices);
/* What is said of them by now: which are faulty, or are used by Pods that have no part of them. Takes NULL. */
void kube_tell_words(struct kube *kube, enum node_words which, const struct faults *words);
/* When the loop is over. Takes NULL. What was granted stays. */
void kube_close(struct kube *kube);

#endif
