/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which free slots a container is to have: several are on different GPUs as far as possible,
 * preferably of one NUMA node; among these, and for a single slot, GPUs come first that have the
 * fewest free slots, so that whole GPUs stay free. Pure.
 */
#ifndef ALLOT_KUBE_PREFER_H
#define ALLOT_KUBE_PREFER_H

#include <stddef.h>

#include "kube/node.h"

struct prefer_request {
	char *const *available; /* names of slots; what is none is not preferred */
	size_t n_available;
	char *const *must; /* these in any case */
	size_t n_must;
	size_t size; /* how many in all */
};

/* `size` names of the request into `ret`. -EINVAL: there are not so many; -ENOMEM. */
int prefer_slots(const struct node_devices *devices, const struct prefer_request *request,
		 char **ret);

#endif
