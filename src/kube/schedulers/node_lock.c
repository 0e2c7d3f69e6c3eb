/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/schedulers/node_lock.h"

#include <errno.h>
#include <jansson.h>
#include <stdbool.h>
#include <string.h>

#include "kube/schedulers/annotation.h"

/* Returns true if the lock is for that Pod, or does not say for which. */
static bool node_lock_is_for(const char *lock, const char *space, const char *pod)
{
	const char *owner = strchr(lock, ',');
	size_t len = strlen(space);

	return !owner || (!strncmp(owner + 1, space, len) && owner[1 + len] == ',' &&
			  !strcmp(owner + 2 + len, pod));
}

static int node_lock_patch(const char *key, const char *version, char **ret)
{
	json_t *body = json_pack("{s:{s:s,s:{s:n}}}", "metadata", "resourceVersion", version, "annotations", key);

	if (body)
		*ret = json_dumps(body, JSON_COMPACT);
	json_decref(body);
	return *ret ? 0 : -ENOMEM;
}

int node_lock_release(enum kube_scheduler scheduler, const char *bytes, size_t len, const char *space,
		      const char *pod, char **ret)
{
	const char *key = annotation_keys(scheduler)->lock, *version = NULL, *lock = NULL;
	json_error_t error;
	json_t *node = json_loadb(bytes, len, 0, &error);
	int r = 0;

	*ret = NULL;
	json_unpack(node, "{s:{s:s}}", "metadata", "resourceVersion", &version);
	json_unpack(node, "{s:{s:{s:s}}}", "metadata", "annotations", key, &lock);
	if (!json_is_object(node) || (lock && !version))
		r = -EINVAL;
	else if (lock && node_lock_is_for(lock, space, pod))
		r = node_lock_patch(key, version, ret);
	json_decref(node);
	return r;
}
