/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/claims/health.h"

#include <time.h>

#include "kube/wire/reply.h"
#include "kube/wire/health.pb-c.h"

/* A message of all devices, and what is in it. */
struct told {
	V1alpha1__NodeWatchResourcesResponse response;
	V1alpha1__DeviceHealth health[POLICY_DEVICES], *list[POLICY_DEVICES];
	V1alpha1__DeviceIdentifier device[POLICY_DEVICES];
	char name[POLICY_DEVICES][NODE_NAME_BYTES];
};

static void health_describe(const struct health *health, unsigned int i, struct told *ret)
{
	const struct node_device *device = &health->devices->list[i];

	node_device_name(device->device.uuid, ret->name[i]);
	ret->device[i] = (V1alpha1__DeviceIdentifier)V1ALPHA1__DEVICE_IDENTIFIER__INIT;
	ret->device[i].pool_name = (char *)health->conf->node;
	ret->device[i].device_name = ret->name[i];
	ret->health[i] = (V1alpha1__DeviceHealth)V1ALPHA1__DEVICE_HEALTH__INIT;
	ret->health[i].device = &ret->device[i];
	ret->health[i].health =
		device->sick ? V1ALPHA1__HEALTH_STATUS__UNHEALTHY : V1ALPHA1__HEALTH_STATUS__HEALTHY;
	ret->health[i].message = (char *)device->why;
	ret->health[i].last_updated_time = time(NULL);
	ret->health[i].health_check_timeout_seconds = 3L * HEALTH_PERIOD_S;
	ret->list[i] = &ret->health[i];
}

/* A caller that does not read misses a message: the next one has all devices, too. */
static void health_send(const struct health *health, struct grpc_call *const *stream, size_t n)
{
	static struct told told;

	told.response = (V1alpha1__NodeWatchResourcesResponse)V1ALPHA1__NODE_WATCH_RESOURCES_RESPONSE__INIT;
	for (unsigned int i = 0; i < health->devices->n; i++)
		health_describe(health, i, &told);
	told.response.devices = told.list;
	told.response.n_devices = health->devices->n;
	for (size_t i = 0; i < n; i++)
		(void)reply_send(stream[i], &told.response.base);
}

void health_watch(struct health *health, struct grpc_call *call)
{
	if (health->n == HEALTH_STREAMS) {
		grpc_finish(call, GRPC_RESOURCE_EXHAUSTED, "too many watch already");
		return;
	}
	health->stream[health->n++] = call;
	health_send(health, &call, 1);
}

void health_gone(struct health *health, const struct grpc_call *call)
{
	for (size_t i = 0; i < health->n; i++)
		if (health->stream[i] == call)
			health->stream[i--] = health->stream[--health->n];
}

void health_tell(struct health *health)
{
	health_send(health, health->stream, health->n);
}
