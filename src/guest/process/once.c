/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/process/once.h"

#include "base/futex.h"
#include "base/now.h"

bool once_take(struct once *once)
{
	uint32_t state = ONCE_NOT_YET;

	return atomic_compare_exchange_strong(&once->state, &state, ONCE_UNDER_WAY);
}

bool once_begin(struct once *once)
{
	if (once_take(once))
		return true;
	while (atomic_load(&once->state) == ONCE_UNDER_WAY)
		futex_wait(&once->state, ONCE_UNDER_WAY);
	return false;
}

void once_end(struct once *once, int error)
{
	once->error = error;
	atomic_store(&once->state, ONCE_DONE);
	futex_wake_all(&once->state);
}

bool once_wait_until(struct once *once, uint64_t until_ns)
{
	while (atomic_load(&once->state) == ONCE_UNDER_WAY) {
		if (now_monotonic_ns() >= until_ns)
			return false;
		futex_wait_until(&once->state, ONCE_UNDER_WAY, until_ns);
	}
	return true;
}
