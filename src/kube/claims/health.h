/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The stream by which the kubelet learns which devices are sick, so that the status of a Pod names them
 * (DRAResourceHealth). Each message has all devices.
 */
#ifndef ALLOT_KUBE_CLAIMS_HEALTH_H
#define ALLOT_KUBE_CLAIMS_HEALTH_H

#include "kube/state/conf.h"
#include "kube/wire/grpc.h"
#include "kube/state/node.h"

/* health_tell is called at least that often: after three times as long the kubelet knows nothing of devices. */
#define HEALTH_PERIOD_S 10
#define HEALTH_STREAMS	8

struct health {
	const struct kube_conf *conf;
	const struct node_devices *devices;
	size_t n;
	struct grpc_call *stream[HEALTH_STREAMS];
};

/* NodeWatchResources, see struct grpc_method. */
void health_watch(struct health *health, struct grpc_call *call);
void health_gone(struct health *health, const struct grpc_call *call);

/* Says to all streams how devices are. */
void health_tell(struct health *health);

#endif
