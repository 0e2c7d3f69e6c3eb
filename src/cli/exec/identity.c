/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/exec/identity.h"

#include <errno.h>
#include <grp.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/parse.h"
#include "cli/say/say.h"

static int identity_parse_numbers(const char *user, struct identity *ret)
{
	const char *colon = strchr(user, ':');
	char uid[16];
	uint64_t u, g;

	if (!colon || (size_t)(colon - user) >= sizeof(uid))
		return -EINVAL;
	memcpy(uid, user, (size_t)(colon - user));
	uid[colon - user] = '\0';
	if (parse_u64(uid, 1, (uid_t)-2, &u) < 0 || parse_u64(colon + 1, 0, (gid_t)-2, &g) < 0)
		return -EINVAL;
	ret->uid = (uid_t)u;
	ret->gid = (gid_t)g;
	return 0;
}

static int identity_refuse(const char *user, const char *why, int r)
{
	return say_fail(r, "--user \"%s\": %s", user, why);
}

int identity_find(const char *user, struct identity *ret)
{
	const struct passwd *entry = getpwnam(user);
	struct identity found = {0};

	if (geteuid())
		return identity_refuse(user, "only root starts programs of others; leave it out", -EPERM);
	if (entry && !entry->pw_uid)
		return identity_refuse(user, "that is root, who needs no such option; leave it out",
				       -EINVAL);
	if (entry) {
		found.uid = entry->pw_uid;
		found.gid = entry->pw_gid;
		snprintf(found.name, sizeof(found.name), "%s", entry->pw_name);
		snprintf(found.home, sizeof(found.home), "%s", entry->pw_dir);
		snprintf(found.shell, sizeof(found.shell), "%s", entry->pw_shell);
	} else if (identity_parse_numbers(user, &found) < 0) {
		return identity_refuse(user, "there is no such user; write a name, or numbers like "
					     "--user 1000:1000", -ESRCH);
	}
	*ret = found;
	return 0;
}

static int identity_set_environment(const struct identity *identity)
{
	/* Root's own, where the user may not write. */
	unsetenv("XDG_RUNTIME_DIR");
	if (!*identity->name)
		return 0;
	return setenv("USER", identity->name, 1) || setenv("LOGNAME", identity->name, 1) ||
	       setenv("HOME", identity->home, 1) || setenv("SHELL", identity->shell, 1);
}

/* Groups first and the user last: after that there is no right to change any of it. */
int identity_take(const struct identity *identity)
{
	int r;

	if (!identity->uid)
		return 0;
	r = *identity->name ? initgroups(identity->name, identity->gid) : setgroups(0, NULL);
	if (r < 0 || setresgid(identity->gid, identity->gid, identity->gid) < 0 ||
	    setresuid(identity->uid, identity->uid, identity->uid) < 0)
		return say_error("cannot become user %u: %s", (unsigned int)identity->uid,
				 say_errno(errno));
	if (identity_set_environment(identity))
		return say_error("cannot set the command's environment: %s", say_errno(errno));
	return 0;
}
