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

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct arbiter_host;
struct guest;

struct monitor {
	_Atomic uint32_t started; /* 0 no, 1 yes, 2 could not */
	_Atomic uint32_t bell;	  /* a futex */
	_Atomic uint32_t asleep;  /* until rung */
	_Atomic uint64_t next_ns; /* when it looks by itself; 0 while it is awake */
	_Atomic uint32_t stop;	  /* the process exits ... */
	_Atomic uint32_t working; /* ... and the monitor may be inside a call */
	_Atomic(struct arbiter_host *) host;
};

static inline bool monitor_runs(const struct monitor *monitor)
{
	return atomic_load(&monitor->started) == 1 && !atomic_load(&monitor->stop);
}

/* There is work in flight: starts the monitor, or wakes it. */
void monitor_work(struct guest *guest);

/* There is something for it to do then, which it learns when it looks: wakes it if it would not. */
void monitor_expect(struct guest *guest, uint64_t at_ns);

/* The tenant begins to want a device, or ends to: tells the arbiter, wherever it is. */
void monitor_ring(struct guest *guest);

#endif
