/* SPDX-License-Identifier: Apache-2.0 */
/* A user's policy held against what the site gives (site.h). */
#ifndef ALLOT_DAEMON_BOUNDS_H
#define ALLOT_DAEMON_BOUNDS_H

#include <stdbool.h>

#include "daemon/site.h"
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
 * Where the policy's entry for all devices gives more of one that allotd does not know (one that was
 * plugged in a moment ago, a part of one) than is left there of memory-max, or in another unit: each
 * known device gets an entry with what was asked for, and that for all has what is left. 0, -EDQUOT
 * with words where that does not fit into a policy, or -errno.
 */
int bounds_spell_out(const struct bounds *b, struct policy *policy,
		     char words[static BOUNDS_WORDS]);

/* Of a tenant that is to be made. 0, or -EDQUOT with words: the site does not give that accounting. */
int bounds_check_accounting(const struct bounds *b, const struct policy *policy,
			    char words[static BOUNDS_WORDS]);

/*
 * 0, also with words where the site wants one to be told; or -EDQUOT with words: more than there is
 * for that user, or -ENOSPC: than the device has left; or -errno where nobody can tell what is there.
 */
int bounds_check(const struct bounds *b, const struct policy *policy,
		 char words[static BOUNDS_WORDS]);

#endif
