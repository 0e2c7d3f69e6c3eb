/* SPDX-License-Identifier: Apache-2.0 */
#include "node/outsiders.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/number.h"
#include "node/figures.h"
#include "node/own_tool.h"
#include "node/process/mapped.h"
#include "node/process/user.h"
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
		r = claim.process ? mapped_ledger(pid, &tenants->list[t].ledger) : -ENOENT;
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
	const struct snapshot_device *device = snapshot_device_of(tenant->snapshot, uuid);
	const struct snapshot_process_device *use;

	if (!device)
		return 0;
	use = &process->device[device - tenant->snapshot->device];
	return sat_add_u64(sat_add_u64(use->used_bytes, use->shared_bytes), use->pending);
}

/* --- Tenants under accounting by the driver --------------------------------------------------- */

/* A process of such a tenant on a device, and the rest of the quota beside those with less. */
struct charged {
	const struct tenant_entry *tenant;
	const struct usage *usage;
	uint64_t left_bytes;
};

static int outsiders_compare_charged(const void *a, const void *b)
{
	const struct charged *one = a, *two = b;
	int uuid = memcmp(one->usage->uuid, two->usage->uuid, sizeof(one->usage->uuid));

	if (one->tenant != two->tenant)
		return one->tenant < two->tenant ? -1 : 1;
	if (uuid)
		return uuid;
	return one->usage->bytes == two->usage->bytes ? 0
	       : one->usage->bytes > two->usage->bytes ? -1
							: 1;
}

static bool outsiders_is_charged_with(const struct charged *a, const struct charged *b)
{
	return a->tenant == b->tenant &&
	       !memcmp(a->usage->uuid, b->usage->uuid, sizeof(a->usage->uuid));
}

/* `of` are all of a tenant on a device, those with the most first. */
static void outsiders_divide(struct charged *of, size_t n)
{
	uint64_t slack = n * OUTSIDERS_SLACK_BYTES, quota, rest = 0;
	int r = policy_limit_ever(&of->tenant->snapshot->policy, of->usage->uuid,
				  of->usage->total_bytes, &quota);

	if (r == -ENODEV) /* its policy does not give it that device */
		quota = 0;
	for (size_t i = 0; i < n; i++)
		rest = sat_add_u64(rest, of[i].usage->bytes);
	for (size_t i = 0; i < n; i++) {
		bool beyond = r != -ENODATA && rest > sat_add_u64(quota, slack);

		rest = sat_sub_u64(rest, of[i].usage->bytes);
		of[i].left_bytes = beyond ? sat_sub_u64(quota, rest) : UINT64_MAX;
	}
}

static void outsiders_divide_all(struct charged *list, size_t n)
{
	size_t end;

	if (n)
		qsort(list, n, sizeof(*list), outsiders_compare_charged);
	for (size_t i = 0; i < n; i = end) {
		for (end = i + 1; end < n && outsiders_is_charged_with(&list[i], &list[end]); end++)
			;
		outsiders_divide(&list[i], end - i);
	}
}

/* --- Processes -------------------------------------------------------------------------------- */

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
	struct stat mapped;
	int r;

	if (own_tool_is(pid))
		return OUTSIDER_TOOL;
	r = mapped_any_ledger(pid, &mapped);
	if (r)
		return r == -EACCES	     ? OUTSIDER_HIDDEN
		       : mapped_is_unknown(r) ? OUTSIDER_UNREAD
					      : OUTSIDER_UNLIMITED;
	for (size_t t = 0; t < tenants->n; t++)
		if (tenants->list[t].snapshot && !tenants->list[t].apart &&
		    fd_is_same(&tenants->list[t].ledger, &mapped))
			return OUTSIDER_UNLIMITED;
	return OUTSIDER_UNREAD;
}

static void outsiders_put(const struct usage *usage, const struct tenant_entry *tenant,
			  struct outsider o, struct outsider *ret)
{
	o.pid = usage->pid;
	o.bytes = usage->bytes;
	memcpy(o.uuid, usage->uuid, sizeof(o.uuid));
	if (tenant) {
		snprintf(o.tenant, sizeof(o.tenant), "%s", tenant->name);
		o.spared = tenant->apart;
	}
	*ret = o;
}

static bool outsiders_is_beyond(const struct usage *usage, uint64_t ledger_bytes)
{
	return usage->bytes != UINT64_MAX &&
	       usage->bytes > sat_add_u64(ledger_bytes, OUTSIDERS_SLACK_BYTES);
}

int outsiders_find(const struct usage_list *usage, const struct tenants *tenants,
		   struct outsider *ret, size_t *ret_n)
{
	CLEANUP_FREE struct charged *charged = calloc(usage->n + 1, sizeof(*charged));
	size_t n = 0, ncharged = 0;

	if (!charged)
		return -ENOMEM;
	for (size_t i = 0; i < usage->n; i++) {
		const struct usage *u = &usage->list[i];
		struct claim claim = outsiders_claim(tenants, u->pid);
		struct outsider o = {.standing = OUTSIDER_UNLIMITED};

		if (!claim.tenant) {
			/* Until its mappings are read, the tenant's word counts. */
			if (claim.unknown == -EAGAIN)
				continue;
			o.standing = claim.unknown ? OUTSIDER_UNREAD
						   : outsiders_standing(tenants, u->pid);
			outsiders_put(u, NULL, o, &ret[n++]);
		} else if (figures_decide(&claim.tenant->snapshot->policy, u->uuid)) {
			if (u->bytes != UINT64_MAX)
				charged[ncharged++] =
					(struct charged){.tenant = claim.tenant, .usage = u};
		} else {
			o.ledger_bytes = outsiders_ledger_bytes(claim.tenant, claim.process, u->uuid);
			if (outsiders_is_beyond(u, o.ledger_bytes))
				outsiders_put(u, claim.tenant, o, &ret[n++]);
		}
	}
	outsiders_divide_all(charged, ncharged);
	for (size_t i = 0; i < ncharged; i++)
		if (charged[i].left_bytes != UINT64_MAX)
			outsiders_put(charged[i].usage, charged[i].tenant,
				      (struct outsider){.ledger_bytes = charged[i].left_bytes,
							.by_quota = true},
				      &ret[n++]);
	*ret_n = n;
	return 0;
}

/* --- A process's details --------------------------------------------------------------------- */

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

	memset(ret, 0, sizeof(*ret));
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
	pod_of_process(pid, &ret->pod);
	if (*ret->pod.uid)
		pod_find_name(&ret->pod);
	return 0;
}

/*
 * True for the server of MPS, whose clients have figures of their own. Any process can have its
 * name, so a skipped one has little memory, as the server has.
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

	if (!outsider || !found || outsiders_find(usage, tenants, outsider, &n) < 0) {
		free(outsider);
		free(found);
		return -ENOMEM;
	}
	*ret_n = 0;
	for (size_t i = 0; i < n; i++) {
		found[*ret_n].outsider = outsider[i];
		/*
		 * The details of a process that is ending cannot be read any more, and its memory
		 * is released.
		 */
		*ret_n += !outsiders_is_mps(&outsider[i]) && !mapped_is_ending(outsider[i].pid) &&
			  !outsiders_describe(outsider[i].pid, name, &found[*ret_n].process);
	}
	free(outsider);
	*ret = found;
	return 0;
}
