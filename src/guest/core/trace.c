/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/core/trace.h"

#include <errno.h>

#include "base/cancel.h"
#include "ledger/tenant.h"

/*
 * A container's processes have no directory that others see, and a user's may make no file in that
 * of a tenant by allotd: of these tenants the role holders' decisions alone are recorded.
 */
static void trace_begin(struct guest *guest)
{
	if (!guest->trace.on && !tenant_is_open_to_all(guest->dir) &&
	    !trace_open(guest->dir, &guest->trace.kept))
		guest->trace.on = true;
	if (guest->trace.on)
		atomic_store_explicit(&guest->trace.to, guest->trace.kept, memory_order_release);
}

/* The address stays: a thread may be about to write there. */
static void trace_end(struct guest *guest)
{
	atomic_store(&guest->trace.to, NULL);
	if (guest->trace.on)
		trace_park(guest->trace.kept);
	guest->trace.on = false;
}

/*
 * One thread at a time, for which nobody waits: another one looks again at its next event. A thread that
 * is cancelled in here would leave it to nobody.
 */
void trace_follow_policy(struct guest *guest)
{
	uint64_t generation = guest_generation(guest);
	struct policy policy;
	int saved = errno, cancel;

	if (atomic_exchange(&guest->trace.busy, true))
		return;
	cancel = cancel_hold();
	if (!policy_read(guest->policy_map, &policy)) {
		if (policy.trace)
			trace_begin(guest);
		else
			trace_end(guest);
		atomic_store(&guest->trace.generation, generation);
	}
	atomic_store(&guest->trace.busy, false);
	cancel_release(cancel);
	errno = saved;
}
