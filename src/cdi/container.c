/* SPDX-License-Identifier: Apache-2.0 */
#include "cdi/container.h"

#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static json_t *container_load(FILE *file, const char *what, char why[static CONTAINER_WHY])
{
	json_error_t error;
	json_t *root = json_loadf(file, 0, &error);

	if (!root)
		snprintf(why, CONTAINER_WHY, "%s is no JSON: line %d: %s", what, error.line,
			 error.text);
	return root;
}

/* A text that fits: 0. A text is not NULL and not empty. */
static int container_text(const json_t *in, const char *key, char *ret, size_t size)
{
	const char *text = json_string_value(json_object_get(in, key));

	if (!text || !*text || strlen(text) >= size)
		return -EINVAL;
	strcpy(ret, text);
	return 0;
}

static int container_take_state(const json_t *state, struct container *c,
				char bundle[static PATH_MAX])
{
	json_int_t pid = json_integer_value(json_object_get(state, "pid"));

	if (pid <= 0 || pid > INT_MAX)
		return -EINVAL;
	c->pid = (pid_t)pid;
	if (container_text(state, "id", c->id, sizeof(c->id)) < 0)
		return -EINVAL;
	return container_text(state, "bundle", bundle, PATH_MAX);
}

static int container_take_root(const json_t *config, const char *bundle, struct container *c)
{
	char path[PATH_MAX];
	int r = container_text(json_object_get(config, "root"), "path", path, sizeof(path));

	if (r < 0)
		return r;
	if (path[0] == '/')
		strcpy(c->root, path);
	else if (snprintf(c->root, sizeof(c->root), "%s/%s", bundle, path) >= (int)sizeof(c->root))
		return -ENAMETOOLONG;
	return 0;
}

static int container_take_process(const json_t *process, struct container *c)
{
	const json_t *env = json_object_get(process, "env"), *variable;
	const json_t *args = json_object_get(process, "args");
	const char *path = "", *program = json_string_value(json_array_get(args, 0));
	size_t i;

	json_array_foreach (env, i, variable) {
		const char *text = json_string_value(variable);

		if (text && !strncmp(text, "PATH=", 5))
			path = text + 5;
	}
	c->program = strdup(program ? program : "");
	c->path = strdup(path);
	if (!c->program || !c->path)
		return -ENOMEM;
	return container_text(process, "cwd", c->cwd, sizeof(c->cwd));
}

/* A line of a user namespace's map: the first id inside, the first id outside, their number. */
static int container_find_uid(const char *map, bool from_outside, uid_t uid, uid_t *ret)
{
	unsigned int inside, outside, size;
	FILE *file = fopen(map, "re");
	int r = -ENOENT;

	if (!file)
		return -errno;
	while (r < 0 && fscanf(file, "%u %u %u", &inside, &outside, &size) == 3) {
		unsigned int from = from_outside ? outside : inside;

		if (uid < from || uid - from >= size)
			continue;
		*ret = (from_outside ? inside : outside) + (uid - from);
		r = 0;
	}
	fclose(file);
	return r;
}

int container_outer_uid(uid_t *ret)
{
	return container_find_uid("/proc/self/uid_map", false, geteuid(), ret);
}

/* Numbers that our user namespace does not know. */
#define UNKNOWN_UID ((uid_t)-1)

static bool container_find_owner(const struct container *c, const json_t *process, uid_t *ret)
{
	const json_t *user = json_object_get(process, "user");
	uid_t us = geteuid(), inside;
	struct stat own, other;
	char path[64];

	snprintf(path, sizeof(path), "/proc/%ld/ns/user", (long)c->pid);
	if (stat("/proc/self/ns/user", &own) < 0 || stat(path, &other) < 0)
		return false;
	*ret = 0;
	if (own.st_ino == other.st_ino)
		return true;
	/* Of another namespace the kernel tells the numbers as they are in ours. */
	snprintf(path, sizeof(path), "/proc/%ld/uid_map", (long)c->pid);
	if (container_find_uid(path, false, 0, ret) == 0 && *ret != UNKNOWN_UID)
		return true;
	*ret = us;
	return container_find_uid(path, true, us, &inside) == 0 &&
	       inside == json_integer_value(json_object_get(user, "uid"));
}

/* containerd and CRI-O have different names for the same. A text that does not fit counts as missing. */
static void container_take_pod(const json_t *annotations, struct pod *ret)
{
	static const struct {
		const char *space, *name, *container, *uid;
	} of[] = {{"io.kubernetes.cri.sandbox-namespace", "io.kubernetes.cri.sandbox-name",
		   "io.kubernetes.cri.container-name", "io.kubernetes.cri.sandbox-uid"},
		  {"io.kubernetes.pod.namespace", "io.kubernetes.pod.name",
		   "io.kubernetes.container.name", "io.kubernetes.pod.uid"}};

	for (size_t i = 0; i < sizeof(of) / sizeof(of[0]) && !*ret->name; i++) {
		if (container_text(annotations, of[i].space, ret->space, sizeof(ret->space)) < 0 ||
		    container_text(annotations, of[i].name, ret->name, sizeof(ret->name)) < 0)
			continue;
		container_text(annotations, of[i].container, ret->container, sizeof(ret->container));
		container_text(annotations, of[i].uid, ret->uid, sizeof(ret->uid));
	}
}

static int container_read_config(const char *bundle, struct container *c,
				 char why[static CONTAINER_WHY])
{
	char path[PATH_MAX + sizeof("/config.json")];
	json_t *config;
	FILE *file;
	int r;

	snprintf(path, sizeof(path), "%s/config.json", bundle);
	file = fopen(path, "re");
	if (!file) {
		snprintf(why, CONTAINER_WHY, "%.200s/config.json: %s", bundle, strerror(errno));
		return -ENOENT;
	}
	config = container_load(file, "config.json", why);
	fclose(file);
	if (!config)
		return -EINVAL;
	r = container_take_root(config, bundle, c);
	if (r == 0)
		r = container_take_process(json_object_get(config, "process"), c);
	container_take_pod(json_object_get(config, "annotations"), &c->pod);
	c->has_owner = container_find_owner(c, json_object_get(config, "process"), &c->owner);
	json_decref(config);
	if (r < 0)
		snprintf(why, CONTAINER_WHY,
			 "config.json has no root, or no process, as the OCI's specification has "
			 "them");
	return r;
}

int container_read(FILE *state_file, struct container *ret, char why[static CONTAINER_WHY])
{
	json_t *state = container_load(state_file, "the state on standard input", why);
	char bundle[PATH_MAX];
	int r;

	if (!state)
		return -EINVAL;
	r = container_take_state(state, ret, bundle);
	json_decref(state);
	if (r < 0) {
		snprintf(why, CONTAINER_WHY,
			 "the state on standard input has no id, no pid, or no bundle");
		return r;
	}
	return container_read_config(bundle, ret, why);
}

void container_done(struct container *container)
{
	free(container->program);
	free(container->path);
	container->program = container->path = NULL;
}
