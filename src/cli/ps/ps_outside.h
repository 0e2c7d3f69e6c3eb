/* SPDX-License-Identifier: Apache-2.0 */
/* The part of `allot ps` about processes that use a device and are not limited. */
#ifndef ALLOT_CLI_PS_PS_OUTSIDE_H
#define ALLOT_CLI_PS_PS_OUTSIDE_H

#include <stdio.h>

#include "node/outsiders.h"

struct ps_outside {
	struct usage_list usage;
	size_t n;
	struct outsider_found *found;
};

/* Reads the drivers' lists, empty without a driver. To be called before the tenants are read. */
void ps_outside_look(struct ps_outside *ret);

/* Finds the listed processes that are in none of the tenants. 0 or -ENOMEM. */
int ps_outside_compare(struct ps_outside *outside, const struct tenants *tenants);
void ps_outside_free(struct ps_outside *outside);

/* A table, or nothing. 0 or -ENOMEM. */
int ps_outside_print(const struct ps_outside *outside, const char *runtime, FILE *out);

#endif
