/* SPDX-License-Identifier: Apache-2.0 */
/* Handles: devices, and the links between them. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "peer/backend.h"
#include "peer/complain.h"

static const struct peer_backend *const backends[] = {
	[ALLOT_PEER_AMD] = &peer_amd,
	[ALLOT_PEER_NVIDIA] = &peer_nvidia,
};

int allot_peer_open(enum allot_peer_vendor vendor, struct allot_peer **ret_peer)
{
	CLEANUP_FREE struct allot_peer *peer = NULL;
	int r;

	if ((size_t)vendor >= sizeof(backends) / sizeof(backends[0]) || !ret_peer)
		return complain(-EINVAL, "open: no vendor has the number %d", (int)vendor);
	peer = calloc(1, sizeof(*peer));
	if (!peer)
		return complain(-ENOMEM, "open: out of memory");
	peer->backend = backends[vendor];
	peer_own(peer);
	r = peer->backend->open(peer);
	if (r < 0)
		return r;
	*ret_peer = TAKE_PTR(peer);
	return 0;
}

void allot_peer_close(struct allot_peer *peer)
{
	bool forked;

	if (!peer)
		return;
	forked = peer_is_forked(peer);
	peer_object_free_all(peer, forked);
	peer->backend->close(peer, forked);
	if (!forked) /* of a thread that is not here: nobody may touch it */
		pthread_mutex_destroy(&peer->lock);
	free(peer);
}

/* None of it changes while the handle is open: no lock, and a forked child may ask, too. */
uint32_t allot_peer_device_count(const struct allot_peer *peer)
{
	return peer ? peer->n : 0;
}

static int peer_check_device(const struct allot_peer *peer, uint32_t device)
{
	uint32_t n = allot_peer_device_count(peer);

	if (device < n)
		return 0;
	return complain(-EINVAL, "there is no device %" PRIu32 "; there are %" PRIu32, device, n);
}

int allot_peer_device(const struct allot_peer *peer, uint32_t device,
		      struct allot_peer_device *ret_device)
{
	int r = peer_check_device(peer, device);

	if (r == 0)
		*ret_device = peer->device[device];
	return r;
}

int allot_peer_reachable(const struct allot_peer *peer, uint32_t owner, uint64_t *ret_devices)
{
	uint64_t devices = 0;
	int r = peer_check_device(peer, owner);

	if (r < 0)
		return r;
	for (uint32_t i = 0; i < peer->n; i++)
		devices |= (peer->reach[i] >> owner & 1) << i;
	*ret_devices = devices;
	return 0;
}

int allot_peer_link(const struct allot_peer *peer, uint32_t from, uint32_t to,
		    struct allot_peer_link *ret_link)
{
	struct allot_peer_link link = {0};
	int r = peer_check_device(peer, from);

	if (r == 0)
		r = peer_check_device(peer, to);
	if (r < 0)
		return r;
	if (from == to)
		return complain(-EINVAL, "a device has no link to itself");
	if (!(peer->reach[from] >> to & 1))
		return complain(-ENOLINK, "%s has no link to %s", peer_name(peer, from).text,
				peer_name(peer, to).text);
	r = peer->backend->link(peer, from, to, &link);
	if (r == 0)
		*ret_link = link;
	return r;
}
