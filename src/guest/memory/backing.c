/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/memory/backing.h"

#include "guest/memory/backing_priv.h"
#include "guest/memory/physical.h"

struct backing *backing_make(struct guest *guest, struct guest_device *device)
{
	uint32_t granules =
		(uint32_t)(round_up(device->total_bytes, GRANULE_BYTES) / GRANULE_BYTES);
	struct backing *made = backing_of(guest, device), *expected = NULL;

	if (made)
		return made;
	made = pieces_map(granules);
	if (!made)
		return NULL;
	made->peers = made->ever = UINT64_C(1) << device->ordinal;
	made->types = physical_types(device);
	if (DRIVER(cuMemAddressReserve, (&made->base, made->pages * GRANULE_BYTES, 0, 0, 0))) {
		pieces_unmap(made);
		return NULL;
	}
	if (atomic_compare_exchange_strong(&guest->backing[device->ordinal], &expected, made))
		return made;
	DRIVER(cuMemAddressFree, (made->base, made->pages * GRANULE_BYTES));
	pieces_unmap(made);
	return expected;
}

/* What a piece is to be a pool's by; all zero: it is none's. */
struct pooled {
	void *owner;
	uint64_t peers;
};

/* With the lock: a piece that moves, the spare one where that will do; its first page. */
static uint32_t backing_take_piece(struct backing *backing, uint32_t pages, struct pooled pooled)
{
	uint32_t page = pooled.owner ? UINT32_MAX : pieces_take_fit(backing, pages);

	if (page != UINT32_MAX)
		return page;
	page = pieces_take(backing, pages);
	if (page != UINT32_MAX) {
		backing->piece[page].owner = pooled.owner;
		backing->piece[page].peers = pooled.peers;
	}
	return page;
}

/* Has it have physical memory, which these peers reach, and nobody else who once might. */
static CUresult backing_place_piece(const struct guest_device *device, struct backing *backing,
				    uint32_t page, uint64_t peers)
{
	struct piece *piece = &backing->piece[page];
	uint64_t ever = piece->owner ? 0 : atomic_load(&backing->ever);
	CUdeviceptr at = pieces_address(backing, page);
	CUresult e;

	if (piece->mapped)
		return ever == UINT64_C(1) << device->ordinal
			       ? CUDA_SUCCESS
			       : physical_reach(peers, ever & ~peers, at, piece->pages);
	e = physical_place(device, peers, at, piece, &piece->handle);
	piece->mapped = !e;
	return e;
}

/* Makes a piece, which is nobody's yet. Its first page. */
static CUresult backing_make_piece(struct guest *guest, const struct guest_device *device,
				   struct backing *backing, uint32_t pages, struct pooled pooled,
				   uint32_t *ret, struct spare_piece *spare)
{
	struct piece *piece;
	uint64_t peers;
	uint32_t page;
	CUresult e;

	if (spare && spare->bytes) {
		page = pieces_page(backing, spare->at);
	} else {
		lock_take(&backing->lock);
		page = backing_take_piece(backing, pages, pooled);
		lock_drop(&backing->lock);
	}
	if (page == UINT32_MAX)
		return CUDA_ERROR_OUT_OF_MEMORY;
	piece = &backing->piece[page];
	if (piece->mapped)
		*spare = pieces_spare_piece(backing, page);
	do {
		peers = pieces_peers(backing, device->ordinal, piece);
		e = backing_place_piece(device, backing, page, peers);
	} while (!e && pieces_peers(backing, device->ordinal, piece) != peers);
	if (e && piece->mapped) {
		backing_end_piece(guest, backing, page);
	} else if (e) {
		lock_take(&backing->lock);
		pieces_give(backing, page);
		lock_drop(&backing->lock);
	}
	*ret = page;
	return e;
}

static CUresult backing_alloc_large(struct guest *guest, const struct guest_device *device,
				    struct backing *backing, uint64_t bytes, struct pooled pooled,
				    CUdeviceptr *ret, struct spare_piece *spare)
{
	uint64_t pages = round_up(bytes, GRANULE_BYTES) / GRANULE_BYTES;
	uint32_t page;
	CUresult e;

	if (pages > backing->pages)
		return CUDA_ERROR_OUT_OF_MEMORY;
	e = backing_make_piece(guest, device, backing, (uint32_t)pages, pooled, &page, spare);
	if (e)
		return e;
	lock_take(&backing->lock);
	backing->piece[page].state = PIECE_HERE;
	lock_drop(&backing->lock);
	*ret = pieces_address(backing, page);
	return CUDA_SUCCESS;
}

static bool backing_alloc_cut(struct backing *backing, uint64_t bytes, CUdeviceptr *ret)
{
	bool found;

	lock_take(&backing->lock);
	found = pieces_cut(backing, bytes, ret);
	lock_drop(&backing->lock);
	return found;
}

static CUresult backing_alloc_small(struct guest *guest, const struct guest_device *device,
				    struct backing *backing, uint64_t bytes, CUdeviceptr *ret,
				    struct spare_piece *spare)
{
	uint32_t page;
	CUresult e;
	bool done;

	if (backing_alloc_cut(backing, bytes, ret))
		return CUDA_SUCCESS;
	e = backing_make_piece(guest, device, backing, 1, (struct pooled){0}, &page, spare);
	if (e)
		return e;
	lock_take(&backing->lock);
	done = pieces_link(backing, page) && pieces_cut(backing, bytes, ret);
	lock_drop(&backing->lock);
	if (done)
		return CUDA_SUCCESS;
	backing_end_piece(guest, backing, page);
	return CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult backing_alloc(struct guest *guest, struct guest_device *device, uint64_t bytes,
		       CUdeviceptr *ret, struct spare_piece *spare)
{
	struct backing *backing;

	if (!bytes)
		return CUDA_ERROR_INVALID_VALUE;
	backing = backing_make(guest, device);
	if (!backing)
		return CUDA_ERROR_OUT_OF_MEMORY;
	return bytes > SMALL_BYTES
		       ? backing_alloc_large(guest, device, backing, bytes, (struct pooled){0}, ret,
					     spare)
		       : backing_alloc_small(guest, device, backing, bytes, ret, spare);
}

CUresult backing_alloc_for(struct guest *guest, struct guest_device *device, uint64_t bytes,
			   uint64_t peers, void *owner, CUdeviceptr *ret)
{
	struct backing *backing = backing_make(guest, device);

	return backing ? backing_alloc_large(guest, device, backing, bytes,
					     (struct pooled){owner, peers}, ret, NULL)
		       : CUDA_ERROR_OUT_OF_MEMORY;
}
