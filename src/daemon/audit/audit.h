/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The audit: a thread of its own, since drivers may block, that compares the drivers' lists with
 * the ledgers once a second (node/outsiders.h). Findings are logged when they appear and disappear,
 * and can be read at any time. It also finds devices that come later.
 */
#ifndef ALLOT_DAEMON_AUDIT_AUDIT_H
#define ALLOT_DAEMON_AUDIT_AUDIT_H

#include "daemon/audit/inventory.h"
#include "node/outsiders.h"

enum audit_action {
	AUDIT_REPORT,
	AUDIT_STOP, /* SIGSTOP */
	AUDIT_KILL, /* SIGKILL */
};

struct audit_finding {
	struct outsider_found found;
	int pidfd;     /* of a process that is to be ended; -1: there is none */
	bool acted_on; /* the action was taken */
};

struct audit;
struct energy;

/*
 * Also where no driver is here: one that comes later is found. `stamp` is devices_stamp() of when the
 * devices were last read; where there are others, `inventory` is told, which is the audit's from then on,
 * also on error. Its thread also has `energy` measured. -errno.
 */
int audit_start(const char *runtime, enum audit_action action, uint64_t stamp,
		struct inventory *inventory, struct energy *energy, struct audit **ret);
void audit_end(struct audit *audit); /* takes NULL */

struct audit_report {
	uint64_t age_ns; /* since the last look that succeeded; UINT64_MAX: there was none yet */
	size_t n;
	struct audit_finding *finding; /* malloc'ed; their pidfd says nothing here */
	size_t nlost;
	uint8_t lost[POLICY_DEVICES][16]; /* devices that do not answer */
	struct usage_busy busy; /* at the last look */
	size_t napart;
	pid_t *apart; /* malloc'ed: a process of each tenant apart that was found (node/apart.h) */
};

/* Copies the last findings. -ENOMEM. */
int audit_report(struct audit *audit, struct audit_report *ret);
/* True if a device does not answer that was there when the audit began. */
bool audit_is_lost(const struct audit_report *report, const uint8_t uuid[static 16]);
/* How busy a device was at the last look; whether its driver told. */
bool audit_busy_percent(const struct audit_report *report, const uint8_t uuid[static 16],
			uint32_t *ret);
/*
 * Memory of a device that unlimited processes have and no ledger knows of, as far as it is known.
 */
uint64_t audit_outside_bytes(const struct audit_report *report, const uint8_t uuid[static 16]);
void audit_report_free(struct audit_report *report);

#endif
