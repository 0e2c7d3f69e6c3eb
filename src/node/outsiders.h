/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds processes that use a device and are not limited: compares the drivers' lists with the
 * tenants' ledgers. A program that no library reaches (static, OpenCL, Vulkan, a second C library,
 * an environment that was emptied) is in no ledger, or has more than its ledger says. A process
 * with a mapped ledger that nobody can read here, as of another version, or that is another user's,
 * is limited as far as is known: it is reported, and never ended.
 *
 * Under accounting by the driver a ledger has no totals. There the driver's figures of a tenant's
 * processes together are compared with the highest quota that its policy ever gave. Nobody can tell
 * which of several processes exceeded it: as many as make up the difference are named, the largest
 * first.
 */
#ifndef ALLOT_NODE_OUTSIDERS_H
#define ALLOT_NODE_OUTSIDERS_H

#include "node/process/container.h"
#include "node/process/pod.h"
#include "node/process/user.h"
#include "node/tenants.h"
#include "node/usage.h"

/*
 * A driver's figure may be ahead of the ledger's by allocations under way, and by the unmeasured
 * part of a context: less than this, for each process.
 */
#define OUTSIDERS_SLACK_BYTES (UINT64_C(256) << 20)

enum outsider_standing {
	OUTSIDER_UNLIMITED, /* in no tenant, or with memory that its tenant does not know */
	OUTSIDER_UNREAD,    /* its library keeps to a ledger that could not be read, or may do so */
	OUTSIDER_HIDDEN,    /* another user's: whether it has a ledger cannot be seen from here */
	OUTSIDER_TOOL,	    /* a measurement of allot's, by root (node/own_tool.h) */
};

/* "unlimited", "unread", "hidden", "tool". */
const char *outsider_standing_word(enum outsider_standing standing);

struct outsider {
	uint8_t uuid[16];
	enum outsider_standing standing;
	pid_t pid;
	uint64_t bytes; /* by the driver; UINT64_MAX: not known */
	uint64_t ledger_bytes; /* of these, in the ledger, or what the quota leaves: by_quota */
	bool by_quota;
	char tenant[POLICY_NAME_BYTES]; /* the process's tenant, or where it was begun; "": none */
	bool spared; /* that tenant is apart (node/apart.h): its ledger is no proof */
};

/* Into `ret`, which has room for all of `usage`; *ret_n of them. 0 or -ENOMEM. */
int outsiders_find(const struct usage_list *usage, const struct tenants *tenants,
		   struct outsider *ret, size_t *ret_n);

/* Details of its process. */
struct outsider_process {
	char command[144]; /* printable */
	char user[USER_BYTES];
	char container[CONTAINER_BYTES]; /* "": none */
	struct pod pod; /* as far as it is known, of a container of Kubernetes' */
};

/* -ESRCH: it is gone. */
int outsiders_describe(pid_t pid, user_namer *name, struct outsider_process *ret);

struct outsider_found {
	struct outsider outsider;
	struct outsider_process process;
};

/*
 * Lists outsiders among `usage`, which was read before the tenants were: processes that still
 * exist, except the server of MPS. malloc'ed, *ret_n of them, or -ENOMEM.
 */
int outsiders_list(const struct usage_list *usage, const struct tenants *tenants,
		   user_namer *name, struct outsider_found **ret, size_t *ret_n);

#endif
