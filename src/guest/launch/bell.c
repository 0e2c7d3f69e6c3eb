/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/launch/bell.h"

#include "base/futex.h"
#include "base/word.h"
#include "roles/arbiter_host.h"

void bell_wake(struct monitor *monitor)
{
	atomic_fetch_add(&monitor->bell, 1);
	futex_wake_all(&monitor->bell);
}

void bell_ring(struct guest *guest)
{
	struct arbiter_host *host = atomic_load(&state_get(guest)->monitor.host);

	if (host) {
		arbiter_host_ring(host);
	} else {
		word_publish_add(ledger_bell(guest->ledger), 1);
		futex_wake_all(ledger_bell(guest->ledger));
	}
}

void bell_look(struct guest *guest)
{
	bell_wake(&state_get(guest)->monitor);
	bell_ring(guest); /* it may hold the role, and then sleeps on that bell */
}

/*
 * Wakes the monitor thread unless it looks by then. If it is awake, or about to sleep, nobody can
 * know what it has seen.
 */
void bell_expect(struct guest *guest, uint64_t at_ns)
{
	uint64_t next = atomic_load(&state_get(guest)->monitor.next_ns);

	if (!next || next > at_ns)
		bell_look(guest);
}
