/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/memory/backing.h"

#include "guest/memory/backing_priv.h"
#include "guest/memory/physical.h"

/*
 * Addresses are handed out in turn, and none again before all others were: a program that uses what
 * it freed is found out. So there are several times as many as a device has memory.
 */
#define ADDRESSES 8

struct backing *backing_make(struct guest *guest, struct guest_device *device)
{
	uint32_t granules =
		(uint32_t)(round_up(device->total_bytes, GRANULE_BYTES) / GRANULE_BYTES);
	struct backing *made = backing_of(guest, device), *expected = NULL;

	if (made)
		return made;
	made = pieces_map(granules * ADDRESSES, granules);
	if (!made)
		return NULL;
	made->peers = UINT64_C(1) << device->ordinal;
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

/* Makes a piece, which is nobody's yet. Its first page. */
static CUresult backing_make_piece(const struct guest_device *device, struct backing *backing,
				   uint32_t pages, struct pooled pooled, uint32_t *ret)
{
	CUmemGenericAllocationHandle handle = 0;
	uint64_t peers;
	uint32_t page;
	CUresult e;

	lock_take(&backing->lock);
	page = pieces_take(backing, pages);
	if (page != UINT32_MAX) {
		backing->piece[page].owner = pooled.owner;
		backing->piece[page].peers = pooled.peers;
	}
	lock_drop(&backing->lock);
	if (page == UINT32_MAX)
		return CUDA_ERROR_OUT_OF_MEMORY;
	do {
		peers = pieces_peers(backing, device->ordinal, &backing->piece[page]);
		e = handle ? physical_reach(peers, 0, pieces_address(backing, page), pages)
			   : physical_place(device, peers, pieces_address(backing, page),
					    &backing->piece[page], &handle);
	} while (!e && pieces_peers(backing, device->ordinal, &backing->piece[page]) != peers);
	lock_take(&backing->lock);
	if (e) {
		pieces_give(backing, page);
	} else {
		backing->piece[page].handle = handle;
		backing->piece[page].mapped = true;
	}
	lock_drop(&backing->lock);
	*ret = page;
	return e;
}

static CUresult backing_alloc_large(const struct guest_device *device, struct backing *backing,
				    uint64_t bytes, struct pooled pooled, CUdeviceptr *ret)
{
	uint64_t pages = round_up(bytes, GRANULE_BYTES) / GRANULE_BYTES;
	uint32_t page;
	CUresult e;

	if (pages > backing->pages)
		return CUDA_ERROR_OUT_OF_MEMORY;
	e = backing_make_piece(device, backing, (uint32_t)pages, pooled, &page);
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
				    struct backing *backing, uint64_t bytes, CUdeviceptr *ret)
{
	uint32_t page;
	CUresult e;
	bool done;

	if (backing_alloc_cut(backing, bytes, ret))
		return CUDA_SUCCESS;
	e = backing_make_piece(device, backing, 1, (struct pooled){0}, &page);
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
		       CUdeviceptr *ret)
{
	struct backing *backing;

	if (!bytes)
		return CUDA_ERROR_INVALID_VALUE;
	backing = backing_make(guest, device);
	if (!backing)
		return CUDA_ERROR_OUT_OF_MEMORY;
	return bytes > SMALL_BYTES
		       ? backing_alloc_large(device, backing, bytes, (struct pooled){0}, ret)
		       : backing_alloc_small(guest, device, backing, bytes, ret);
}

CUresult backing_alloc_for(struct guest *guest, struct guest_device *device, uint64_t bytes,
			   uint64_t peers, void *owner, CUdeviceptr *ret)
{
	struct backing *backing = backing_make(guest, device);

	return backing ? backing_alloc_large(device, backing, bytes, (struct pooled){owner, peers},
					     ret)
		       : CUDA_ERROR_OUT_OF_MEMORY;
}
