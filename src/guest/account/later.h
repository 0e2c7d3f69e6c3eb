/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Looks at the driver's figure some time after a program has given memory back.
 *
 * The figure may still have what was freed when it is first looked at. What exceeds the charges by
 * size is then taken for code, and stays charged until the next look; a program that has nothing
 * more to do takes none. So a thread of ours looks again, less and less often, until one look was a
 * second after the last bytes went. It is there only near the limit, or where the program asked for
 * a figure, since elsewhere nobody looks; and not where nothing was charged so.
 *
 *	program's thread    frees ── looks: 114 MiB too much ── idle
 *	ours                             10 ms ── looks ── 20 ms ── looks ── ... ── ends
 *
 * Far from the limit a context is charged by a guess, and nobody waits for NVML. For other processes
 * of the tenant that is near: so the same thread looks a second later, and once more if that told
 * nothing.
 */
#ifndef ALLOT_GUEST_ACCOUNT_LATER_H
#define ALLOT_GUEST_ACCOUNT_LATER_H

#include <stdbool.h>

#include "guest/core/guest.h"

/*
 * From then on the figure is believed. On an H200 it was right 100 ms after the program had ended
 * its work, and not yet after 20 ms.
 */
#define LATER_NS UINT64_C(1000000000)

typedef bool later_look_fn(struct guest *guest, struct guest_device *device);

/* The device's memory was given back just now. */
void later_released(struct guest_device *device);

/* After a look at the device: has `again` called, if the figure may not have settled yet. */
void later_begin(struct guest *guest, struct guest_device *device, later_look_fn *again);

/* True if a context of this process is charged by a guess, on any device. */
bool later_is_guessed(struct guest *guest);

/* A context is charged by a guess: has `again` called some time after. */
void later_begin_guess(struct guest *guest, later_look_fn *again);

#endif
