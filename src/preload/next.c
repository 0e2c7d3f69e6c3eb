/* SPDX-License-Identifier: Apache-2.0 */
#include "preload/next.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "preload/lookup.h"

/* Threads that come here at the same time find, and store, the same. */
static struct next next;
static atomic_bool found;

static void find(void)
{
	struct lookup_libc libc = lookup_libc();
	int saved = errno;

#define LIBC_HOOK(name, type, params)                                                              \
	__atomic_store_n(&next.name, (__typeof__(next.name))libc.dlsym(RTLD_NEXT, #name),          \
			 __ATOMIC_RELAXED);
#include "preload/libc_api.def"
	errno = saved;
	atomic_store_explicit(&found, true, memory_order_release);
}

const struct next *next_libc(void)
{
	if (__builtin_expect(!atomic_load_explicit(&found, memory_order_acquire), 0))
		find();
	return &next;
}
