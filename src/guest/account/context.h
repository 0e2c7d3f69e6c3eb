/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The size of contexts on a device. The driver does not tell it beforehand, so it is measured, and
 * until it was, a bound is reserved:
 *
 *	measured   the figure's rest, when this process has contexts and no code (figure.c)
 *	bound      what all of this process's contexts and code take; CONTEXT_BOUND without any
 *
 * On an H200 every context takes 518 MiB, whichever kind it is of and however many there are, and
 * 516 under MPS. The code of libraries comes on top where CUDA loads it eagerly
 * (bench/results/h200-contexts-2026-11-28.txt).
 */
#ifndef ALLOT_GUEST_ACCOUNT_CONTEXT_H
#define ALLOT_GUEST_ACCOUNT_CONTEXT_H

#include <stdbool.h>
#include <stdint.h>

#include "guest/core/guest.h"

/* Most that a context is taken to need where none was measured: twice what an H200's takes. */
#define CONTEXT_BOUND (UINT64_C(1) << 30)

/*
 * The charge for a context where the driver's figure for this process cannot be had at all (a
 * container whose processes nobody has told apart): its size on an H200.
 */
#define CONTEXT_UNSEEN_BYTES (UINT64_C(520) << 20)

/* Most that a green context takes beside the primary one: 4 to 6 MiB on an H200. */
#define CONTEXT_GREEN_BYTES (UINT64_C(8) << 20)

/* Bytes of a context on the device, as measured by this process or one before it; 0: unknown. */
uint64_t context_size(struct guest *guest, struct guest_device *device);

/* Is code loaded at once, rather than when it is first used? */
bool context_is_eager(struct guest *guest);

/* Most that one more context may take, code that it is loaded with included. */
uint64_t context_bound(struct guest *guest, struct guest_device *device);

/*
 * A look at the driver's figure found `rest` bytes that are contexts and code. `pure`: there is no
 * code among them, and nothing that the driver may still be taking back.
 */
void context_measure(struct guest *guest, struct guest_device *device, uint64_t rest, bool pure);

/*
 * The context that what is allocated now ends with: the current one, or the primary one in place of
 * a green one, since memory of a green context outlives it.
 */
CUcontext context_of_memory(struct guest *guest);

#endif
