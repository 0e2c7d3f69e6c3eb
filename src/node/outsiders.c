/* SPDX-License-Identifier: Apache-2.0 */
#include "node/outsiders.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/fd.h"
#include "base/number.h"
#include "node/mapped.h"
#include "node/own_tool.h"
#include "node/user.h"
#include "text/text.h"

/* A tenant whose ledger lists a process and which the process maps; NULL: there is none. */
struct claim {
	const struct tenant_entry *tenant;
	const struct snapshot_process *process;
	int unknown; /* set if a tenant lists it and its mappings are not read yet: mapped_is_unknown */
};

static const struct snapshot_process *outsiders_in(const struct tenant_entry *tenant, pid_t pid)
{
	const struct snapshot *s = tenant->snapshot;

	for (int p = 0; s && p < s->nprocesses; p++)
		if (s->process[p].live && pid > 0 && s->process[p].host_pid == (uint32_t)pid)
			return &s->process[p];
	return NULL;
}

/*
 * A hostile tenant names processes of others, as if they were its own: so that nobody reports them,
 * or that they seem to have more than their tenant knows of. Where it cannot be looked, its word counts.
 */
static struct claim outsiders_claim(const struct tenants *tenants, pid_t pid)
{
	struct claim claim = {.tenant = NULL};

	for (size_t t = 0; t < tenants->n; t++) {
		int r;

		claim.process = outsiders_in(&tenants->list[t], pid);
		/* However often it claims it. */
		r = claim.process ? mapped_ledger(pid, tenants->list[t].dir) : -ENOENT;
		if (mapped_is_unknown(r)) {
			claim.unknown = r;
		} else if (r != -ENOENT) {
			claim.tenant = &tenants->list[t];
			return claim;
		}
	}
	return claim;
}

static uint64_t outsiders_ledger_bytes(const struct tenant_entry *tenant,
				       const struct snapshot_process *process,
				       const uint8_t uuid[16])
{
	const struct snapshot *s = tenant->snapshot;

	for (int d = 0; d < s->ndevices; d++)
		if (!memcmp(s->device[d].uuid, uuid, sizeof(s->device[d].uuid)))
			return sat_add_u64(sat_add_u64(process->device[d].used_bytes,
						       process->device[d].shared_bytes),
					   process->device[d].pending);
	return 0;
}

/* Under accounting by the driver, its figure is the ledger's. */
static bool outsiders_is_beyond(const struct usage *usage, const struct tenant_entry *tenant,
				uint64_t ledger_bytes)
{
	return !(tenant->snapshot->policy.flags & POLICY_ACCOUNTING_DRIVER) &&
	       usage->bytes != UINT64_MAX &&
	       usage->bytes > sat_add_u64(ledger_bytes, OUTSIDERS_SLACK_BYTES);
}

const char *outsider_standing_word(enum outsider_standing standing)
{
	static const char *const words[] = {
		[OUTSIDER_UNLIMITED] = "unlimited",
		[OUTSIDER_UNREAD] = "unread",
		[OUTSIDER_HIDDEN] = "hidden",
		[OUTSIDER_TOOL] = "tool",
	};

	return words[standing];
}

/* Of a process that is in no ledger that was read, though it may have one of these mapped. */
static enum outsider_standing outsiders_standing(const struct tenants *tenants, pid_t pid)
{
	struct stat mapped, ledger;
	int r;

	if (own_tool_is(pid))
		return OUTSIDER_TOOL;
	r = mapped_any_ledger(pid, &mapped);
	if (r)
		return r == -EACCES	     ? OUTSIDER_HIDDEN
		       : mapped_is_unknown(r) ? OUTSIDER_UNREAD
					      : OUTSIDER_UNLIMITED;
	for (size_t t = 0; t < tenants->n; t++)
		if (tenants->list[t].snapshot &&
		    !mapped_find_ledger(tenants->list[t].dir, &ledger) &&
		    fd_is_same(&ledger, &mapped))
			return OUTSIDER_UNLIMITED;
	return OUTSIDER_UNREAD;
}

size_t outsiders_find(const struct usage_list *usage, const struct tenants *tenants,
		      struct outsider *ret)
{
	size_t n = 0;

	for (size_t i = 0; i < usage->n; i++) {
		const struct usage *u = &usage->list[i];
		struct outsider o = {.pid = u->pid, .bytes = u->bytes};
		struct claim claim = outsiders_claim(tenants, u->pid);

		if (claim.tenant) {
			o.ledger_bytes = outsiders_ledger_bytes(claim.tenant, claim.process, u->uuid);
			if (!outsiders_is_beyond(u, claim.tenant, o.ledger_bytes))
				continue;
			snprintf(o.tenant, sizeof(o.tenant), "%s", claim.tenant->name);
		} else if (claim.unknown == -EAGAIN) {
			continue; /* until its mappings are read, the tenant's word counts */
		} else {
			o.standing = claim.unknown ? OUTSIDER_UNREAD
						   : outsiders_standing(tenants, u->pid);
		}
		memcpy(o.uuid, u->uuid, sizeof(o.uuid));
		ret[n++] = o;
	}
	return n;
}

/* --- What is told of a process --------------------------------------------------------------- */

/* Arguments are apart by a NUL. */
static void outsiders_join(char *command, ssize_t n)
{
	for (ssize_t i = 0; i + 1 < n; i++)
		if (!command[i])
			command[i] = ' ';
}

int outsiders_describe(pid_t pid, user_namer *name, struct outsider_process *ret)
{
	char path[64], text[4096];
	struct stat st;
	ssize_t n;

	*ret = (struct outsider_process){{0}, {0}, {0}};
	snprintf(path, sizeof(path), "/proc/%d", pid);
	if (stat(path, &st) < 0)
		return -ESRCH;
	name(st.st_uid, ret->user);
	snprintf(path, sizeof(path), "/proc/%d/comm", pid);
	n = fd_read_text(AT_FDCWD, path, ret->command, sizeof(ret->command));
	if (n < 0)
		return -ESRCH;
	ret->command[strcspn(ret->command, "\n")] = 0;
	snprintf(path, sizeof(path), "/proc/%d/cmdline", pid);
	n = fd_read_text(AT_FDCWD, path, text, sizeof(text));
	if (n > 0) {
		outsiders_join(text, n);
		snprintf(ret->command, sizeof(ret->command), "%.143s", text);
	}
	text_make_printable(ret->command);
	container_of_process(pid, ret->container);
	return 0;
}

/*
 * The server of MPS, whose clients have figures of their own. Any process can have its name, so
 * what is passed over has little, as that has.
 */
static bool outsiders_is_mps(const struct outsider *o)
{
	char path[64], name[32];

	if (o->bytes != UINT64_MAX && o->bytes >= OUTSIDERS_SLACK_BYTES)
		return false;
	snprintf(path, sizeof(path), "/proc/%d/comm", o->pid);
	/* Cut to 15 characters by the kernel. */
	return fd_read_text(AT_FDCWD, path, name, sizeof(name)) > 0 &&
	       !strcmp(name, "nvidia-cuda-mps\n");
}

int outsiders_list(const struct usage_list *usage, const struct tenants *tenants,
		   user_namer *name, struct outsider_found **ret, size_t *ret_n)
{
	struct outsider *outsider = calloc(usage->n + 1, sizeof(*outsider));
	struct outsider_found *found = calloc(usage->n + 1, sizeof(*found));
	size_t n;

	if (!outsider || !found) {
		free(outsider);
		free(found);
		return -ENOMEM;
	}
	n = outsiders_find(usage, tenants, outsider);
	*ret_n = 0;
	for (size_t i = 0; i < n; i++) {
		found[*ret_n].outsider = outsider[i];
		/* Of one that is ending nothing tells what it was any more, and what it has comes back. */
		*ret_n += !outsiders_is_mps(&outsider[i]) && !mapped_is_ending(outsider[i].pid) &&
			  !outsiders_describe(outsider[i].pid, name, &found[*ret_n].process);
	}
	free(outsider);
	*ret = found;
	return 0;
}
