/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Annotations of the node's object for a scheduler: the devices there, and a sign of life when it
 * asks for one. The object is looked at every few seconds, and written where it
 * differs.
 */
#ifndef ALLOT_KUBE_SCHEDULERS_ANNOUNCE_H
#define ALLOT_KUBE_SCHEDULERS_ANNOUNCE_H

#include "kube/wire/api.h"
#include "kube/state/conf.h"
#include "kube/state/node.h"

struct announce;

int announce_open(struct api *api, const struct kube_conf *conf, const struct node_devices *devices,
		  struct announce **ret);
/* Annotations that are written stay. Takes NULL. */
void announce_close(struct announce *announce);

/* The devices are others, or are sick or well. */
void announce_tell(struct announce *announce);

int announce_timeout_ms(const struct announce *announce);
void announce_run(struct announce *announce);

#endif
