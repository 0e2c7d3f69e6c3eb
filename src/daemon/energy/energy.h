/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The energy that NVIDIA's devices took for each tenant, which is written into its ledger
 * (device_time_add_energy). Each second the driver is asked for the power of each device that a living
 * tenant uses, some 5 ms of a processor, and the ledgers for which part of it each tenant had (split.h).
 */
#ifndef ALLOT_DAEMON_ENERGY_ENERGY_H
#define ALLOT_DAEMON_ENERGY_ENERGY_H

struct energy;

/* -errno. It lives as long as the process. */
int energy_open(const char *runtime, struct energy **ret);

/* This allotd decides about turns by now: it, and no other one, measures. Any thread. All take NULL. */
void energy_begin(struct energy *energy);

/* Each second, in the thread that asks the drivers, which may block. */
void energy_step(struct energy *energy);
/* The same thread's: the driver is closed, so that it lists its devices anew. */
void energy_close_driver(struct energy *energy);

/*
 * Gives the tenants what they had until now, once and for all. Any thread; a driver that blocks a step is
 * waited for no longer than 1 s.
 */
void energy_end(struct energy *energy);

#endif
