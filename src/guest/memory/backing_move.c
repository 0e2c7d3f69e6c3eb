/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/memory/backing.h"

#include <sched.h>

#include "guest/memory/backing_priv.h"
#include "guest/memory/physical.h"

static struct piece *backing_piece_at(struct guest *guest, struct guest_device *device,
				      CUdeviceptr at)
{
	struct backing *backing = backing_of(guest, device);

	return &backing->piece[pieces_page(backing, at)];
}

/* Whether it is the caller's to map it. A thread that maps it takes microseconds. */
static bool backing_begin_expose(struct backing *backing, struct piece *piece)
{
	bool begins = false, waits = true;

	while (waits) {
		lock_take(&backing->lock);
		waits = piece->exposing;
		begins = !waits && !piece->mapped;
		piece->exposing |= begins;
		lock_drop(&backing->lock);
		if (waits)
			sched_yield();
	}
	return begins;
}

CUresult backing_expose(struct guest *guest, struct guest_device *device, CUdeviceptr at)
{
	struct backing *backing = backing_of(guest, device);
	struct piece *piece = backing_piece_at(guest, device, at);
	CUresult e;

	if (!backing_begin_expose(backing, piece))
		return CUDA_SUCCESS;
	e = physical_map(pieces_peers(backing, device->ordinal, piece), at, piece->pages,
			 piece->handle);
	lock_take(&backing->lock);
	piece->mapped = !e;
	piece->exposing = false;
	lock_drop(&backing->lock);
	return e;
}

CUresult backing_detach(struct guest *guest, struct guest_device *device, CUdeviceptr at)
{
	struct piece *piece = backing_piece_at(guest, device, at);
	CUresult e = physical_displace(at, piece);

	if (!e)
		piece->state = PIECE_AWAY;
	return e;
}

CUresult backing_attach(struct guest *guest, struct guest_device *device, CUdeviceptr at)
{
	struct backing *backing = backing_of(guest, device);
	struct piece *piece = backing_piece_at(guest, device, at);
	CUresult e = physical_place(device, pieces_peers(backing, device->ordinal, piece), at,
				    piece, &piece->handle);

	if (!e) {
		piece->mapped = true;
		piece->state = PIECE_HERE;
	}
	return e;
}

CUresult backing_attach_import(struct guest *guest, CUdeviceptr at,
			       CUmemGenericAllocationHandle handle)
{
	struct guest_device *device = backing_device(guest, at);
	struct backing *backing = backing_of(guest, device);
	struct piece *piece = backing_piece_at(guest, device, at);
	CUresult e = physical_map(pieces_peers(backing, device->ordinal, piece), at, piece->pages,
				  handle);

	if (!e) {
		piece->handle = handle;
		piece->mapped = true;
		piece->state = PIECE_HERE;
	}
	return e;
}
