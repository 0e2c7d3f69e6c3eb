/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/memory/backing.h"

#include "guest/memory/backing_priv.h"
#include "guest/memory/physical.h"

struct guest_device *backing_device(struct guest *guest, CUdeviceptr at)
{
	for (int i = 0; i < guest->ndevices; i++) {
		const struct backing *backing = backing_of(guest, &guest->device[i]);

		if (backing && at - backing->base < backing->pages * GRANULE_BYTES)
			return &guest->device[i];
	}
	return NULL;
}

CUdeviceptr backing_start(struct guest *guest, CUdeviceptr at)
{
	struct guest_device *device = backing_device(guest, at);
	struct backing *backing;
	CUdeviceptr start = 0;
	uint32_t page;
	int unit;

	if (!device)
		return 0;
	backing = backing_of(guest, device);
	lock_take(&backing->lock);
	page = backing->first[pieces_page(backing, at)];
	if (page && backing->piece[page - 1].state != PIECE_MOVING) {
		const struct piece *piece = &backing->piece[page - 1];

		start = pieces_address(backing, page - 1);
		if (piece->cut) {
			unit = cut_first(&backing->cut[piece->cut - 1],
					 (uint32_t)((at - start) / CUT_UNIT));
			start = unit < 0 ? 0 : start + (uint64_t)unit * CUT_UNIT;
		}
	}
	lock_drop(&backing->lock);
	return start;
}

/* With the lock. */
static struct backing_piece backing_say(const struct backing *backing, uint32_t page)
{
	const struct piece *piece = &backing->piece[page];

	return (struct backing_piece){pieces_address(backing, page), piece->pages * GRANULE_BYTES,
				      piece->state == PIECE_HERE, piece->imported, piece->owner};
}

bool backing_find(struct guest *guest, CUdeviceptr at, struct backing_piece *ret)
{
	struct guest_device *device = backing_device(guest, at);
	struct backing *backing;
	uint32_t page;
	bool found;

	if (!device)
		return false;
	backing = backing_of(guest, device);
	lock_take(&backing->lock);
	page = backing->first[pieces_page(backing, at)] - 1;
	found = page != UINT32_MAX && backing->piece[page].state != PIECE_MOVING;
	if (found)
		*ret = backing_say(backing, page);
	lock_drop(&backing->lock);
	return found;
}

void *backing_owner(struct guest *guest, CUdeviceptr at)
{
	struct guest_device *device = backing_device(guest, at);
	struct backing *backing = device ? backing_of(guest, device) : NULL;
	const struct piece *piece;
	void *owner;

	if (!backing)
		return NULL;
	lock_take(&backing->lock);
	piece = pieces_find(backing, at);
	owner = piece ? piece->owner : NULL;
	lock_drop(&backing->lock);
	return owner;
}

void backing_disown(struct guest *guest, CUdeviceptr at)
{
	struct backing *backing = backing_of(guest, backing_device(guest, at));

	lock_take(&backing->lock);
	pieces_find(backing, at)->owner = NULL;
	lock_drop(&backing->lock);
}

void backing_mark(struct guest *guest, CUdeviceptr at)
{
	struct guest_device *device = backing_device(guest, at);
	struct backing *backing = device ? backing_of(guest, device) : NULL;
	struct piece *piece;

	if (!backing)
		return;
	lock_take(&backing->lock);
	piece = pieces_find(backing, at);
	if (piece)
		piece->marked = true;
	lock_drop(&backing->lock);
}

/* A piece that ends meanwhile does not mind. */
CUresult backing_set_peers(struct guest *guest, CUdeviceptr at, uint64_t peers)
{
	struct backing *backing = backing_of(guest, backing_device(guest, at));
	uint64_t less = 0;
	uint32_t pages = 0;
	struct piece *piece;

	lock_take(&backing->lock);
	piece = pieces_find(backing, at);
	if (piece && piece->owner) {
		less = piece->peers & ~peers;
		pages = piece->pages;
		piece->peers = peers;
	}
	lock_drop(&backing->lock);
	return pages ? physical_reach(peers, less, at, pages) : CUDA_SUCCESS;
}

bool backing_next(struct guest *guest, struct guest_device *device, CUdeviceptr from,
		  struct backing_piece *ret)
{
	struct backing *backing = backing_of(guest, device);
	uint64_t above = backing && from > backing->base ? from - backing->base : 0;
	uint32_t page = UINT32_MAX;

	if (!backing || above >= backing->pages * GRANULE_BYTES)
		return false;
	lock_take(&backing->lock);
	page = pieces_find_from(backing,
				(uint32_t)(round_up(above, GRANULE_BYTES) / GRANULE_BYTES));
	if (page != UINT32_MAX)
		*ret = backing_say(backing, page);
	lock_drop(&backing->lock);
	return page != UINT32_MAX;
}

CUresult backing_share(struct guest *guest, struct guest_device *device, CUdevice peer, bool may)
{
	struct backing *backing = backing_make(guest, device);
	struct backing_piece piece;
	CUdeviceptr from = 0;
	uint64_t bit = UINT64_C(1) << peer;

	if (!backing)
		return CUDA_ERROR_OUT_OF_MEMORY;
	if (may) {
		atomic_fetch_or(&backing->ever, bit);
		atomic_fetch_or(&backing->peers, bit);
	} else {
		atomic_fetch_and(&backing->peers, ~bit);
	}
	/* backing_make_piece looks at the peers again; a piece that ends meanwhile does not mind.
	 */
	while (backing_next(guest, device, from, &piece)) {
		if (!piece.owner)
			physical_reach(may ? bit : 0, may ? 0 : bit, piece.at,
				       (uint32_t)(piece.bytes / GRANULE_BYTES));
		from = piece.at + piece.bytes;
	}
	return CUDA_SUCCESS;
}
