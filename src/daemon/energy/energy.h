/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The energy that NVIDIA's devices took for each tenant, which is written into its ledger
 * (device_time_add_energy). A thread of its own: each second it asks the driver for the power of each
 * device of which a living tenant has memory, some 5 ms of a processor, and the ledgers for which part of it each
 * tenant had (split.h).
 */
#ifndef ALLOT_DAEMON_ENERGY_ENERGY_H
#define ALLOT_DAEMON_ENERGY_ENERGY_H

#include <stdint.h>

struct energy;

/* -errno. The path stays the caller's. */
int energy_start(const char *runtime, struct energy **ret);
/* Gives the tenants what they had until now. Takes NULL. */
void energy_end(struct energy *energy);

#endif
