/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A grant: what Kubernetes has given to a claim's request or to a container, as this node keeps it. It is one
 * file in CDI's directory, <vendor>-<class>-<id>.json, by which the container's runtime has `allot cdi hook`
 * make or join the tenant, with this policy. So the file is the whole record: it is there before the
 * container is, a container without it does not start, and the tenant is made anew from it where
 * /run was emptied.
 */
#ifndef ALLOT_KUBE_GRANT_H
#define ALLOT_KUBE_GRANT_H

#include "kube/conf.h"
#include "ledger/policy.h"

#define GRANT_KIND "allot.dev/grant" /* of the CDI device: GRANT_KIND "=" id */
#define GRANT_ID_BYTES 128
#define GRANT_WHY 512

struct grant {
	char id[GRANT_ID_BYTES]; /* letters, digits, '.', '_', '-' */
	/* What the container's programs may use; its `name` is the tenant's. */
	struct policy policy;
};

/*
 * Replaces what has this id: a slot's next container has another policy. 0, also where the same is there
 * already, or -errno with words: what failed, of which grant, and what
 * to do.
 */
int grant_put(const struct kube_conf *conf, const struct grant *grant, char why[static GRANT_WHY]);

/*
 * A file without a tenant, for a further CDI name of a container whose tenant is by grant `of`: it says
 * that name in an environment variable, since a CDI device without any edit is refused. A container needs all
 * its names, so without `of` it does not start. Replaces what has this id.
 */
int grant_put_member(const struct kube_conf *conf, const char *id, const char *of,
		     char why[static GRANT_WHY]);

/* The file, and the tenant if nothing lives in it. 0, also where there is none. */
int grant_drop(const struct kube_conf *conf, const char *id, char why[static GRANT_WHY]);

/* Calls fn for the id of each grant whose id begins so, sorted; its answer, if that is not 0, ends it. */
int grant_list(const struct kube_conf *conf, const char *prefix, int (*fn)(const char *id, void *arg),
	       void *arg);

/* The names of a container's CDI devices: ours, and NVIDIA's for each device of the policy. */
struct grant_names {
	size_t n;
	char name[1 + POLICY_DEVICES][2 * GRANT_ID_BYTES];
};

/* -ENODEV with words: NVIDIA's driver comes by no CDI device that is there. */
int grant_names(const struct kube_conf *conf, const struct grant *grant, struct grant_names *ret,
		char why[static GRANT_WHY]);

#endif
