/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the driver itself says that this process (this tenant) holds on a device, by NVML's
 * per-process figure, and bringing the ledger in line with it. Contexts and loaded code have no
 * size that anybody tells beforehand, so theirs is what is left of that figure when everything
 * that was charged by size is taken off.
 *
 * NVML is opened when its answer is first needed, not at start: it costs about 15 ms. Where that is
 * to be expected a thread of its own opens it meanwhile (own_nvml.h). The figure itself costs about
 * 11 us and is immediate.
 */
#ifndef ALLOT_GUEST_MEMORY_TRUTH_H
#define ALLOT_GUEST_MEMORY_TRUTH_H

#include <stdbool.h>
#include <stdint.h>

#include "guest/core/guest.h"

/* Charged for a context until the driver was asked (an H200 takes 518 MiB). */
#define TRUTH_CONTEXT_BYTES (UINT64_C(512) << 20)

/* This process's first context on a device is there: nothing was hidden before. */
void truth_begin(struct guest_device *device);

/*
 * Before the driver makes a context there: has NVML opened meanwhile if the limit is so near that
 * the context, or its code, will be looked at as soon as it is there. Waits for nothing.
 */
void truth_expect(struct guest *guest, struct guest_device *device);

/*
 * The same before the driver's cuInit, for a process that is not the tenant's only one: what the
 * others hold is looked at before its first context is admitted. Once in a process, and nobody
 * claims the slot meanwhile, which maps the ledger anew.
 */
void truth_expect_any(struct guest *guest);

/*
 * Is it time to look? Often when `used`, what the tenant uses with what is asked for, is close to
 * the limit, so that what the driver took for itself matters; else once a second, from when NVML is
 * open. Cheap while the answer is no.
 */
bool truth_due(struct guest *guest, struct guest_device *device, uint64_t used, uint64_t limit);

/* The same with what the tenant uses now. */
bool truth_due_now(struct guest *guest, struct guest_device *device);

/*
 * Sets the context and module categories from the driver's figure, and learns what the tenant's
 * other processes hold beyond what they have charged (peers_bytes). False, and the guesses stand,
 * where the driver does not tell (a container whose processes NVML knows by other pids) or other
 * threads were in the way all the time.
 */
bool truth_reconcile(struct guest *guest, struct guest_device *device);

/* The same, unless that was done a moment ago: before a program is told a figure. */
void truth_look(struct guest *guest, struct guest_device *device);

/*
 * A killed process leaves its slot when its memory map goes, which may be tens of milliseconds
 * before the driver has taken back what it held: its threads end in no order. Its bytes are not
 * given to others until the driver lists it no more; waits for that, at most about a second.
 */
void truth_await_dead(struct guest *guest, struct guest_device *device);

/* The driver's figure summed over the tenant's live processes; -errno where it does not tell. */
int truth_tenant(struct guest *guest, const uint8_t uuid[16], int ledger_device,
		 uint64_t *ret_bytes);

/*
 * NVML's utilisation by the tenant's live processes in its last two samples, in percent, as coarse
 * as it is; the device's where NVML knows them by other pids. -errno where the driver does not tell.
 */
int truth_utilisation(struct guest *guest, const uint8_t uuid[16], int ledger_device);

/* What counts as the tenant's use in the accounting mode that the policy asks for. */
uint64_t truth_tenant_used(struct guest *guest, const uint8_t uuid[16], int ledger_device);

#endif
