/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `allot run`'s tenant: made, or joined if it lives. The options *are* the policy: an ended tenant
 * leaves nothing but figures, and a living one is joined by a request for the same policy, or for
 * none.
 */
#ifndef ALLOT_CLI_TENANT_ENROLL_H
#define ALLOT_CLI_TENANT_ENROLL_H

#include <limits.h>
#include <stdbool.h>
#include <sys/types.h>

#include "cli/device/selection.h"
#include "cli/tenant/options.h"
#include "ledger/policy.h"

enum enroll_accounting {
	ENROLL_ACCOUNTING_UNSET,
	ENROLL_ACCOUNTING_LEDGER,
	ENROLL_ACCOUNTING_DRIVER
};

/* The kinds of memory that devices look for before it leaves them: see POLICY_LOOKS. */
enum enroll_look {
	ENROLL_LOOK_NOT_SAID,
	ENROLL_LOOK_HASH,
	ENROLL_LOOK_BYTES,
	ENROLL_LOOK_OFF,
};

/* Returns the look of that name, or ENROLL_LOOK_NOT_SAID if there is none. */
enum enroll_look enroll_look_named(const char *name);

/* The command line's request; NULL for what it does not mention. */
struct enroll_request {
	const char *name;
	const struct tenant_options *options;
	/* Of a tenant that this run makes, in their place; NULL: there are none. */
	const struct tenant_options *first_options;
	const struct selection *gpus;
	const struct devices *devices; /* read when `gpus` is given or options are by device */
	enum enroll_accounting accounting;
	bool swappable, overcommit;
	bool first_overcommits; /* and is swappable, if this run makes it */
	uint64_t host_bytes; /* 0: nothing said */
	const char *swap_dir; /* NULL or "": nothing said */
	enum enroll_look look;
	bool keep; /* it stays without a process until it is removed */
	const char *library; /* of its processes; NULL: the caller does not set one */
	uid_t user; /* root makes it for this user; 0: for the caller */
	pid_t container; /* first process of the container that it is for; 0: it is for none */
	uid_t container_user; /* its user outside of our user namespace; 0: root */
};

struct enrolment {
	char runtime[PATH_MAX];
	char dir[PATH_MAX];
	bool remote; /* allotd made it, and removes it */
	char name[POLICY_NAME_BYTES];
	bool generated; /* a tenant of this run alone */
	bool joined;
	int life; /* a descriptor, for the command and all that it starts to inherit; see life.h */
	struct policy policy; /* in force */
};

/* 0, or a message and a negative value. */
int enroll(const struct enroll_request *request, struct enrolment *ret);

/* Nothing was started: removes the tenant, if this run made it and nobody else uses it. */
void enroll_undo(struct enrolment *enrolment);

/* The command is over: removes the tenant, if nobody else uses it, and keeps its last figures. */
void enroll_end(struct enrolment *enrolment);

#endif
