/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Serializes work of the process's threads that contains driver calls. It is no lock: a waiting
 * thread goes on after SERIAL_WAIT_NS, even if the thread before it has not returned.
 */
#ifndef ALLOT_GUEST_PROCESS_SERIAL_H
#define ALLOT_GUEST_PROCESS_SERIAL_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/now.h"

#define SERIAL_NAP_NS  200000
#define SERIAL_WAIT_NS UINT64_C(10000000000)

/* Zeroed: it is nobody's. */
struct serial {
	_Atomic uint32_t taken;
};

/* Returns false if another thread has it. */
static inline bool serial_try(struct serial *serial)
{
	uint32_t nobody = 0;

	return atomic_compare_exchange_strong(&serial->taken, &nobody, 1);
}

static inline void serial_begin(struct serial *serial)
{
	uint64_t until = now_monotonic_ns() + SERIAL_WAIT_NS;

	while (!serial_try(serial) && now_monotonic_ns() < until)
		nap_ns(SERIAL_NAP_NS);
}

static inline void serial_end(struct serial *serial)
{
	atomic_store(&serial->taken, 0);
}

#endif
