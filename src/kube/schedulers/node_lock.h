/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The lock of a node, an annotation by which a scheduler places one Pod at a time there. Pure.
 *
 *	HAMi	2026-11-20T10:08:04Z,default,hami-1	time, and the namespace and name of the Pod that it is for
 *	older	2026-11-20T10:08:04Z			time
 */
#ifndef ALLOT_KUBE_SCHEDULERS_NODE_LOCK_H
#define ALLOT_KUBE_SCHEDULERS_NODE_LOCK_H

#include <stddef.h>

#include "kube/state/conf.h"

/*
 * Of a Node as the API server has it: the body of the PATCH that removes the lock, to be freed; NULL: there
 * is none, or it is for another Pod. The patch is refused (409) if the Node has changed meanwhile.
 * -EINVAL: that is no Node; -ENOMEM.
 */
int node_lock_release(enum kube_scheduler scheduler, const char *bytes, size_t len, const char *space,
		      const char *pod, char **ret);

#endif
