/* SPDX-License-Identifier: Apache-2.0 */
/* A claim's opaque configuration for a request, see claim.h. Pure. */
#ifndef ALLOT_KUBE_CLAIMS_CLAIM_CONFIG_H
#define ALLOT_KUBE_CLAIMS_CLAIM_CONFIG_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "kube/state/conf.h"

#define CLAIM_CONFIG	  "allot.dev/v1" /* apiVersion of the parameters */
#define CLAIM_CONFIG_KIND "GpuConfig"

struct claim_config {
	bool limit, swappable, overcommit;
	unsigned int priority; /* enum policy_priority */
	unsigned int mode;     /* enum policy_mode */
};

/*
 * Reads the entries of an allocation's `config` that are for the driver and the request. 0, or -EINVAL with
 * words: which entry, which field, and what it may be. Priority high is a class's to give, or a claim's
 * where the node's configuration says so (-EPERM).
 */
int claim_config_read(const json_t *config, const struct kube_conf *conf, const char *request,
		      struct claim_config *ret, char *why, size_t size);

#endif
