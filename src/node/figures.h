/* SPDX-License-Identifier: Apache-2.0 */
/* The driver's own figures of now, in place of those that the tenants' processes last noted. */
#ifndef ALLOT_NODE_FIGURES_H
#define ALLOT_NODE_FIGURES_H

#include "node/tenants.h"

/*
 * Asks NVML, or of AMD's the kernel, for each device that a live tenant uses and puts its
 * per-process figures into the snapshots, where a process can be told by its pid; also in place of the
 * guess by which a context is charged that nobody measured. Without NVML, or
 * for a process that it does not list, what was noted stands. Under accounting by the driver NVML's
 * figures are also what is used.
 */
/*
 * Returns true if NVML's figure decides what the tenant is given of a device: under accounting by the
 * driver, and not of AMD's devices, where the ledger decides in any case.
 */
bool figures_decide(const struct policy *policy, const uint8_t uuid[16]);

/* The index by which people name a device here; -1 where no driver tells. Asks once. */
int figures_index(const uint8_t uuid[16]);

void figures_apply(struct tenants *tenants);

#endif
