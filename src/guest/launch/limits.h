/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The compute limits of the tenant's policy, cached until it changes, and the accounts that follow
 * from it: the controller in force, the debt on a device, and the arbiter's word.
 */
#ifndef ALLOT_GUEST_LAUNCH_LIMITS_H
#define ALLOT_GUEST_LAUNCH_LIMITS_H

#include <stdbool.h>
#include <stdint.h>

#include "guest/core/guest.h"
#include "ledger/turn.h"
#include "sched/controller.h"

struct limits {
	const struct turn *turn;

	/* The policy, as of `generation`. */
	_Atomic uint64_t generation;
	_Atomic uint32_t compute, mode, controller, inflight_us, slice_us;
	/* Of each of the tenant's devices, by its index in the ledger. */
	_Atomic uint32_t share_permille[POLICY_DEVICES];
	_Atomic uint32_t ndevices;
	_Atomic uint64_t blocks[POLICY_DEVICES]; /* that a device holds at once; 0: not known */
	_Atomic uint64_t slice_ns; /* where the policy does not say; 0 before the first launch */
};

void limits_open(struct limits *limits, struct guest *guest);

/* Reads again what changed. */
void limits_refresh(struct limits *limits, struct guest *guest);

/* Nobody limits the tenant's compute, or the driver does. */
bool limits_none(const struct limits *limits, const struct guest *guest);

/* True if the tenant keeps to a part of a device, by its index in the ledger, by itself. */
static inline bool limits_capped(const struct limits *limits, int device)
{
	return atomic_load(&limits->compute) == POLICY_COMPUTE_CAP &&
	       atomic_load(&limits->share_permille[device]) < 1000;
}

static inline uint32_t limits_share(const struct limits *limits, int device)
{
	return atomic_load(&limits->share_permille[device]);
}

/* How long the tenant works before it pauses, about. */
uint64_t limits_slice_ns(const struct limits *limits);

/* The controller in force for a device, and how it is set. */
const struct controller *limits_controller(const struct limits *limits, int device,
					   struct share_params *ret_params);

/* The device worked for the tenant: its account. */
void limits_bill(const struct limits *limits, struct ledger *ledger, int device, uint64_t from_ns,
		 uint64_t to_ns);

/*
 * When the account of a device is settled, for a launch of `blocks` blocks; 0: it is. Devices of
 * the same share open and close together, so that no rank of a collective is held while another one
 * works: *ret_own is the same for this device alone.
 */
uint64_t limits_paid_ns(const struct limits *limits, struct ledger *ledger, int device,
			uint64_t now_ns, uint64_t blocks, uint64_t *ret_own_ns);

/* The arbiter's flags for the tenant: enum turn_flags; none if it is silent. */
uint32_t limits_turn_flags(const struct limits *limits, uint64_t now_ns);

/* How much may be in flight while a higher priority may come. */
uint64_t limits_urged_ns(const struct limits *limits);

/* The arbiter gives turns, and it is another's. */
bool limits_not_our_turn(const struct limits *limits, uint64_t now_ns);

/*
 * When the tenant's turn ended, if others have their turns on a device since, by its index in the
 * ledger; else 0.
 */
uint64_t limits_turn_ended_ns(const struct limits *limits, int device, uint64_t now_ns);

/* Another tenant wants a device of this one. */
static inline bool limits_contended(const struct limits *limits, uint64_t now_ns)
{
	return limits_turn_flags(limits, now_ns) & TURN_CONTENDED;
}

/* Nobody does who wanted one of late, and nobody else's priority matters to this tenant. */
static inline bool limits_alone(const struct limits *limits, uint64_t now_ns)
{
	return !limits_turn_flags(limits, now_ns);
}

#endif
