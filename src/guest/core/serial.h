/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What threads of the process do one after the other, with calls of the driver in it. It is no lock:
 * a thread that does not come back is not waited for much longer than such a call takes.
 */
#ifndef ALLOT_GUEST_CORE_SERIAL_H
#define ALLOT_GUEST_CORE_SERIAL_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#include "base/now.h"

#define SERIAL_NAP_NS  200000
#define SERIAL_WAIT_NS UINT64_C(10000000000)

/* Zeroed: it is nobody's. */
struct serial {
	_Atomic uint32_t taken;
};

/* False: it is another thread's. */
static inline bool serial_try(struct serial *serial)
{
	uint32_t nobody = 0;

	return atomic_compare_exchange_strong(&serial->taken, &nobody, 1);
}

static inline void serial_begin(struct serial *serial)
{
	uint64_t until = now_monotonic_ns() + SERIAL_WAIT_NS;

	while (!serial_try(serial) && now_monotonic_ns() < until)
		nanosleep(&(struct timespec){.tv_nsec = SERIAL_NAP_NS}, NULL);
}

static inline void serial_end(struct serial *serial)
{
	atomic_store(&serial->taken, 0);
}

#endif
