/* SPDX-License-Identifier: Apache-2.0 */
/* Checks a user's policy against the site's limits (site.h). */
#ifndef ALLOT_DAEMON_USERS_BOUNDS_H
#define ALLOT_DAEMON_USERS_BOUNDS_H

#include <stdbool.h>

#include "daemon/site/site.h"
#include "ledger/policy.h"
#include "node/devices.h"

#define BOUNDS_WORDS 512

struct bounds {
	const struct site *site;
	const struct devices *devices;
	const char *runtime;
	const struct site_member *member; /* the user who asks; NULL: no limits apply */
	const char *name;		  /* of the tenant, which need not be there */
};

/* Most tenants that the member may have; `most` where the site does not say. */
uint32_t bounds_tenants(const struct bounds *b, uint32_t most);

/*
 * Fills in the site's defaults for what was not asked (enum control_said), or its limits if these
 * are lower: a user who asks for nothing, and has no other tenant, is within them.
 */
void bounds_complete(const struct bounds *b, uint32_t said, struct policy *policy);

/*
 * For a policy whose entry for all devices gives more of an unknown device (one that was plugged in
 * a moment ago, a part of one) than is left there of memory-max, or in another unit: each known
 * device gets an entry with the requested limits, and the entry for all gets the rest. 0, -EDQUOT
 * with words if that does not fit into a policy, or -errno.
 */
int bounds_spell_out(const struct bounds *b, struct policy *policy,
		     char words[static BOUNDS_WORDS]);

/* For a new tenant. 0, or -EDQUOT with words: the site does not allow that accounting. */
int bounds_check_accounting(const struct bounds *b, const struct policy *policy,
			    char words[static BOUNDS_WORDS]);

/*
 * 0, also with words if the site wants the user to be told; or -EDQUOT with words: more than that
 * user may have, or -ENOSPC: than the device has left; or -errno if the present use cannot be found
 * out.
 */
int bounds_check(const struct bounds *b, const struct policy *policy,
		 char words[static BOUNDS_WORDS]);

#endif
