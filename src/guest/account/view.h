/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A device's memory as the tenant sees it, whichever library a program asks. There is one rule:
 *
 *	total	the quota (never more than the device)
 *	used	what the tenant's live processes hold, which is the sum of what each of them holds, be it
 *		away from the device
 *	free	the rest, as far as the device has it: what is free there, or where tenants take turns on
 *		its memory what others leave by this one's turn, as far as the host has room for that
 *
 * A quota may come to be below what is held (allot set). Then all of it is used, and processes have
 * together no more than that: a program that divides by the total finds at most 100 %.
 */
#ifndef ALLOT_GUEST_ACCOUNT_VIEW_H
#define ALLOT_GUEST_ACCOUNT_VIEW_H

#include <sys/types.h>

#include "guest/core/guest.h"

struct view {
	uint64_t total_bytes; /* 0 for a device not given to the tenant */
	uint64_t used_bytes;  /* by the tenant's live processes, never above total_bytes */
};

/*
 * For a program that asks CUDA. `total_bytes`: what the driver says the device has. By the charges
 * as they are: whoever tells what is free has had them brought in line (figure_look).
 */
void view_of_device(struct guest *guest, struct guest_device *device, uint64_t total_bytes,
		    struct view *ret);

/* By UUID, for NVML, also in a process without CUDA: asked for as guest_limit_by_uuid is. */
void view_get(struct guest *guest, const uint8_t uuid[16], unsigned int index,
	      uint64_t total_bytes, struct view *ret);

/*
 * The free bytes of a view, where the driver says `device_free` of the device. Where tenants take turns
 * on memory this asks the process that arranges them, and waits up to 5 ms for it.
 */
uint64_t view_free(struct guest *guest, const uint8_t uuid[16], const struct view *view,
		   uint64_t device_free);

struct view_process {
	pid_t pid;	     /* in the process's own PID namespace */
	pid_t driver_pid;    /* as NVML lists it */
	uint64_t used_bytes; /* its part of view.used_bytes */
	bool context;	     /* it has a context there */
};

/* The tenant's live processes that use a device: answers how many, writes at most `max`. */
int view_processes(struct guest *guest, const uint8_t uuid[16], unsigned int index,
		   struct view_process *out, int max);

#endif
