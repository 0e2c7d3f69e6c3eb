/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/account/calls.h"

#include "base/now.h"
#include "guest/account/state.h"

_Thread_local unsigned int calls_depth __attribute__((tls_model("initial-exec")));
_Thread_local uint64_t calls_step __attribute__((tls_model("initial-exec"))) = CALLS_ONE_MORE;
_Thread_local const struct guest_device *calls_alone __attribute__((tls_model("initial-exec")));

/*
 * A call of the driver that takes longer waits for work on the device, or compiles: it is not worth
 * stopping a program for. What it made may then be charged though it is gone, but for linear
 * memory, which memory_record asks about.
 */
#define WAIT_NS UINT64_C(1000000000)
#define NAP_NS	20000

/*
 * Counted again after the wait, so that who goes alone does not wait for us meanwhile. It is
 * another call then: a look that began in the wait has not seen it, and has to. The next one that
 * wants to go alone does not begin before those who waited have gone on.
 */
void calls_await(struct guest_device *device)
{
	uint64_t until = now_monotonic_ns() + WAIT_NS;

	atomic_fetch_add(&device->account->awaiting, 1);
	do {
		atomic_fetch_sub(&device->account->calls, 1);
		while (atomic_load(&device->account->alone) && now_monotonic_ns() < until)
			nap_ns(NAP_NS);
		atomic_fetch_add(&device->account->calls, calls_step);
	} while (atomic_load(&device->account->alone) && now_monotonic_ns() < until);
	atomic_fetch_sub(&device->account->awaiting, 1);
}

static bool calls_take_turn(struct guest_device *device)
{
	uint32_t nobody = 0;

	return !atomic_load(&device->account->awaiting) &&
	       atomic_compare_exchange_strong(&device->account->alone, &nobody, 1);
}

/* It is a call itself, which others' looks at the driver's figure have to see. */
void calls_begin_alone(struct guest_device *device)
{
	uint64_t until = now_monotonic_ns() + WAIT_NS;

	while (!calls_take_turn(device) && now_monotonic_ns() < until)
		nap_ns(NAP_NS);
	calls_depth++;
	calls_alone = device;
	atomic_fetch_add(&device->account->calls, CALLS_ONE_MORE);
	while (calls_under_way(atomic_load(&device->account->calls)) > 1 && now_monotonic_ns() < until)
		nap_ns(NAP_NS);
}

/* After a wait that was too long another thread may go alone beside us: both end it. */
void calls_end_alone(struct guest_device *device)
{
	calls_end(device);
	calls_alone = NULL;
	atomic_store(&device->account->alone, 0);
}
