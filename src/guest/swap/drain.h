/* SPDX-License-Identifier: Apache-2.0 */
/* Brings a process to where nothing touches device memory: the gate is shut, no work in flight. */
#ifndef ALLOT_GUEST_SWAP_DRAIN_H
#define ALLOT_GUEST_SWAP_DRAIN_H

#include "guest/core/guest.h"
#include "guest/swap/mover.h"
#include "ledger/records.h"

/* A program has few; of those beyond, work is not waited for, so that is refused. */
#define DRAIN_CONTEXTS 64

struct drain_context {
	CUcontext context;
	struct guest_device *device;
};

/* The contexts that live. -ENOSPC: there are more. */
int drain_contexts(struct guest *guest, struct drain_context ret[static DRAIN_CONTEXTS]);

/* Waits for the work of all contexts. */
enum swap_why drain_work(struct guest *guest);

/*
 * SWAP_FINE: nobody touches device memory until the gate is opened again. Else the caller opens it,
 * if a thread of the program has not. SWAP_BUSY: the request was withdrawn meanwhile.
 */
enum swap_why drain_process(struct guest *guest, uint32_t request, const struct movers *movers);

#endif
