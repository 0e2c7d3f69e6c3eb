/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where a scheduler with annotations decides, the slots that a kubelet picks say nothing of GPUs:
 * the API server is asked for the Pod. A kubelet has allocated all of a Pod before it starts a
 * container of it, so the Pod counts as taken and the node's lock is removed as soon as one of it
 * is asked about.
 */
#ifndef ALLOT_KUBE_SCHEDULERS_DECIDED_H
#define ALLOT_KUBE_SCHEDULERS_DECIDED_H

#include <stdbool.h>
#include <stdint.h>

#include "kube/wire/api.h"
#include "kube/state/conf.h"
#include "kube/schedulers/pod_decision.h"

struct decided;
struct decided_call;

/* Once; NULL with words where there is no decision. */
typedef void decided_heard(void *arg, const struct pod_decision *decision, const char *why);

enum decided_end {
	DECIDED_TOLD,	/* the scheduler knows, or has nothing to hear of this Pod */
	DECIDED_LOCKED, /* it knows; the node's lock could not be removed */
	DECIDED_UNTOLD,
};

/* Once, when the call is over: what became of the scheduler. `id` is the caller's own. */
typedef void decided_told(void *arg, uint64_t id, enum decided_end end);

int decided_open(struct api *api, const struct kube_conf *conf, struct decided **ret);
/* Nobody is heard any more. Takes NULL. */
void decided_close(struct decided *decided);

/* -errno where `heard` will not be called. `ret` is good until it is. */
int decided_ask(struct decided *decided, const char *space, const char *pod, const char *container,
		decided_heard *heard, void *arg, struct decided_call **ret);
/*
 * The same for a Pod of which nothing but the scheduler's part is wanted. `locked`: it knows, only the lock is
 * left. -errno where `told` will not be called.
 */
int decided_tell(struct decided *decided, const char *space, const char *pod, const char *container,
		 bool locked, decided_told *told, void *arg, uint64_t id);
/* It will not be called any more; the Pod's scheduler is told all the same. Takes NULL. */
void decided_forget(struct decided_call *call);

#endif
