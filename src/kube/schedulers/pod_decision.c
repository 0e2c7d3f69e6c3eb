/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/schedulers/pod_decision.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "kube/schedulers/annotation.h"
#include "kube/schedulers/pod_limits.h"

#define pod_decision_refuse(why, ...) err_say(why, POD_DECISION_WHY, -EINVAL, __VA_ARGS__)

static const json_t *pod_decision_limits(const json_t *container)
{
	return json_object_get(json_object_get(container, "resources"), "limits");
}

static bool pod_decision_asks(const json_t *container, const char *slots)
{
	const json_t *n = json_object_get(pod_decision_limits(container), slots);

	return n && !(json_is_string(n) && !strcmp(json_string_value(n), "0"));
}

/*
 * Which one it is of those that ask for slots, and its limits; init containers come first. -1: none has the
 * name.
 */
static int pod_decision_nth(const json_t *spec, const char *slots, const char *name,
			    const json_t **ret_limits)
{
	static const char *const lists[] = {"initContainers", "containers"};
	const json_t *container;
	int nth = 0;
	size_t i;

	for (int k = 0; k < 2; k++)
		json_array_foreach(json_object_get(spec, lists[k]), i, container)
		{
			const char *own = json_string_value(json_object_get(container, "name"));

			if (!pod_decision_asks(container, slots))
				continue;
			if (own && !strcmp(own, name)) {
				*ret_limits = pod_decision_limits(container);
				return nth;
			}
			nth++;
		}
	return -1;
}

/* Those of its Pod, if it is the one that was put on this node by the scheduler. */
static int pod_decision_text(const struct kube_conf *conf, const json_t *pod, const char **ret,
			     char why[static POD_DECISION_WHY])
{
	const char *key = annotation_keys(conf->scheduler)->devices;
	const json_t *notes = json_object_get(json_object_get(pod, "metadata"), "annotations");
	const char *node =
		json_string_value(json_object_get(json_object_get(pod, "spec"), "nodeName"));

	*ret = json_string_value(json_object_get(notes, key));
	if (!node || strcmp(node, conf->node))
		return pod_decision_refuse(why,
					   "the Pod of that name is on node \"%.64s\", not %.64s",
					   node ? node : "", conf->node);
	if (!*ret)
		return pod_decision_refuse(
			why,
			"the Pod has no annotation %s: another scheduler placed it; "
			"say schedulerName in its spec",
			key);
	return 0;
}

static int pod_decision_entry(const struct kube_conf *conf, const char *text, unsigned int nth,
			      struct decision_container *ret, char why[static POD_DECISION_WHY])
{
	const char *key = annotation_keys(conf->scheduler)->devices;
	static struct decision all;
	char reason[DECISION_WHY];
	int entry;

	if (decision_read(conf, text, &all, reason) < 0)
		return pod_decision_refuse(why, "annotation %s: %.200s", key, reason);
	entry = decision_find(&all, nth);
	if (entry < 0)
		return pod_decision_refuse(why, "annotation %s has nothing for it", key);
	*ret = all.container[entry];
	return 0;
}

static bool pod_decision_is_awaited(const struct kube_conf *conf, const json_t *pod)
{
	const json_t *notes = json_object_get(json_object_get(pod, "metadata"), "annotations");
	const char *phase = json_string_value(
		json_object_get(notes, annotation_keys(conf->scheduler)->phase));

	return phase && !strcmp(phase, ANNOTATION_ALLOCATING);
}

static void pod_decision_read_uid(const json_t *pod, char ret[static POD_DECISION_UID_BYTES])
{
	const char *uid = json_string_value(json_object_get(json_object_get(pod, "metadata"), "uid"));

	snprintf(ret, POD_DECISION_UID_BYTES, "%s", uid && strlen(uid) < POD_DECISION_UID_BYTES ? uid : "");
}

static int pod_decision_find(const struct kube_conf *conf, const json_t *pod, const char *name,
			     struct pod_decision *ret, char why[static POD_DECISION_WHY])
{
	const char *slots = pod_limits_name(conf, KUBE_SLOTS), *text;
	const json_t *limits = NULL;
	int nth = pod_decision_nth(json_object_get(pod, "spec"), slots, name, &limits);
	int r = pod_decision_text(conf, pod, &text, why);

	if (r == 0 && nth < 0)
		return pod_decision_refuse(why, "the Pod has no container of that name with %.128s",
					   slots);
	if (r == 0)
		r = pod_decision_entry(conf, text, (unsigned int)nth, &ret->container, why);
	if (r == 0)
		r = pod_limits_check(conf, limits, &ret->container, why);
	ret->awaited = pod_decision_is_awaited(conf, pod);
	pod_decision_read_uid(pod, ret->uid);
	return r;
}

int pod_decision_read(const struct kube_conf *conf, const char *bytes, size_t len,
		      const char *container, struct pod_decision *ret,
		      char why[static POD_DECISION_WHY])
{
	json_error_t error;
	json_t *pod = json_loadb(bytes, len, 0, &error);
	int r = pod ? pod_decision_find(conf, pod, container, ret, why)
		    : pod_decision_refuse(why, "the API server's Pod is no JSON: %.160s",
					  error.text);

	json_decref(pod);
	return r;
}

char *pod_decision_taken(const struct kube_conf *conf)
{
	const struct annotation_keys *keys = annotation_keys(conf->scheduler);
	const struct annotation list[] = {{keys->left, ""}, {keys->phase, ANNOTATION_SUCCESS}};

	return annotation_patch(list, 2);
}
