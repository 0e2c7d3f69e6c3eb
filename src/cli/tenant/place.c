/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/tenant/place.h"

#include <errno.h>
#include <pwd.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli/say/say.h"
#include "cli/tenant/runtime.h"
#include "ledger/tenant.h"

/* With a user's number in place of its name. */
static int place_whole_name(const char *name, char ret[static POLICY_NAME_BYTES])
{
	const char *at = strchr(name, '@');
	const struct passwd *user;
	char plain[POLICY_NAME_BYTES];
	int r;

	if (!at || tenant_name_valid(name) || at - name >= POLICY_NAME_BYTES) {
		snprintf(ret, POLICY_NAME_BYTES, "%s", name);
		return tenant_name_valid(name) ? 0 : -EINVAL;
	}
	snprintf(plain, sizeof(plain), "%.*s", (int)(at - name), name);
	user = getpwnam(at + 1);
	r = user ? tenant_name_of(plain, user->pw_uid, ret) : -ESRCH;
	if (r == -ESRCH)
		say_error("\"%s\": there is no user \"%s\"", name, at + 1);
	return r;
}

/* True if the user has such a tenant beside root's runtime directory. */
static bool place_is_remote(const char *name, struct place *p)
{
	bool own = !strchr(name, '@');

	if (!geteuid() || tenant_runtime_dir_of(0, p->runtime, sizeof(p->runtime)) < 0)
		return false;
	if (own ? tenant_name_of(name, geteuid(), p->name) < 0
		: snprintf(p->name, sizeof(p->name), "%s", name) < 0)
		return false;
	return tenant_path(p->runtime, p->name, p->dir, sizeof(p->dir)) == 0 &&
	       (!own || access(p->dir, F_OK) == 0);
}

int place_find(const char *name, struct place *ret)
{
	char whole[POLICY_NAME_BYTES];
	struct place p = {.remote = true};
	int r = place_whole_name(name, whole);

	if (r == -ESRCH)
		return r;
	if (r < 0)
		return say_fail(r, "there is no tenant \"%s\": a name is of letters, digits, '.', "
				"'_' and '-'; \"allot ps\" lists them", name);
	if (!place_is_remote(whole, &p)) {
		p.remote = false;
		memcpy(p.name, whole, sizeof(p.name));
		r = runtime_find(p.runtime);
		if (r == 0)
			r = tenant_path(p.runtime, p.name, p.dir, sizeof(p.dir));
	}
	if (r == 0)
		*ret = p;
	return r;
}

struct place_user place_user_words(const char *name)
{
	struct place_user words = {""};
	uid_t uid;

	if (tenant_name_owner(name, &uid))
		user_name(uid, words.s);
	return words;
}
