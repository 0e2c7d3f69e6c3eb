/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The driver's own figure: what this process (this tenant) holds on a device, which NVML tells
 * per process, and bringing the ledger in line with it. Nobody tells the size of contexts and
 * loaded code beforehand. Their charge is the rest of that figure, when everything that was charged
 * by size is taken off.
 *
 * NVML takes about 15 ms to open, so it is opened when its answer is first needed, not at start.
 * Where that is to be expected a thread of its own opens it meanwhile (own_nvml.h). The figure
 * itself takes about 11 us and is immediate.
 */
#ifndef ALLOT_GUEST_ACCOUNT_FIGURE_H
#define ALLOT_GUEST_ACCOUNT_FIGURE_H

#include <stdbool.h>
#include <stdint.h>

#include "guest/core/guest.h"

/* This process's first context on a device is there: nothing was hidden before. */
void figure_begin(struct guest_device *device);

/* Will one more context there be near the limit, so that there is a look as soon as it is made? */
bool figure_will_be_near(struct guest *guest, struct guest_device *device);

/*
 * Before the driver makes a context there: has NVML opened meanwhile, if the limit is so near that
 * there will be a look as soon as the context is made, or its code loaded. Waits for nothing.
 */
void figure_expect(struct guest *guest, struct guest_device *device);

/*
 * The same before the driver's cuInit, where other processes of the tenant live: what they hold is
 * looked at before the first context of this one is admitted. Done once in a process. No other
 * thread claims the slot meanwhile, since that maps the ledger anew.
 */
void figure_expect_any(struct guest *guest);

/*
 * Is it time to look at the driver's figure? Near the limit often, because there it matters what
 * the driver took for itself; elsewhere once a second, from when NVML is open. `used`: what the
 * tenant uses, with the bytes that are asked for. Cheap while the answer is no.
 */
bool figure_due(struct guest *guest, struct guest_device *device, uint64_t used, uint64_t limit);

/* The same with what the tenant uses now. */
bool figure_due_now(struct guest *guest, struct guest_device *device);

/*
 * Sets the context and module categories from the driver's figure, so that what this process is
 * charged is what the driver says that it holds, and heaps that were promised. Learns what the
 * tenant's other processes hold beyond what they have charged (siblings_bytes). False, and what is
 * charged may only have been raised, where the driver does not tell (a container whose processes
 * NVML knows by other pids) or other threads were in the way all the time.
 */
bool figure_reconcile(struct guest *guest, struct guest_device *device);

/*
 * The same where no thread can be in the way: it lets the calls of others come to their end, and
 * those that come meanwhile wait, at most a second. Not inside of a call.
 */
bool figure_reconcile_alone(struct guest *guest, struct guest_device *device);

/*
 * The same inside of one call of the caller's (beside one in which it goes alone) that the driver has done, whose bytes are still pending
 * or still charged: afterwards what it took or left stands with the rest of the figure.
 */
bool figure_reconcile_inside(struct guest *guest, struct guest_device *device);

/*
 * With --accounting driver, in which the ledger keeps no totals: what this process's first context
 * takes, from the figure that it has right behind it.
 */
void figure_measure_first(struct guest *guest, struct guest_device *device);

/*
 * As figure_reconcile, in a process that has no context of CUDA's on the device, and takes its memory by
 * other APIs: what their drivers take for themselves is charged as a context. False, and nothing is
 * changed, where the driver does not tell or other threads were in the way.
 */
bool figure_reconcile_others(struct guest *guest, const uint8_t uuid[16], int ledger_device);

/* As figure_reconcile, unless that was done a moment ago: before a program is told a figure. */
void figure_look(struct guest *guest, struct guest_device *device);

/*
 * Other processes of the tenant may be charged for contexts by a guess, which they look at soon
 * (later.h). Where that is in the way of `bytes`, waits for it, 2.5 s at most from the first call on,
 * which has *until 0. True: a charge is another one now.
 */
bool figure_await_guesses(struct guest *guest, struct guest_device *device, uint64_t bytes,
			  uint64_t limit, uint64_t *until);

/* Tells other processes whether a context of this one is charged by a guess (account->guessed). */
void figure_note_guess(struct guest *guest);

/*
 * Waits until the driver has taken back what dead processes of the tenant held, at most about a
 * second. A killed process leaves its slot when its memory map goes. Its threads end in no order,
 * so the driver may hold its memory for tens of milliseconds more. Until the driver lists the
 * process no more, others are not given its bytes.
 */
void figure_await_dead(struct guest *guest, struct guest_device *device);

/*
 * The driver's figure summed over the tenant's live processes; -ESRCH where it lists this one by a pid
 * that is not known here, other -errno where it does not tell.
 */
int figure_tenant(struct guest *guest, const uint8_t uuid[16], int ledger_device,
		  uint64_t *ret_bytes);

/* True if the driver lists this process there by a pid that is known here. Needs its slot. */
bool figure_lists_own(struct guest *guest, const uint8_t uuid[16], int ledger_device);

/*
 * In a container nobody but a daemon outside knows by which pid the driver lists this process, and it
 * looks once a second. Finds out (own_pid.h), or waits until it has said so, once and for no longer
 * than it may take. Whether it is known.
 */
bool figure_await_told(struct guest *guest, struct guest_device *device);

/*
 * NVML's utilisation by the tenant's live processes in its last two samples, in percent, as coarse
 * as it is; the device's where NVML knows the processes by other pids. -errno where the driver does
 * not tell.
 */
int figure_utilisation(struct guest *guest, const uint8_t uuid[16], int ledger_device);

/*
 * What each process of the tenant holds, by the accounting mode of the policy: `each` has
 * QUOTA_SLOTS words, a process's by its slot. -errno where the driver is to tell and does not; `each`
 * then has what is known.
 */
int figure_tenant_each(struct guest *guest, const uint8_t uuid[16], int ledger_device,
		       uint64_t *each);

#endif
