/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A ResourceClaim (resource.k8s.io/v1) as grants: one for each request that has devices of our driver.
 * Pure. The claim's capacity is what is guaranteed: `memory` is the tenant's quota, `cores` its share in
 * percent of the device's time. Opaque configuration says the rest:
 *
 *	config:
 *	- requests: [a]
 *	  opaque:
 *	    driver: gpu.allot.dev
 *	    parameters:
 *	      apiVersion: allot.dev/v1
 *	      kind: GpuConfig
 *	      limit: true		# cores are a cap, too
 *	      priority: low		# low, normal, high
 *	      mode: turns		# turns, space
 *	      swappable: true
 *	      overcommit: true		# and so swappable
 *
 * Several entries are for one request: the last that says something holds. A device without consumed
 * capacity belongs to the request alone, and is not limited.
 */
#ifndef ALLOT_KUBE_CLAIMS_CLAIM_H
#define ALLOT_KUBE_CLAIMS_CLAIM_H

#include <stddef.h>

#include "kube/grants/grant.h"
#include "kube/state/node.h"

#define CLAIM_RESULTS	    32 /* that Kubernetes allocates for a claim */
#define CLAIM_UID_BYTES	    37
#define CLAIM_REQUEST_BYTES 128 /* "request" or "request/subrequest", of DNS labels */
#define CLAIM_SHARE_BYTES   64
#define CLAIM_WHY	    400

/* The kubelet's name for a claim. The texts stay where they are. */
struct claim_id {
	const char *space, *name, *uid;
};

/* A device that was allocated, as the kubelet is told of it. */
struct claim_result {
	unsigned int grant; /* its request's */
	char device[NODE_NAME_BYTES];
	char share[CLAIM_SHARE_BYTES]; /* "": it is not shared */
};

struct claim_grant {
	char request[CLAIM_REQUEST_BYTES];
	char pool[KUBE_NAME_BYTES]; /* of its devices */
	struct grant grant;
};

struct claim {
	unsigned int ngrants, nresults;
	struct claim_grant grant[CLAIM_RESULTS];
	struct claim_result result[CLAIM_RESULTS];
};

/* Returns true if it can be one: letters, digits and '-'. */
bool claim_uid_valid(const char *uid);

/* The ids of a claim's grants begin with it; for "" those of all claims. */
struct claim_prefix {
	char s[CLAIM_UID_BYTES + 8];
};
struct claim_prefix claim_prefix(const char *uid);

/*
 * 0, or with words of what is wrong: -EINVAL; -ESTALE: the claim of this name has another uid; -EAGAIN: it is
 * not allocated; -ENODEV: a device is not here; -EIO: it is sick. Of any bytes.
 */
int claim_read(const char *bytes, size_t len, const struct claim_id *id, const struct kube_conf *conf,
	       const struct node_devices *devices, struct claim *ret, char why[static CLAIM_WHY]);

/* Of a claim at the API server; both names are valid (name.h). */
#define CLAIM_PATH_BYTES (2 * KUBE_NAME_BYTES + 128)
void claim_path(const char *space, const char *name, char ret[static CLAIM_PATH_BYTES]);

/*
 * Returns 1 if the claim of that uid is allocated to a device of this driver and node, 0 if not, or if the API
 * server says that there is none of its name; -EINVAL: that is neither. Of any bytes.
 */
int claim_is_here(const char *bytes, size_t len, const char *uid, const struct kube_conf *conf);

#define CLAIM_NAME_BYTES (2 * KUBE_NAME_BYTES)
/* "namespace/name" of the claim that a memo is of. -EBADMSG: it does not say that. */
int claim_recall_name(const char *memo, char ret[static CLAIM_NAME_BYTES]);

/*
 * Adds a grant that is on disk, by the memo in it: the answer to the kubelet and the policy's devices, so that
 * the API server is not asked. Returns how many grants its claim has; -EBADMSG: claim_read did
 * not write that memo; -ENODEV, -EIO as above.
 */
int claim_recall(const char *id, const char *memo, const struct node_devices *devices, struct claim *claim,
		 char why[static CLAIM_WHY]);

#endif
