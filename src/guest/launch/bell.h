/* SPDX-License-Identifier: Apache-2.0 */
/* Wakes the monitor thread of this process, and the arbiter, in any process. */
#ifndef ALLOT_GUEST_LAUNCH_BELL_H
#define ALLOT_GUEST_LAUNCH_BELL_H

#include "guest/launch/state.h"

/* The monitor is to look now: as such, and also where it holds the arbiter's role. */
void bell_wake(struct monitor *monitor);
void bell_look(struct guest *guest);

/* There is something for it to do then, which it learns when it looks: wakes it if it would not. */
void bell_expect(struct guest *guest, uint64_t at_ns);

/* The tenant begins to want a device, or ends to: tells the arbiter, wherever it is. */
void bell_ring(struct guest *guest);

#endif
