/* SPDX-License-Identifier: Apache-2.0 */
/* A Pod as the API server has it: what its scheduler decided, and waits to hear. Pure. */
#ifndef ALLOT_KUBE_SCHEDULERS_POD_DECISION_H
#define ALLOT_KUBE_SCHEDULERS_POD_DECISION_H

#include <stdbool.h>
#include <stddef.h>

#include "kube/state/conf.h"
#include "kube/schedulers/decision.h"

#define POD_DECISION_WHY 384
#define POD_DECISION_UID_BYTES 64

struct pod_decision {
	bool awaited; /* the scheduler waits to hear that the Pod has its devices */
	char uid[POD_DECISION_UID_BYTES]; /* of the Pod; "": it says none */
	struct decision_container container;
};

/*
 * Of the container that asks for slots under that name; of a Pod that was put on this node. -EINVAL
 * with words for all that is no such Pod; of any bytes.
 */
int pod_decision_read(const struct kube_conf *conf, const char *bytes, size_t len,
		      const char *container, struct pod_decision *ret,
		      char why[static POD_DECISION_WHY]);

/* The body of a PATCH of the Pod: all of it was taken. To be freed; NULL: no memory. */
char *pod_decision_taken(const struct kube_conf *conf);

#endif
