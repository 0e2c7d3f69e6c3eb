/* SPDX-License-Identifier: Apache-2.0 */
/* The answer to the kubelet about a claim, as messages that protobuf-c frees. */
#ifndef ALLOT_KUBE_CLAIMS_PREPARE_ANSWER_H
#define ALLOT_KUBE_CLAIMS_PREPARE_ANSWER_H

#include "kube/claims/claim.h"
#include "kube/wire/dra.pb-c.h"

/* To be freed by dra__node_prepare_resources_response__free_unpacked: an entry for each claim. NULL: no memory. */
Dra__NodePrepareResourcesResponse *prepare_answer_new(const Dra__NodePrepareResourcesRequest *request);

/* `error` is made fit for protobuf. False: no memory. */
bool prepare_answer_fail(Dra__NodePrepareResourceResponse *answer, const char *error);

/*
 * Its devices with their CDI names. The first device of a request has the names for all of them: a
 * container has them all, and a runtime would do twice what it is told twice. -ENOMEM, or as grant_names.
 */
int prepare_answer_devices(Dra__NodePrepareResourceResponse *answer, const struct claim *claim,
			   const struct kube_conf *conf, char why[static GRANT_WHY]);

#endif
