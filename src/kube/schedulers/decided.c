/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/schedulers/decided.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kube/schedulers/node_lock.h"
#include "kube/schedulers/patch.h"
#include "kube/schedulers/pod_decision.h"
#include "kube/wire/name.h"
#include "text/log.h"

#define TIMEOUT_MS 10000 /* the kubelet gives up after 30 s */
#define PATH_BYTES 640
#define TRIES	   5 /* to remove a lock of a node that others write, too */

struct decided_call {
	struct decided_call *next;
	struct decided *decided;
	struct api_call *asked; /* NULL: none is under way */
	decided_heard *heard;	/* NULL: nobody hears */
	decided_told *told; /* NULL: nobody hears */
	void *arg;
	uint64_t id;
	bool locked; /* the Pod counts as taken already */
	unsigned int tries;
	char pod[PATH_BYTES]; /* its path */
	char space[KUBE_NAME_BYTES], name[KUBE_NAME_BYTES], container[KUBE_NAME_BYTES];
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

static void decided_end(struct decided_call *call, enum decided_end end)
{
	if (call->told)
		call->told(call->arg, call->id, end);
	decided_free_call(call);
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

static void decided_answer(struct decided_call *call, const struct pod_decision *decision, const char *why)
{
	decided_heard *heard = call->heard;

	call->heard = NULL;
	if (heard)
		heard(call->arg, decision, why);
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

static void decided_unlock(struct decided_call *call);

static void decided_unlocked(void *arg, int status, const char *bytes, size_t len)
{
	struct decided_call *call = arg;

	call->asked = NULL;
	if (status == 409 && ++call->tries < TRIES) {
		decided_unlock(call);
		return;
	}
	decided_log_patch(call->decided->conf->node, status, bytes);
	decided_end(call, status == 200 ? DECIDED_TOLD : DECIDED_LOCKED);
}

static void decided_node_path(const struct decided_call *call, char ret[static PATH_BYTES])
{
	snprintf(ret, PATH_BYTES, "/api/v1/nodes/%s", call->decided->conf->node);
}

static void decided_node_read(void *arg, int status, const char *bytes, size_t len)
{
	struct decided_call *call = arg;
	const struct kube_conf *conf = call->decided->conf;
	char path[PATH_BYTES], *body = NULL;
	int r = -EIO;

	call->asked = NULL;
	if (status == 200)
		r = node_lock_release(conf->scheduler, bytes, len, call->space, call->name, &body);
	decided_node_path(call, path);
	if (r < 0)
		log_line(LOG_WARN, "%s: its scheduler's lock cannot be read: status %d %.200s", path, status,
			 status == 200 ? strerror(-r) : bytes);
	if (r < 0 || !body)
		decided_end(call, r < 0 ? DECIDED_LOCKED : DECIDED_TOLD);
	else if (decided_patch(call, path, body, decided_unlocked) < 0)
		decided_end(call, DECIDED_LOCKED);
}

static int decided_get(struct decided_call *call, const char *path,
		       void (*ended)(void *arg, int status, const char *bytes, size_t len))
{
	return api_get(call->decided->api, path, TIMEOUT_MS, ended, call, &call->asked);
}

static void decided_unlock(struct decided_call *call)
{
	char path[PATH_BYTES];

	decided_node_path(call, path);
	if (decided_get(call, path, decided_node_read) < 0)
		decided_end(call, DECIDED_LOCKED);
}

/* The node stays locked until the Pod counts as taken, or is gone: its scheduler reads both together. */
static void decided_taken(void *arg, int status, const char *bytes, size_t len)
{
	struct decided_call *call = arg;

	decided_log_patch(call->pod, status, bytes);
	call->asked = NULL;
	if (status == 200)
		decided_unlock(call);
	else
		decided_end(call, status == 404 ? DECIDED_TOLD : DECIDED_UNTOLD);
}

/* --- What it decided -------------------------------------------------------------------------- */

static void decided_read(struct decided_call *call, const char *bytes, size_t len)
{
	const struct kube_conf *conf = call->decided->conf;
	static struct pod_decision decision;
	char why[POD_DECISION_WHY];

	if (pod_decision_read(conf, bytes, len, call->container, &decision, why) < 0) {
		decided_answer(call, NULL, why);
		decided_end(call, DECIDED_TOLD);
		return;
	}
	decided_answer(call, &decision, "");
	if (call->locked)
		decided_unlock(call);
	else if (!decision.awaited)
		decided_end(call, DECIDED_TOLD);
	else if (decided_patch(call, call->pod, pod_decision_taken(conf), decided_taken) < 0)
		decided_end(call, DECIDED_UNTOLD);
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
	decided_end(call, status == 404 ? DECIDED_TOLD : DECIDED_UNTOLD);
}

static struct decided_call *decided_new(struct decided *decided, const char *space, const char *pod,
					const char *container)
{
	struct decided_call *call = calloc(1, sizeof(*call));

	if (!call)
		return NULL;
	*call = (struct decided_call){.next = decided->call, .decided = decided};
	decided->call = call;
	snprintf(call->space, sizeof(call->space), "%s", space);
	snprintf(call->name, sizeof(call->name), "%s", pod);
	snprintf(call->container, sizeof(call->container), "%s", container);
	snprintf(call->pod, sizeof(call->pod), "/api/v1/namespaces/%s/pods/%s", space, pod);
	return call;
}

static int decided_begin(struct decided *decided, const char *space, const char *pod, const char *container,
			 const struct decided_call *of, struct decided_call **ret)
{
	struct decided_call *call;
	int r;

	if (!name_is_valid(space) || !name_is_valid(pod) || !name_is_valid(container))
		return -EINVAL;
	call = decided_new(decided, space, pod, container);
	if (!call)
		return -ENOMEM;
	call->heard = of->heard;
	call->told = of->told;
	call->arg = of->arg;
	call->id = of->id;
	call->locked = of->locked;
	r = decided_get(call, call->pod, decided_ended);
	if (r < 0)
		decided_free_call(call);
	else
		*ret = call;
	return r;
}

int decided_ask(struct decided *decided, const char *space, const char *pod, const char *container,
		decided_heard *heard, void *arg, struct decided_call **ret)
{
	const struct decided_call of = {.heard = heard, .arg = arg};

	return decided_begin(decided, space, pod, container, &of, ret);
}

int decided_tell(struct decided *decided, const char *space, const char *pod, const char *container,
		 bool locked, decided_told *told, void *arg, uint64_t id)
{
	const struct decided_call of = {.told = told, .arg = arg, .id = id, .locked = locked};
	struct decided_call *call;

	return decided_begin(decided, space, pod, container, &of, &call);
}
