/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/pods/pod_resources.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#define LIST	   "/v1.PodResourcesLister/List"
#define TIMEOUT_MS 5000
/* A kubelet that has just started lists no Pod before it has heard of them from the API server. */
#define SETTLED_S  20
/* So much later a list without a Pod of the API server's may be all that there is. */
#define NO_API_S   600

struct pod_resources_call {
	pod_resources_heard *heard; /* NULL: forgotten */
	void *arg;
	V1__ListPodResourcesResponse *list;
};

static void pod_resources_message(void *arg, const uint8_t *message, size_t len)
{
	struct pod_resources_call *call = arg;

	if (!call->list)
		call->list = v1__list_pod_resources_response__unpack(NULL, len, message);
}

static void pod_resources_ended(void *arg, enum grpc_status status, const char *text)
{
	struct pod_resources_call *call = arg;
	V1__ListPodResourcesResponse *list = status == GRPC_OK ? call->list : NULL;
	char why[320] = "its answer is no list";

	if (status != GRPC_OK)
		snprintf(why, sizeof(why), "gRPC status %d %s", (int)status, text);
	if (call->heard)
		call->heard(call->arg, list, why);
	if (call->list)
		v1__list_pod_resources_response__free_unpacked(call->list, NULL);
	free(call);
}

int pod_resources_list(struct grpc *grpc, const struct kube_conf *conf, pod_resources_heard *heard,
		       void *arg, struct pod_resources_call **ret)
{
	struct pod_resources_call *call = calloc(1, sizeof(*call));
	char path[PATH_MAX + 32];
	int r;

	if (!call)
		return -ENOMEM;
	*call = (struct pod_resources_call){.heard = heard, .arg = arg};
	snprintf(path, sizeof(path), "%s/pod-resources/kubelet.sock", conf->kubelet);
	/* The request is an empty message. */
	r = grpc_call_out(grpc, path,
			  &(struct grpc_request){.path = LIST,
						 .timeout_ms = TIMEOUT_MS,
						 .heard = pod_resources_message,
						 .ended = pod_resources_ended,
						 .arg = call});
	if (r < 0)
		free(call);
	else
		*ret = call;
	return r;
}

void pod_resources_forget(struct pod_resources_call *call)
{
	if (call)
		call->heard = NULL;
}

/* A Pod of a file on the node is called as that file says, and by the node's name behind it. */
static bool pod_is_static(const struct kube_conf *conf, const char *name)
{
	size_t len = strlen(name), end = strlen(conf->node);

	return end && len > end && name[len - end - 1] == '-' && !strcmp(name + len - end, conf->node);
}

bool pod_resources_has_api_pods(const struct kube_conf *conf, const V1__ListPodResourcesResponse *list)
{
	for (size_t i = 0; i < list->n_pod_resources; i++)
		if (!pod_is_static(conf, list->pod_resources[i]->name))
			return true;
	return false;
}

bool pod_resources_is_whole(const struct kube_conf *conf, const V1__ListPodResourcesResponse *list)
{
	time_t enough = pod_resources_has_api_pods(conf, list) ? SETTLED_S : NO_API_S;
	char path[PATH_MAX + 32];
	struct stat st;

	snprintf(path, sizeof(path), "%s/device-plugins/kubelet.sock", conf->kubelet);
	return stat(path, &st) == 0 && time(NULL) - st.st_mtime >= enough;
}
