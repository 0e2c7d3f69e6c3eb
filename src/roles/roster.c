/* SPDX-License-Identifier: Apache-2.0 */
#include "roles/roster.h"

#include <errno.h>
#include <limits.h>
#include <string.h>

#include "base/now.h"
#include "base/word.h"
#include "ledger/role/role_file.h"
#include "ledger/tenant.h"

#define LIST_NS NS_PER_S

void roster_leave(struct roster *roster, int i)
{
	struct roster_entry *entry = &roster->entry[i];

	roster->job->leave(roster->arg, i);
	policy_close(entry->policy);
	memset(entry, 0, sizeof(*entry));
}

void roster_leave_all(struct roster *roster)
{
	for (int i = 0; i < roster->n; i++)
		if (roster_has(roster, i))
			roster_leave(roster, i);
	roster->n = 0;
	roster_expire(roster);
}

void roster_expire(struct roster *roster)
{
	roster->looked_ns = roster->listed_ns = 0;
}

static int roster_join(struct roster *roster, const char *name, const char *dir)
{
	struct roster_entry *entry;
	int i = 0;

	while (i < roster->n && roster_has(roster, i))
		i++;
	if (i == ROSTER_TENANTS)
		return -ENOSPC;
	entry = &roster->entry[i];
	if (policy_open(dir, &entry->policy))
		return -ENOENT;
	strncpy(entry->name, name, sizeof(entry->name) - 1);
	if (roster->job->join(roster->arg, i, dir)) {
		roster_leave(roster, i);
		return -ENOENT;
	}
	if (i == roster->n)
		roster->n++;
	return i;
}

/* To open a tenant takes long beside the question if it lives. */
static int roster_look_at(const char *name, const char *dir, void *arg)
{
	struct roster *roster = arg;
	int i = 0;

	if (!roster->job->lives(dir))
		return 0;
	while (i < roster->n && strcmp(roster->entry[i].name, name))
		i++;
	/* A tenant of that name has ended, and was started again at once. */
	if (i < roster->n && !policy_is_of(roster->entry[i].policy, dir)) {
		roster_leave(roster, i);
		i = roster->n;
	}
	if (i == roster->n)
		i = roster_join(roster, name, dir);
	if (i >= 0)
		roster->entry[i].seen = true;
	return 0;
}

static void roster_look_for_all(struct roster *roster, const struct role *role, uint64_t now_ns)
{
	roster->comers = word_read(role_file_comers(role->map));
	roster->listed_ns = now_ns;
	for (int i = 0; i < roster->n; i++)
		roster->entry[i].seen = false;
	tenant_list(role->runtime, roster_look_at, roster);
}

static void roster_look_for_known(struct roster *roster, const struct role *role)
{
	char dir[PATH_MAX];

	for (int i = 0; i < roster->n; i++) {
		struct roster_entry *entry = &roster->entry[i];

		entry->seen = roster_has(roster, i) &&
			      !tenant_path(role->runtime, entry->name, dir, sizeof(dir)) &&
			      roster->job->lives(dir);
	}
}

bool roster_scan(struct roster *roster, const struct role *role, uint64_t now_ns)
{
	uint64_t look_ns = roster->job->look_ns;

	if (roster->comers != word_read(role_file_comers(role->map)) || !roster->listed_ns ||
	    now_ns >= roster->listed_ns + LIST_NS)
		roster_look_for_all(roster, role, now_ns);
	else if (look_ns && now_ns >= roster->looked_ns + look_ns)
		roster_look_for_known(roster, role);
	else
		return false;
	roster->looked_ns = now_ns;
	for (int i = 0; i < roster->n; i++)
		if (roster_has(roster, i) && !roster->entry[i].seen)
			roster_leave(roster, i);
	return true;
}

int32_t roster_level(const struct policy *policy)
{
	static const int32_t level[POLICY_PRIORITIES] = {
		[POLICY_PRIORITY_LOW] = -1,
		[POLICY_PRIORITY_NORMAL] = 0,
		[POLICY_PRIORITY_HIGH] = 1,
	};

	return level[policy->priority];
}
