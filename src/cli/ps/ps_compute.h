/* SPDX-License-Identifier: Apache-2.0 */
/* The part of `allot ps` that is about compute. */
#ifndef ALLOT_CLI_PS_PS_COMPUTE_H
#define ALLOT_CLI_PS_PS_COMPUTE_H

#include <stdio.h>

#include "node/tenants.h"

/* A table of the tenants that share compute, after an empty line; nothing where none does. */
int ps_compute(const struct tenants *tenants, FILE *out);

/* Says where a share cannot be exact, since the tenant's work comes in pieces that are too long. */
void ps_compute_notes(const struct tenant_entry *tenant);

/* Says so if the latency that was asked cannot be kept, and what can; nothing if nobody arbitrates. */
void ps_compute_note_latency(const char *name, const struct snapshot *snapshot);

#endif
