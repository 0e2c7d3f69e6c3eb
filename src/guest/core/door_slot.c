/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/core/door_slot.h"

#include <dlfcn.h>
#include <stdbool.h>
#include <stddef.h>

static bool door_is_left(void *real)
{
	Dl_info info;

	return !real || !dladdr(real, &info);
}

int door_slot(_Atomic(void *) *slots, int n, void *real)
{
	for (int i = 0; i < n; i++)
		if (atomic_load(&slots[i]) == real)
			return i;
	for (int i = 0; i < n; i++) {
		void *is = atomic_load(&slots[i]);

		/* Another thread may have come with the same address meanwhile. */
		if ((door_is_left(is) && atomic_compare_exchange_strong(&slots[i], &is, real)) || is == real)
			return i;
	}
	return -1;
}
