/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A container's limits, against what an annotation of its Pod gives it. Annotations are the user's to write
 * where another scheduler placed the Pod, or none did; limits are counted in any case. Pure.
 */
#ifndef ALLOT_KUBE_SCHEDULERS_POD_LIMITS_H
#define ALLOT_KUBE_SCHEDULERS_POD_LIMITS_H

#include <jansson.h>

#include "kube/state/conf.h"
#include "kube/schedulers/decision.h"

#define POD_LIMITS_WHY 384

/* The resource of that unit, as people have it in their limits; "": there is none. */
const char *pod_limits_name(const struct kube_conf *conf, enum kube_unit unit);

/* 0, or -EINVAL with words: the decision gives more of all devices together than the limits allow. */
int pod_limits_check(const struct kube_conf *conf, const json_t *limits,
		     const struct decision_container *decision, char why[static POD_LIMITS_WHY]);

#endif
