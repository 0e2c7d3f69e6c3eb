/* SPDX-License-Identifier: Apache-2.0 */
/* `allot run`'s tenant: made, joined, or given a new policy while nobody uses it. */
#ifndef ALLOT_CLI_TENANT_ENROLL_H
#define ALLOT_CLI_TENANT_ENROLL_H

#include <limits.h>
#include <stdbool.h>

#include "cli/device/selection.h"
#include "cli/tenant/options.h"
#include "ledger/policy.h"

enum enroll_accounting {
	ENROLL_ACCOUNTING_UNSET,
	ENROLL_ACCOUNTING_LEDGER,
	ENROLL_ACCOUNTING_DRIVER
};

/* What the command line asks for; NULL where it says nothing. */
struct enroll_request {
	const char *name;
	const struct tenant_options *options;
	const struct selection *gpus;
	const struct devices *devices; /* read when `gpus` is given or options are by device */
	enum enroll_accounting accounting;
};

struct enrolment {
	char dir[PATH_MAX];
	char name[POLICY_NAME_BYTES];
	bool generated; /* a tenant of this run alone */
	bool joined;
	struct policy policy; /* in force */
};

/* 0, or a message and a negative value. */
int enroll(const struct enroll_request *request, struct enrolment *ret);

/* Removes the tenant, if this run made it and nobody else uses it. */
void enroll_undo(const struct enrolment *enrolment);

#endif
