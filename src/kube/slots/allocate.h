/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The answer to Allocate, at once: slots have a CDI name each, whose file
 * is written when the container is about to start, and the name by which NVIDIA's driver comes in.
 */
#ifndef ALLOT_KUBE_SLOTS_ALLOCATE_H
#define ALLOT_KUBE_SLOTS_ALLOCATE_H

#include "kube/state/conf.h"
#include "kube/wire/deviceplugin.pb-c.h"
#include "kube/state/node.h"

#define ALLOCATE_WHY 512

/*
 * -EINVAL, -ENODEV, -ENOMEM with words. The answer has CDI's names twice: for kubelets from 1.28
 * on, and as the annotation that runtimes read, which kubelets from before pass on. To be freed as
 * unpacked.
 */
int allocate_answer(const struct kube_conf *conf, const struct node_devices *devices,
		    const struct kube_resource *resource, const V1beta1__AllocateRequest *request,
		    V1beta1__AllocateResponse **ret, char why[static ALLOCATE_WHY]);

/* Pure. The answer points into the request. */
int allocate_prefer(const struct kube_conf *conf, const struct node_devices *devices,
		    const struct kube_resource *resource,
		    const V1beta1__PreferredAllocationRequest *request,
		    V1beta1__PreferredAllocationResponse **ret, char why[static ALLOCATE_WHY]);
void allocate_free_preferred(V1beta1__PreferredAllocationResponse *response); /* takes NULL */

#endif
