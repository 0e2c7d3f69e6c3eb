/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A directory service that does not answer: preloaded, names of users and groups are not found for
 * as long as the file SLOW_NAMES is there.
 */
#include <dlfcn.h>
#include <grp.h>
#include <pwd.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#pragma GCC visibility push(default)

static void *real(const char *name)
{
	const char *path = getenv("SLOW_NAMES");

	while (path && !access(path, F_OK))
		usleep(10000);
	return dlsym(RTLD_NEXT, name);
}

int getgrnam_r(const char *name, struct group *entry, char *text, size_t bytes, struct group **ret)
{
	int (*get)(const char *, struct group *, char *, size_t, struct group **) =
		(int (*)(const char *, struct group *, char *, size_t, struct group **))real(
			"getgrnam_r");

	return get(name, entry, text, bytes, ret);
}

int getpwnam_r(const char *name, struct passwd *entry, char *text, size_t bytes, struct passwd **ret)
{
	int (*get)(const char *, struct passwd *, char *, size_t, struct passwd **) =
		(int (*)(const char *, struct passwd *, char *, size_t, struct passwd **))real(
			"getpwnam_r");

	return get(name, entry, text, bytes, ret);
}

int getpwuid_r(uid_t uid, struct passwd *entry, char *text, size_t bytes, struct passwd **ret)
{
	int (*get)(uid_t, struct passwd *, char *, size_t, struct passwd **) =
		(int (*)(uid_t, struct passwd *, char *, size_t, struct passwd **))real("getpwuid_r");

	return get(uid, entry, text, bytes, ret);
}
