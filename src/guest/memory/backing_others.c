/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/memory/backing.h"

#include "guest/memory/backing_priv.h"
#include "guest/memory/physical.h"

CUresult backing_adopt(struct guest *guest, struct guest_device *device,
		       const CUmemAllocationProp *prop, uint64_t bytes,
		       CUmemGenericAllocationHandle handle, uint64_t *ret)
{
	struct backing *backing = backing_make(guest, device);
	uint64_t pages = round_up(bytes, GRANULE_BYTES) / GRANULE_BYTES;
	uint32_t page;

	if (!backing || pages > backing->pages)
		return CUDA_ERROR_OUT_OF_MEMORY;
	lock_take(&backing->lock);
	page = pieces_take(backing, (uint32_t)pages);
	if (page != UINT32_MAX)
		backing->piece[page] = (struct piece){
			.handle = handle,
			.pages = (uint32_t)pages,
			.state = PIECE_HERE,
			.adopted = true,
			.types = prop->requestedHandleTypes,
			.compression = prop->allocFlags.compressionType,
			.rdma = prop->allocFlags.gpuDirectRDMACapable,
		};
	lock_drop(&backing->lock);
	if (page == UINT32_MAX)
		return CUDA_ERROR_OUT_OF_MEMORY;
	*ret = pieces_address(backing, page);
	return CUDA_SUCCESS;
}

/* The piece that begins at an address; NULL: none does. */
static struct piece *backing_piece(struct guest *guest, CUdeviceptr at, struct backing **ret)
{
	struct guest_device *device = backing_device(guest, at);
	struct backing *backing;
	uint32_t page;

	if (!device)
		return NULL;
	backing = backing_of(guest, device);
	page = pieces_page(backing, at);
	*ret = backing;
	return at == pieces_address(backing, page) && backing->first[page] == page + 1
		       ? &backing->piece[page]
		       : NULL;
}

/* Takes pages for what becomes a piece when it is mapped; its first page, or UINT32_MAX. */
static uint32_t backing_begin_import(struct backing *backing, uint64_t pages)
{
	uint32_t page = UINT32_MAX;

	if (pages > backing->pages)
		return page;
	lock_take(&backing->lock);
	page = pieces_take(backing, (uint32_t)pages);
	lock_drop(&backing->lock);
	return page;
}

CUresult backing_import(struct guest *guest, struct guest_device *device, uint64_t bytes,
			CUdevice user, CUmemGenericAllocationHandle handle, uint64_t *ret)
{
	struct backing *backing = backing_make(guest, device);
	uint64_t bit = UINT64_C(1) << user, peers;
	CUdeviceptr at;
	uint32_t page;
	CUresult e;

	if (!backing || !bytes)
		return CUDA_ERROR_OUT_OF_MEMORY;
	page = backing_begin_import(backing, round_up(bytes, GRANULE_BYTES) / GRANULE_BYTES);
	if (page == UINT32_MAX)
		return CUDA_ERROR_OUT_OF_MEMORY;
	at = pieces_address(backing, page);
	peers = atomic_load(&backing->peers);
	e = physical_map(peers | bit, at, backing->piece[page].pages, handle);
	lock_take(&backing->lock);
	if (e) {
		pieces_give(backing, page);
	} else {
		backing->piece[page].handle = handle;
		backing->piece[page].imported = true;
		backing->piece[page].mapped = true;
		backing->piece[page].user = (uint8_t)user;
		backing->piece[page].state = PIECE_HERE;
	}
	lock_drop(&backing->lock);
	*ret = at;
	/* Now that others find it: a peer that came meanwhile did not. */
	if (!e && atomic_load(&backing->peers) != peers)
		physical_reach(atomic_load(&backing->peers) | bit, 0, at,
			       backing->piece[page].pages);
	return e;
}

void backing_abandon(struct guest *guest, CUmemGenericAllocationHandle handle)
{
	struct backing *backing;
	struct piece *piece = backing_piece(guest, handle, &backing);

	if (!piece)
		return;
	lock_take(&backing->lock);
	piece->state = PIECE_MOVING;
	lock_drop(&backing->lock);
	backing_end_piece(guest, backing, (uint32_t)(piece - backing->piece));
}

CUmemGenericAllocationHandle backing_handle(struct guest *guest,
					    CUmemGenericAllocationHandle handle)
{
	struct backing *backing;
	const struct piece *piece = backing_piece(guest, handle, &backing);

	return piece && (piece->adopted || piece->imported) ? piece->handle : handle;
}
