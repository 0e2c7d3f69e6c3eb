/* SPDX-License-Identifier: Apache-2.0 */
/* The beginning of every call on a handle: the owner's check, the lock, and the devices' names. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

#include "peer/backend.h"
#include "peer/complain.h"

struct peer_name peer_name(const struct allot_peer *peer, uint32_t device)
{
	const struct allot_peer_device *d = &peer->device[device];
	struct peer_name name;

	snprintf(name.text, sizeof(name.text), "%s%" PRIu32 " (%s)", peer->backend->name, d->id,
		 d->pci);
	return name;
}

/* How often the process and those that it comes from have forked since the first handle. */
static _Atomic uint32_t forks;

static void peer_count_fork(void)
{
	forks++;
}

static void peer_watch_forks(void)
{
	pthread_atfork(NULL, NULL, peer_count_fork);
}

/*
 * A process is the one that opened the handle if both its number and its count of forks say so. The
 * number alone is not enough: numbers are used again, in PID namespaces soon. The count alone is
 * not enough: clone() without fork() is not counted.
 */
bool peer_is_forked(const struct allot_peer *peer)
{
	return peer->forks != forks || peer->pid != getpid();
}

void peer_own(struct allot_peer *peer)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, peer_watch_forks);
	peer->pid = getpid();
	peer->forks = forks;
	pthread_mutex_init(&peer->lock, NULL);
}

int peer_lock(struct allot_peer *peer, struct allot_peer **ret_locked)
{
	if (!peer)
		return complain(-EBADF, "the handle is NULL");
	if (peer_is_forked(peer))
		return complain(-EBADF, "the handle is of the process that this one was forked "
					"from; open another here");
	pthread_mutex_lock(&peer->lock);
	*ret_locked = peer;
	return 0;
}

void peer_unlock(struct allot_peer **locked)
{
	if (*locked)
		pthread_mutex_unlock(&(*locked)->lock);
}
