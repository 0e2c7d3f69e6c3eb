/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the launch side holds in this process: made by the first launch that is metered, and what
 * each of its files keeps for a device. A device's meter is the first thing in it.
 */
#ifndef ALLOT_GUEST_LAUNCH_STATE_H
#define ALLOT_GUEST_LAUNCH_STATE_H

#include "guest/launch/credit.h"
#include "guest/launch/limits.h"
#include "guest/launch/monitor.h"
#include "guest/launch/stall.h"
#include "guest/launch/window.h"
#include "guest/meter/meter.h"

struct launch_device {
	struct meter meter;
	struct window window;
	struct stall stall;
	struct credit_terms credit;
	_Atomic uint64_t said_until_ns; /* the work_until_ns that this process last wrote */
	_Atomic uint64_t said_due_ns;	/* ... and the due_ns */
	_Atomic uint64_t burst_from_ns; /* since when it works without a wait; 0: it does not */
	_Atomic uint64_t active_ns;    /* until then it said that it launches */
	_Atomic uint64_t counted_ns;   /* when the processes that do were counted */
	_Atomic uint32_t processes;
	_Atomic bool beside; /* another device works for the tenant, see compute_beside */
	_Atomic uint64_t rung_ns;
	uint64_t monitor_ns; /* collected_ns as the monitor left it */
};

struct launch_state {
	struct limits limits;
	_Atomic(struct launch_device *) device[GUEST_DEVICES]; /* by ordinal, made when used */
	_Atomic(CUcontext) context[GUEST_DEVICES];	       /* of the last launch there */
	_Atomic uint32_t bills;	  /* raised with each, which ends all credit */
	_Atomic uint32_t waiting; /* threads that are held, and collect when they wake up */
	_Atomic bool awake;	  /* one of them is, for the beginning of the turn */
	struct monitor monitor;
};

/* NULL before the first metered launch. */
static inline struct launch_state *state_get(const struct guest *guest)
{
	return atomic_load_explicit(&guest->compute, memory_order_acquire);
}

/* By CUDA's ordinal; NULL while none was needed. */
static inline struct launch_device *state_device(const struct guest *guest, int ordinal)
{
	struct launch_state *state = state_get(guest);

	return state ? atomic_load_explicit(&state->device[ordinal], memory_order_acquire) : NULL;
}

static inline struct launch_device *launch_device_of(struct meter *meter)
{
	return (struct launch_device *)meter;
}

/*
 * The device of the current context, made if need be. CUDA_SUCCESS and NULL: there is no context,
 * or it is on no device of the tenant; CUDA_ERROR_OUT_OF_MEMORY: it cannot be metered.
 */
CUresult state_find(struct guest *guest, CUcontext *ret_context, struct launch_device **ret);

/* The same where one was made, without asking which device a context is on; else NULL. */
struct launch_device *state_of_context(struct guest *guest, CUcontext context);

/* A context may end: another device's may get its handle. */
void state_forget_context(struct guest *guest, CUcontext context);

/* How many processes of the tenant launch, this one included; counted once a millisecond. */
unsigned int state_processes(struct launch_device *device, uint64_t now_ns);

static inline bool state_has_peers(const struct launch_device *device)
{
	return atomic_load_explicit(&device->processes, memory_order_relaxed) > 1;
}

/* Says that this process launches or waits to, so that others of the tenant count it. */
void state_active(struct launch_device *device, uint64_t now_ns);

#endif
