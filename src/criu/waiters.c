/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
#include "criu/waiters.h"

#include <errno.h>
#include <unistd.h>

#include "criu/abi.h"

/* Both sides store, then load what the other stores: sequentially consistent, or both may miss. */

void waiter_register(struct waiter *waiter)
{
	atomic_store(&waiter->pid, getpid());
}

void waiter_done(struct waiter *waiter)
{
	atomic_store(&waiter->pid, 0);
}

void waiter_wake(struct waiter *waiter)
{
	int32_t pid = atomic_load(&waiter->pid);

/* If CRIU does not call again, nobody sleeps. The other condition is for a test of this case. */
#if ALLOT_CRIU_HOOKS >= 15 && !defined(ALLOT_CRIU_WITHOUT_WAKING)
	if (pid)
		set_fds_event(pid);
#endif
	(void)pid;
}

int published_put(struct published *published, int fd)
{
	int store = fdstore_add(fd);

	if (store < 0)
		return -ENOSPC;
	atomic_store(&published->store_plus_one, store + 1);
	return 0;
}

bool published_is(const struct published *published)
{
	return atomic_load(&published->store_plus_one);
}

int published_get(struct published *published)
{
	int32_t store = atomic_load(&published->store_plus_one);
	int fd = store ? fdstore_get(store - 1) : -1;

	if (!store)
		return -EAGAIN;
	return fd < 0 ? -EIO : fd;
}
