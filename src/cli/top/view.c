/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/top/view.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "cli/tenant/runtime.h"
#include "ledger/tenant.h"
#include "node/apart.h"
#include "node/figures.h"
#include "node/usage.h"

struct view_reader {
	struct usage_reader *usage; /* NULL: no driver */
	struct gauges_reader *gauges;
	char tenant[TRAIL_NAME]; /* whose processes are read closely */
};

int view_open(struct view_reader **ret)
{
	struct view_reader *reader = calloc(1, sizeof(*reader));
	int r = reader ? gauges_open(&reader->gauges) : -ENOMEM;

	if (!r)
		r = usage_open(&reader->usage);
	if (r < 0 && r != -ENODEV) {
		view_close(reader);
		return r;
	}
	*ret = reader;
	return 0;
}

void view_close(struct view_reader *reader)
{
	if (!reader)
		return;
	usage_close(reader->usage);
	gauges_close(reader->gauges);
	free(reader);
}

void view_ask_programs(struct view_reader *reader, const char *tenant)
{
	snprintf(reader->tenant, sizeof(reader->tenant), "%s", tenant);
}

/* Without memory for them the view is one without them. */
static void view_read_programs(struct view_reader *reader, struct view *view)
{
	for (size_t i = 0; i < view->tenants.n && *reader->tenant; i++) {
		const struct tenant_entry *tenant = &view->tenants.list[i];

		if (tenant->error || strcmp(tenant->name, reader->tenant))
			continue;
		if (programs_read(tenant->snapshot, reader->gauges, &view->programs) < 0)
			view->programs = (struct programs){.n = 0};
		else
			memcpy(view->asked, reader->tenant, sizeof(view->asked));
		return;
	}
}

void view_ask_traffic(struct view_reader *reader, bool ask)
{
	gauges_ask_traffic(reader->gauges, ask);
}

struct view_name view_outsider_name(const struct outsider_found *found)
{
	const char *command = found->process.command, *slash;
	size_t len = strcspn(command, " ");
	struct view_name name;

	/* The program without its directory. */
	slash = memrchr(command, '/', len);
	if (slash) {
		len -= (size_t)(slash + 1 - command);
		command = slash + 1;
	}
	snprintf(name.s, sizeof(name.s), "%s%d %.*s", VIEW_OUTSIDE, found->outsider.pid,
		 (int)(len < 48 ? len : 48), command);
	return name;
}

/* The directory may belong to the user who made the tenant: the ledger's owner is its user. */
static void view_name_users(const struct tenants *tenants, struct view_user *users)
{
	uid_t last = (uid_t)-1;

	for (size_t i = 0; i < tenants->n; i++) {
		struct stat st = tenants->list[i].ledger;

		if (!st.st_ino)
			st.st_uid = (uid_t)-1;
		/* A ledger of a user's container is root's. */
		tenant_name_owner(tenants->list[i].name, &st.st_uid);
		if (st.st_uid == (uid_t)-1)
			snprintf(users[i].name, sizeof(users[i].name), "?");
		else if (st.st_uid == last) /* to ask once is enough: it may be a network away */
			users[i] = users[i - 1];
		else
			user_name(st.st_uid, users[i].name);
		last = st.st_uid;
	}
}

static void view_note_trails(struct view *view)
{
	trail_begin(&view->trails);
	for (unsigned int i = 0; i < view->gauges.n; i++)
		if (view->gauges.list[i].used_bytes != GAUGE_BYTES_UNKNOWN)
			trail_note(&view->trails, VIEW_DEVICE, view->gauges.list[i].uuid,
				   view->gauges.list[i].used_bytes);
	for (unsigned int i = 0; i < view->gauges.n; i++)
		if (view->gauges.list[i].busy_percent != GAUGE_UNKNOWN)
			trail_note(&view->trails, VIEW_UTIL, view->gauges.list[i].uuid,
				   view->gauges.list[i].busy_percent);
	for (size_t i = 0; i < view->tenants.n; i++) {
		const struct snapshot *s = view->tenants.list[i].snapshot;

		for (int d = 0; s && d < s->ndevices; d++)
			trail_note(&view->trails, view->tenants.list[i].name, s->device[d].uuid,
				   s->device[d].used_bytes);
	}
	for (size_t i = 0; i < view->noutside; i++)
		if (view->outside[i].outsider.bytes != UINT64_MAX)
			trail_note(&view->trails, view_outsider_name(&view->outside[i]).s,
				   view->outside[i].outsider.uuid, view->outside[i].outsider.bytes);
}

static void view_free_read(struct view *view)
{
	tenants_free(&view->tenants);
	free(view->users);
	free(view->outside);
	programs_free(&view->programs);
	view->users = NULL;
	view->outside = NULL;
}

int view_read(struct view_reader *reader, const char *runtime, struct view *view)
{
	struct usage_list usage = {.n = 0};
	struct view now = {.noutside = 0};
	int r;

	/*
	 * The drivers are read first: a process that enters a ledger in between is then no
	 * outsider.
	 */
	if (reader->usage && usage_read(reader->usage, &usage))
		usage = (struct usage_list){.n = 0};
	r = runtime_load(runtime, &now.tenants);
	if (!r)
		r = apart_add_users(&now.tenants, &usage);
	if (!r) {
		now.users = calloc(now.tenants.n + 1, sizeof(*now.users));
		r = now.users ? outsiders_list(&usage, &now.tenants, user_name, &now.outside,
					       &now.noutside)
			      : -ENOMEM;
	}
	usage_free(&usage);
	if (r < 0) {
		view_free_read(&now);
		return r;
	}
	figures_apply(&now.tenants);
	view_name_users(&now.tenants, now.users);
	gauges_read(reader->gauges, &now.gauges);
	view_read_programs(reader, &now);
	now.trails = view->trails;
	view_free_read(view);
	*view = now;
	view_note_trails(view);
	return 0;
}

void view_free(struct view *view)
{
	view_free_read(view);
	trail_free(&view->trails);
}
