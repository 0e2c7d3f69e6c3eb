/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/pod_decision.h"

#include <errno.h>
#include <jansson.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "kube/annotation.h"

__attribute__((format(printf, 2, 3))) static int
pod_decision_refuse(char why[static POD_DECISION_WHY], const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(why, POD_DECISION_WHY, fmt, ap);
	va_end(ap);
	return -EINVAL;
}

static const char *pod_decision_slots(const struct kube_conf *conf)
{
	for (size_t i = 0; i < conf->nresources; i++)
		if (conf->resource[i].unit == KUBE_SLOTS)
			return conf->resource[i].name;
	return "";
}

static bool pod_decision_asks(const json_t *container, const char *slots)
{
	const json_t *limits = json_object_get(json_object_get(container, "resources"), "limits");
	const json_t *n = json_object_get(limits, slots);

	return n && !(json_is_string(n) && !strcmp(json_string_value(n), "0"));
}

/* Which one it is of those that ask for slots; init containers come first. -1: none has the name.
 */
static int pod_decision_nth(const json_t *spec, const char *slots, const char *name)
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
			if (own && !strcmp(own, name))
				return nth;
			nth++;
		}
	return -1;
}

static int pod_decision_find(const struct kube_conf *conf, const json_t *pod, const char *name,
			     struct pod_decision *ret, char why[static POD_DECISION_WHY])
{
	const struct annotation_keys *keys = annotation_keys(conf->scheduler);
	const json_t *spec = json_object_get(pod, "spec");
	const json_t *notes = json_object_get(json_object_get(pod, "metadata"), "annotations");
	const char *node = json_string_value(json_object_get(spec, "nodeName"));
	const char *text = json_string_value(json_object_get(notes, keys->devices));
	const char *phase = json_string_value(json_object_get(notes, keys->phase));
	int nth = pod_decision_nth(spec, pod_decision_slots(conf), name), entry;
	char reason[DECISION_WHY];
	static struct decision all;

	if (!node || strcmp(node, conf->node))
		return pod_decision_refuse(why,
					   "the Pod of that name is on node \"%.64s\", not %.64s",
					   node ? node : "", conf->node);
	if (!text)
		return pod_decision_refuse(
			why,
			"the Pod has no annotation %s: another scheduler placed it; "
			"say schedulerName in its spec",
			keys->devices);
	if (nth < 0)
		return pod_decision_refuse(why, "the Pod has no container of that name with %.128s",
					   pod_decision_slots(conf));
	if (decision_read(conf, text, &all, reason) < 0)
		return pod_decision_refuse(why, "annotation %s: %.200s", keys->devices, reason);
	entry = decision_find(&all, (unsigned int)nth);
	if (entry < 0)
		return pod_decision_refuse(why, "annotation %s has nothing for it", keys->devices);
	ret->container = all.container[entry];
	ret->awaited = phase && !strcmp(phase, ANNOTATION_ALLOCATING);
	return 0;
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

char *pod_decision_unlock(const struct kube_conf *conf)
{
	const struct annotation_keys *keys = annotation_keys(conf->scheduler);
	const struct annotation list[] = {{keys->lock, NULL}};

	return annotation_patch(list, 1);
}
