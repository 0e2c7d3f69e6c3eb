/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The site's limits for its users: /etc/allot/allotd.conf (control/message.h), `key = value` lines
 * in sections of users, cgroups, groups, and of Kubernetes (kube/state/conf.h).
 *
 *	overpromise = refuse
 *	[default]
 *	memory-max = 16GiB
 *	[group students]
 *	weight-max = 2
 */
#ifndef ALLOT_DAEMON_SITE_SITE_H
#define ALLOT_DAEMON_SITE_SITE_H

#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/types.h>

#include "base/parse.h"
#include "kube/state/conf.h"

/* For each key the first of these that says it. Of cgroups the longest, of groups the first. */
enum site_who { SITE_USER, SITE_CGROUP, SITE_GROUP, SITE_DEFAULT, SITE_WHOS };

enum site_key {
	SITE_MEMORY,	  /* where nothing was said */
	SITE_MEMORY_MAX,  /* of all tenants of a user together, on each device */
	SITE_COMPUTE,	  /* likewise, in permille of the time */
	SITE_COMPUTE_MAX,
	SITE_WEIGHT,
	SITE_WEIGHT_MAX,
	SITE_PRIORITY_MAX, /* in the order low, normal, high */
	SITE_FLOOR_MAX,	   /* in permille of the time */
	SITE_LATENCY_MIN,  /* in microseconds */
	SITE_TENANTS,
	SITE_METER, /* where nothing was said: 0 off, 1 on */
	SITE_ACCOUNTING_DRIVER, /* 0: --accounting driver is refused */
	SITE_KEYS,
};

struct site_value {
	struct size_spec size;
	uint32_t number;
	unsigned int line; /* of the file */
};

struct site_rule {
	enum site_who who;
	uint32_t id;	       /* uid or gid */
	char cgroup[PATH_MAX]; /* from the top, without a slash at its end */
	unsigned int said;     /* bits of enum site_key */
	struct site_value value[SITE_KEYS];
	struct site_rule *next;
};

/* When quotas on a device are together more than it has. */
enum site_overpromise { SITE_ALLOW, SITE_WARN, SITE_REFUSE };

/* Zeroed: nothing is bounded, and root alone manages. */
/* Where tenants are switched by HTTP (daemon/switch/switch.h): as the file says it; "": nowhere. */
struct site_control {
	char address[64]; /* with a port, for listen_parse() */
	char token[PATH_MAX]; /* a file */
};

struct site {
	enum site_overpromise overpromise;
	bool overpromise_said;
	struct site_rule *rules; /* as they stand */
	bool has_managers;
	gid_t managers; /* the group whose members manage all users' tenants */
	struct kube_conf kube; /* without ways: the section is not there */
	struct site_control control;
	bool no_history;
	char history[PATH_MAX]; /* a folder for node/journal.h; "": the usual one */
};

/*
 * Reads the file; each line goes to `say` in words, a wrong one with `wrong`, and so does a default
 * above the limit of the same users. 0; -EINVAL for a file with a wrong line, of which nothing is
 * in force; -errno if it cannot be read. Names of users and groups are looked up here and nowhere
 * else: a directory service may take long for that.
 */
typedef void site_say(void *arg, unsigned int line, bool wrong, const char *words);
int site_read(FILE *in, site_say *say, void *arg, struct site *ret);
/* Of a site that has no file: nothing is bounded. 0. */
int site_none(struct site *ret);
void site_free(struct site *site);

/* Returns true if the file says anything: from then on some keys have a value where it does not say. */
bool site_bounds(const struct site *site);

struct site_member {
	uid_t uid;
	const gid_t *groups;
	size_t ngroups;
	const char *cgroups; /* as /proc/PID/cgroup has them */
};

/* True if it manages all users' tenants, without limits. Pure. */
bool site_is_managed_by(const struct site *site, const struct site_member *member);

/*
 * The value of that key for such a member, or its default (line 0): priority-max = normal,
 * floor-max = 5% and latency-min = 20ms, so that nobody outranks others, or shortens their turns,
 * unless the site allows it. NULL: there is none. Pure.
 */
const struct site_value *site_find(const struct site *site, const struct site_member *member,
				   enum site_key key);

#endif
