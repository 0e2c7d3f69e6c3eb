/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The gate in front of work. Nothing limited, it costs one load. Otherwise a launch waits here
 * while `allot` has closed the tenant, while it is not the tenant's turn, while the tenant owes
 * device time, and while enough work is in flight for a decision to take effect soon. All devices
 * of a tenant open and close together, whichever of its processes use them, so that no rank of a
 * collective is held while another runs.
 */
#ifndef ALLOT_PRELOAD_GATE_H
#define ALLOT_PRELOAD_GATE_H

#include "base/atomic.h"
#include "preload/guest.h"
#include "preload/keeper.h"
#include "preload/meter.h"

/* What compute needs in this process: made by the first launch that is metered. */
struct gate {
	_Atomic(struct meter_device *) device[GUEST_DEVICES]; /* by ordinal, made when used */
	_Atomic(CUcontext) context[GUEST_DEVICES];	      /* of the last launch there */
	struct policy_map *map; /* drop-in use: the tenant's policy, for its turn alone */
	const struct policy_turn *turn;

	/* The policy, as of `generation`. */
	_Atomic uint64_t generation;
	_Atomic uint32_t compute, mode, controller, inflight_us, slice_us;
	/* Of each of the tenant's devices, by its index in the ledger. */
	_Atomic uint32_t share_permille[POLICY_DEVICES];
	_Atomic uint32_t ndevices;
	_Atomic uint64_t slice_ns; /* where the policy does not say; 0 before the first launch */

	_Atomic uint32_t bills;		/* raised with each: passes end, see let_pass */
	_Atomic uint32_t waiting;	/* threads that are held, and collect when they wake up */
	_Atomic bool looking;		/* one of them is awake for the beginning of the turn */

	struct keeper keeper;
};

/* Nothing is limited: the launch is none of our business. */
static inline bool gate_open(const struct guest *guest)
{
	return __builtin_expect(atomic_peek(guest->gate) == POLICY_GATE_OPEN, 1);
}

/*
 * Otherwise: before work reaches the driver; returns when it may. An error when it cannot be
 * metered: it must not go unlimited.
 */
CUresult gate_enter(struct guest *guest, struct unit *unit);

/* After it did, or failed to. */
static inline void gate_leave(struct guest *guest, struct unit *unit, CUresult e)
{
	if (unit->device && (e || !unit->quiet))
		meter_end(guest, unit, !e);
}

/* NULL before the first metered launch. */
static inline struct gate *gate_get(struct guest *guest)
{
	return atomic_load_explicit(&guest->compute, memory_order_acquire);
}

/*
 * The meter of a device, for a launch in that context of it; NULL when there is no memory for it,
 * or, second, none was needed yet.
 */
struct meter_device *gate_device(struct guest *guest, struct guest_device *device,
				 CUcontext context);
struct meter_device *gate_device_made(struct guest *guest, int ordinal);

/*
 * The same of whatever device the context is on, without asking the driver: NULL when the last
 * launch on that was in another context. A context that is about to end is said to gate_part, since
 * another device's may get its handle.
 */
struct meter_device *gate_device_of(struct guest *guest, CUcontext context);
void gate_part(struct guest *guest, CUcontext context);

/* The device worked for the tenant: the controller's account. */
void gate_bill(struct guest *guest, struct meter_device *md, uint64_t from_ns, uint64_t to_ns);

/* Another tenant wants a device of this one, so work may be late for no reason of its own. */
bool gate_contended(struct guest *guest, uint64_t now_ns);
/* Nobody does who wanted one of late, and nobody else's priority matters to this tenant. */
bool gate_alone(struct guest *guest, uint64_t now_ns);

/*
 * For the keeper of a tenant that goes before all others: it wants the device until its work has
 * begun, which nobody else can tell. True while it has not.
 */
bool gate_wishes(struct guest *guest, struct meter_device *md, uint64_t now_ns);

/*
 * Lets controllers follow utilisation: called by the keeper and by who waits, done by one of them.
 */
void gate_steer(struct guest *guest, uint64_t now_ns);

/*
 * 0 where work of the tenant may run on the device, or until when not; *ret_turn: others have their
 * turn, and it is said that the tenant wants its own.
 */
uint64_t gate_owes(struct guest *guest, struct meter_device *md, uint64_t now_ns, bool *ret_turn);

/* The controller in force, and how it is set for a device. */
const struct controller *gate_controller(struct guest *guest, struct meter_device *md,
					 struct share_params *ret_params);

/* What the arbiter says of the tenant: enum policy_turn_flags; none when it says nothing. */
uint32_t gate_turn_flags(const struct gate *gate, uint64_t now_ns);

/* Whether the tenant keeps to a part of a device, by its index in the ledger, by itself. */
bool gate_capped(const struct gate *gate, int device);

/* How long the tenant works before it pauses, about. */
uint64_t gate_slice_ns(const struct gate *gate);

/* Sleeps on a word, as futex_wait_until; the thread collects afterwards, which the keeper sees. */
void gate_nap(struct gate *gate, const void *word, uint32_t seen, uint64_t until_ns);

#endif
