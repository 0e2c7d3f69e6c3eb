/* SPDX-License-Identifier: Apache-2.0 */
/* The part of `allot ps` that is about where the memory of swappable tenants is. */
#ifndef ALLOT_CLI_OUT_PS_SWAP_H
#define ALLOT_CLI_OUT_PS_SWAP_H

#include <stdint.h>
#include <stdio.h>

#include "node/tenants.h"

/* Bytes on all of a tenant's devices that can leave, those on the host, and threads that wait. */
struct ps_swap {
	uint64_t resident_bytes, host_bytes;
	uint64_t waiting;
	uint64_t out_ns, back_ns; /* how long it takes; 0: not known yet */
};
struct ps_swap ps_swap_of(const struct tenant_entry *tenant);

/* A table of the swappable tenants, after an empty line; nothing where none is. */
int ps_swap(const struct tenants *tenants, FILE *out);

#endif
