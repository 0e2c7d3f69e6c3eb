/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A device's energy by tenant. The driver tells the power of the whole device, every 20 ms; the bills of
 * the tenants tell for which part of that time it worked for each. The power of a tenant's work is learnt
 * from both, and a tenant's energy is that power times the time that it was billed:
 *
 *	a sample's power - power at rest = sum over tenants (part of the sample * watts of the tenant)
 *
 * That is solved by least squares over the last half minute. So tenants that work one after the other
 * have each its own power, however long their turns are, and those that always work at once have one
 * in common. The rest is the device's own: power at rest, and programs that nobody measures. Pure: the caller gives samples and bills. docs/design/energy.md has the rest.
 */
#ifndef ALLOT_DAEMON_ENERGY_SPLIT_H
#define ALLOT_DAEMON_ENERGY_SPLIT_H

#include <stdbool.h>
#include <stdint.h>

#define SPLIT_TENANTS 64

/* A device. Zeroed: nothing is known of it. */
struct split {
	double rest_watts;   /* 0: not known, so what works has it, too */
	unsigned int rested; /* samples without work, one behind the other */
	unsigned int below;  /* samples below that, likewise */
	uint64_t energy_uj, given_uj; /* of the device, and of that the tenants' */
	double together_square, together_drawn; /* sums as below, as if all were one tenant */
	struct split_tenant {
		bool taken;
		double watts; /* while it works, beyond the device's at rest */
		double seen;  /* samples in which it worked, each as far as it did */
		/* Sums over samples, of which older ones count less: part * watts; part * another's part. */
		double drawn, with[SPLIT_TENANTS];
	} tenant[SPLIT_TENANTS];
};

/* A new tenant of the device: its number, or -ENOSPC. */
int split_enter(struct split *split);
void split_leave(struct split *split, int tenant);

/*
 * Learns from a sample of the device's power, with the part of it in which the device worked for each
 * tenant: for 5 of 20 ms, 0.25. It is 0 of numbers that no tenant has.
 */
void split_learn(struct split *split, double watts, const double part[static SPLIT_TENANTS]);

/* The device took that much more. */
void split_took(struct split *split, uint64_t uj);

/*
 * Returns the energy of a tenant that was billed for that time, less what it was given of that before. All
 * tenants together are given no more than the device took.
 */
uint64_t split_give(struct split *split, int tenant, uint64_t busy_ns, uint64_t before_uj);

#endif
