/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which free slots a container is to have: several are on different GPUs as far as possible, preferably on
 * such as have the most NVLinks to each other, and of one NUMA node; among these, and for a single slot, GPUs come first that have the
 * fewest free slots, so that whole GPUs stay free. But where a container says how much of a GPU it
 * wants, that is not known here: GPUs with the most free slots come first then, since on a full one
 * it would not start, while another one is empty. Pure.
 */
#ifndef ALLOT_KUBE_SLOTS_PREFER_H
#define ALLOT_KUBE_SLOTS_PREFER_H

#include <stdbool.h>
#include <stddef.h>

#include "kube/state/node.h"

struct prefer_request {
	char *const *available; /* names of slots; what is none is not preferred */
	size_t n_available;
	char *const *must; /* these in any case */
	size_t n_must;
	size_t size; /* how many in all */
	bool sized;  /* slots are of the size that a container asks for */
};

/* `size` names of the request into `ret`. -EINVAL: there are not so many; -ENOMEM. */
int prefer_slots(const struct node_devices *devices, const struct prefer_request *request,
		 char **ret);

#endif
