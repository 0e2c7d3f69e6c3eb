/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Grants of claims that nobody unprepares: the kubelet forgot them with its own state. A grant that the
 * kubelet's list does not name is suspect; the API server says whether its claim is still this node's.
 *
 *	in the kubelet's list			stays, nobody is asked
 *	not there, claim allocated here		stays
 *	not there, claim gone or not here	is removed
 *
 * Every 10 minutes there is a round, in which one claim is asked for at a time.
 */
#ifndef ALLOT_KUBE_CLAIMS_CLAIM_SWEEP_H
#define ALLOT_KUBE_CLAIMS_CLAIM_SWEEP_H

#include "kube/claims/prepare.h"
#include "kube/pods/lister.h"
#include "kube/state/conf.h"
#include "kube/wire/api.h"

struct claim_sweep;

/* All stays where it is. -ENOMEM. */
int claim_sweep_open(struct lister *lister, struct api *api, const struct kube_conf *conf,
		     struct prepare *prepare, struct claim_sweep **ret);
/* Takes NULL. */
void claim_sweep_close(struct claim_sweep *sweep);

#endif
