/* SPDX-License-Identifier: Apache-2.0 */
#include "node/process/pod.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/dir.h"
#include "base/err.h"

#define POD_NOTE   "pod"
#define GRANT_NOTE "grant"
#define PARTS	   4
#define LOGS	   "/var/log/pods"
#define TEXT_BYTES (PARTS * POD_NAME_BYTES)

/* A writer that was killed may have had our number. */
static int pod_link(const char *text, const char *path)
{
	if (symlink(text, path) == 0)
		return 0;
	if (errno != EEXIST || unlink(path) < 0)
		return err_errno();
	return symlink(text, path) < 0 ? err_errno() : 0;
}

/* Beside, then renamed: a reader has the old one or the new one. */
static int pod_put(const char *dir, const char *note, const char *text)
{
	char path[PATH_MAX], fresh[PATH_MAX];
	int r;

	if (snprintf(path, sizeof(path), "%s/%s", dir, note) >= (int)sizeof(path) ||
	    snprintf(fresh, sizeof(fresh), "%s/.%s-%ld", dir, note, (long)getpid()) >= (int)sizeof(fresh))
		return -ENAMETOOLONG;
	r = pod_link(text, fresh);
	if (r == 0 && rename(fresh, path) < 0) {
		r = err_errno();
		unlink(fresh);
	}
	return r;
}

static int pod_get(const char *dir, const char *note, char *ret, size_t size)
{
	char path[PATH_MAX];
	ssize_t n;

	if (snprintf(path, sizeof(path), "%s/%s", dir, note) >= (int)sizeof(path))
		return -ENAMETOOLONG;
	n = readlink(path, ret, size);
	if (n < 0)
		return err_errno();
	if (n == 0 || (size_t)n >= size)
		return -EINVAL;
	ret[n] = '\0';
	return 0;
}

int pod_note(const char *dir, const struct pod *pod)
{
	char text[TEXT_BYTES];

	if (!*pod->name || strpbrk(pod->space, "/") || strpbrk(pod->name, "/") ||
	    strpbrk(pod->container, "/") || strpbrk(pod->uid, "/"))
		return -EINVAL;
	snprintf(text, sizeof(text), "%s/%s/%s/%s", pod->space, pod->name, pod->container, pod->uid);
	return pod_put(dir, POD_NOTE, text);
}

static int pod_take(char **rest, char *ret, size_t size)
{
	char *part = strsep(rest, "/");

	if (!part || strlen(part) >= size)
		return -EINVAL;
	strcpy(ret, part);
	return 0;
}

int pod_read(const char *dir, struct pod *ret)
{
	char text[TEXT_BYTES], *rest = text;
	struct pod pod;
	int r = pod_get(dir, POD_NOTE, text, sizeof(text));

	if (r < 0)
		return r;
	if (pod_take(&rest, pod.space, sizeof(pod.space)) < 0 ||
	    pod_take(&rest, pod.name, sizeof(pod.name)) < 0 ||
	    pod_take(&rest, pod.container, sizeof(pod.container)) < 0 ||
	    pod_take(&rest, pod.uid, sizeof(pod.uid)) < 0 || rest || !*pod.name)
		return -EINVAL;
	*ret = pod;
	return 0;
}

int pod_note_grant(const char *dir, const char *grant)
{
	return pod_put(dir, GRANT_NOTE, grant);
}

int pod_read_grant(const char *dir, char ret[static POD_GRANT_BYTES])
{
	return pod_get(dir, GRANT_NOTE, ret, POD_GRANT_BYTES);
}

/* --- Of a process ---------------------------------------------------------------------------- */

/* Up to `end`, behind which *at is then. */
static bool pod_cut(const char **at, const char *end, char *ret, size_t size)
{
	const char *stop = strstr(*at, end);

	if (!stop || stop == *at || (size_t)(stop - *at) >= size)
		return false;
	snprintf(ret, size, "%.*s", (int)(stop - *at), *at);
	*at = stop + strlen(end);
	return true;
}

/*
 * The file of the container's last words, which the kubelet makes for each:
 *
 *	36 25 8:1 /var/lib/kubelet/pods/<uid>/containers/<name>/5f21a3c7 /dev/termination-log rw - ext4 ...
 */
bool pod_of_mount(const char *line, struct pod *ret)
{
	static const char begin[] = "/pods/";
	struct pod pod = {.name = ""};
	char root[PATH_MAX];
	const char *at = root;

	if (sscanf(line, "%*d %*d %*s %4095s", root) != 1)
		return false;
	at = strstr(root, begin);
	if (!at)
		return false;
	at += strlen(begin);
	if (!pod_cut(&at, "/containers/", pod.uid, sizeof(pod.uid)) || strchr(pod.uid, '/') ||
	    !pod_cut(&at, "/", pod.container, sizeof(pod.container)))
		return false;
	*ret = pod;
	return true;
}

/* <namespace>_<name>_<uid> */
bool pod_of_logs(const char *dir, struct pod *ret)
{
	struct pod pod = *ret;
	const char *at = dir;

	if (!pod_cut(&at, "_", pod.space, sizeof(pod.space)) ||
	    !pod_cut(&at, "_", pod.name, sizeof(pod.name)) || strcmp(at, ret->uid) != 0)
		return false;
	*ret = pod;
	return true;
}

void pod_find_name(struct pod *pod)
{
	CLEANUP_DIR DIR *logs = opendir(LOGS);
	const char *name;

	while (*pod->uid && (name = dir_next(logs)))
		if (pod_of_logs(name, pod))
			break;
}

void pod_of_process(pid_t pid, struct pod *ret)
{
	char path[64], *line = NULL;
	size_t size = 0;
	bool found = false;
	FILE *mounts;

	memset(ret, 0, sizeof(*ret));
	snprintf(path, sizeof(path), "/proc/%d/mountinfo", pid);
	mounts = fopen(path, "re");
	while (mounts && !found && getline(&line, &size, mounts) > 0)
		found = pod_of_mount(line, ret);
	free(line);
	if (mounts)
		fclose(mounts);
}

void pod_words(const struct pod *pod, char ret[static POD_WORDS_BYTES])
{
	*ret = '\0';
	if (*pod->name)
		snprintf(ret, POD_WORDS_BYTES, "%s/%s%s%s", pod->space, pod->name,
			 *pod->container ? "/" : "", pod->container);
}
