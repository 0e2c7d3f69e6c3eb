/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The monitor thread: the one thread of ours, in processes whose compute is limited or shared, from
 * their first metered launch on. It collects what the program's own threads leave behind when they
 * stop launching, ends stalls, steers controllers that want to be steered, and may hold the role of
 * the arbiter (arbiter_host.h). It sleeps while there is nothing to do. All signals are blocked in
 * it, and it does not touch the driver once the process exits.
 */
#ifndef ALLOT_GUEST_LAUNCH_MONITOR_H
#define ALLOT_GUEST_LAUNCH_MONITOR_H

#include "guest/launch/state.h"

/* There is work in flight: starts the monitor, or wakes it. */
void monitor_work(struct guest *guest);

#endif
