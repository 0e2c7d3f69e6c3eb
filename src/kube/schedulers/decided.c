/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/schedulers/decided.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kube/schedulers/annotation.h"
#include "kube/schedulers/patch.h"
#include "kube/schedulers/pod_decision.h"
#include "text/log.h"

#define TIMEOUT_MS 10000 /* the kubelet gives up after 30 s */
#define PATH_BYTES 640

struct decided_call {
	struct decided_call *next;
	struct decided *decided;
	struct api_call *asked; /* NULL: none is under way */
	decided_heard *heard;	/* NULL: nobody hears */
	void *arg;
	char pod[PATH_BYTES]; /* its path */
	char container[KUBE_NAME_BYTES];
};

struct decided {
	struct api *api;
	const struct kube_conf *conf;
	struct decided_call *call; /* those under way */
};

int decided_open(struct api *api, const struct kube_conf *conf, struct decided **ret)
{
	struct decided *decided = calloc(1, sizeof(*decided));

	if (!decided)
		return -ENOMEM;
	*decided = (struct decided){.api = api, .conf = conf};
	*ret = decided;
	return 0;
}

static void decided_free_call(struct decided_call *call)
{
	struct decided_call **at = &call->decided->call;

	while (*at != call)
		at = &(*at)->next;
	*at = call->next;
	free(call);
}

void decided_close(struct decided *decided)
{
	while (decided && decided->call) {
		if (decided->call->asked)
			api_forget(decided->call->asked);
		decided_free_call(decided->call);
	}
	free(decided);
}

void decided_forget(struct decided_call *call)
{
	if (call)
		call->heard = NULL;
}

static void decided_answer(struct decided_call *call, const struct decision_container *container,
			   const char *why)
{
	decided_heard *heard = call->heard;

	call->heard = NULL;
	if (heard)
		heard(call->arg, container, why);
}

/* --- What the scheduler is told --------------------------------------------------------------- */

/* 0: `ended` will be heard. */
static int decided_patch(struct decided_call *call, const char *path, char *body,
			 void (*ended)(void *arg, int status, const char *bytes, size_t len))
{
	int r = patch_send(call->decided->api, path, body, ended, call, &call->asked);

	if (r < 0)
		log_line(LOG_WARN, "%s: no annotation can be written: %s", path, strerror(-r));
	return r;
}

static void decided_log_patch(const char *path, int status, const char *bytes)
{
	if (status < 0)
		log_line(LOG_WARN, "%s: no annotation was written: %.200s", path, bytes);
	else if (status != 200)
		log_line(LOG_WARN, "%s: no annotation was written: status %d %.200s", path, status,
			 bytes);
}

static void decided_unlocked(void *arg, int status, const char *bytes, size_t len)
{
	struct decided_call *call = arg;

	decided_log_patch(call->decided->conf->node, status, bytes);
	decided_free_call(call);
}

static void decided_taken(void *arg, int status, const char *bytes, size_t len)
{
	struct decided_call *call = arg;
	const struct kube_conf *conf = call->decided->conf;
	char path[PATH_BYTES];

	decided_log_patch(call->pod, status, bytes);
	snprintf(path, sizeof(path), "/api/v1/nodes/%s", conf->node);
	call->asked = NULL;
	if (decided_patch(call, path, pod_decision_unlock(conf), decided_unlocked) < 0)
		decided_free_call(call);
}

/* --- What it decided -------------------------------------------------------------------------- */

static void decided_read(struct decided_call *call, const char *bytes, size_t len)
{
	const struct kube_conf *conf = call->decided->conf;
	static struct pod_decision decision;
	char why[POD_DECISION_WHY];

	if (pod_decision_read(conf, bytes, len, call->container, &decision, why) < 0) {
		decided_answer(call, NULL, why);
		decided_free_call(call);
		return;
	}
	decided_answer(call, &decision.container, "");
	if (!decision.awaited ||
	    decided_patch(call, call->pod, pod_decision_taken(conf), decided_taken) < 0)
		decided_free_call(call);
}

static void decided_ended(void *arg, int status, const char *bytes, size_t len)
{
	struct decided_call *call = arg;
	char why[POD_DECISION_WHY];

	call->asked = NULL;
	if (status == 200) {
		decided_read(call, bytes, len);
		return;
	}
	if (status < 0)
		snprintf(why, sizeof(why), "the API server does not answer: %.200s", bytes);
	else
		snprintf(why, sizeof(why), "the API server's answer to GET %.160s is %d %.120s",
			 call->pod, status, bytes);
	decided_answer(call, NULL, why);
	decided_free_call(call);
}

/* Names are of Kubernetes': none of them has what a URL must escape. */
static bool decided_is_name(const char *name)
{
	return *name && strlen(name) < KUBE_NAME_BYTES &&
	       strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789.-") == strlen(name);
}

int decided_ask(struct decided *decided, const char *space, const char *pod, const char *container,
		decided_heard *heard, void *arg, struct decided_call **ret)
{
	struct decided_call *call;
	int r;

	if (!decided_is_name(space) || !decided_is_name(pod) || !decided_is_name(container))
		return -EINVAL;
	call = calloc(1, sizeof(*call));
	if (!call)
		return -ENOMEM;
	*call = (struct decided_call){
		.next = decided->call, .decided = decided, .heard = heard, .arg = arg};
	decided->call = call;
	snprintf(call->container, sizeof(call->container), "%s", container);
	snprintf(call->pod, sizeof(call->pod), "/api/v1/namespaces/%s/pods/%s", space, pod);
	r = api_ask(decided->api,
		    &(struct api_request){.method = "GET",
					  .path = call->pod,
					  .timeout_ms = TIMEOUT_MS,
					  .ended = decided_ended,
					  .arg = call},
		    &call->asked);
	if (r < 0)
		decided_free_call(call);
	else
		*ret = call;
	return r;
}
