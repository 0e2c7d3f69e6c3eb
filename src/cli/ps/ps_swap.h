/* SPDX-License-Identifier: Apache-2.0 */
/* The part of `allot ps` that is about where the memory of swappable tenants is. */
#ifndef ALLOT_CLI_PS_PS_SWAP_H
#define ALLOT_CLI_PS_PS_SWAP_H

#include <stdio.h>

#include "node/tenants.h"

/* A table of the swappable tenants, after an empty line; nothing where none is. */
int ps_swap(const struct tenants *tenants, FILE *out);

#endif
