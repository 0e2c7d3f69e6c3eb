/* SPDX-License-Identifier: Apache-2.0 */
/* Annotations written to the API server, as a merge patch of the object. */
#ifndef ALLOT_KUBE_SCHEDULERS_PATCH_H
#define ALLOT_KUBE_SCHEDULERS_PATCH_H

#include "kube/wire/api.h"

#define PATCH_MS 10000 /* the kubelet gives up after 30 s */

/*
 * `body` is a patch by annotation.h or pod_decision.h and freed here; NULL: no memory. As api_ask: -errno
 * where `ended` will not be heard.
 */
int patch_send(struct api *api, const char *path, char *body,
	       void (*ended)(void *arg, int status, const char *bytes, size_t len), void *arg,
	       struct api_call **ret);

#endif
