/* SPDX-License-Identifier: Apache-2.0 */
/* The data of `allot top`, as read at one moment, and earlier use of memory. */
#ifndef ALLOT_CLI_TOP_VIEW_H
#define ALLOT_CLI_TOP_VIEW_H

#include "cli/top/programs.h"
#include "cli/top/trail.h"
#include "node/gauges.h"
#include "node/outsiders.h"
#include "node/tenants.h"

struct view_user {
	char name[USER_BYTES];
};

struct view {
	struct tenants tenants;
	struct view_user *users; /* of each tenant: its ledger's owner */
	struct gauges gauges;
	struct outsider_found *outside;
	size_t noutside;
	char asked[TRAIL_NAME];	  /* for which tenant's processes; "": for nobody's */
	struct programs programs; /* theirs */
	struct trails
		trails; /* by VIEW_DEVICE, VIEW_UTIL, a tenant's name or view_outsider_name() */
};

/* No tenant's name begins so: of a device's trails of memory and of utilisation, and of the names
 * of those outside. */
#define VIEW_DEVICE  "#"
#define VIEW_UTIL    "%"
#define VIEW_OUTSIDE "!"

/* The name of a process outside of all tenants in a list: "!4711 python3", its pid and program. */
struct view_name {
	char s[TRAIL_NAME];
};
struct view_name view_outsider_name(const struct outsider_found *found);

struct view_reader;

/* Opens the drivers that there are. -ENOMEM. */
int view_open(struct view_reader **ret);
void view_close(struct view_reader *reader); /* takes NULL */

/* Reads the processes of this tenant closely, until another one is named; "": of none. */
void view_ask_programs(struct view_reader *reader, const char *tenant);

/* Reads the traffic on PCIe, too: that takes 40 ms for each device. */
void view_ask_traffic(struct view_reader *reader, bool ask);

/*
 * Reads everything again into `view`, which is zeroed before the first time. -errno if the runtime
 * directory cannot be read, or -ENOMEM: then the view is unchanged.
 */
int view_read(struct view_reader *reader, const char *runtime, struct view *view);
void view_free(struct view *view);

#endif
