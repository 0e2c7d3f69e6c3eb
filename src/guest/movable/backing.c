/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/movable/backing.h"

#include <sched.h>

#include "guest/core/object.h"
#include "guest/lend/entry.h"
#include "guest/movable/physical.h"
#include "guest/movable/state.h"

/* NULL: the device has none yet. */
static struct backing *backing_of(struct guest *guest, const struct guest_device *device)
{
	return atomic_load_explicit(&guest->movable->backing[device->ordinal], memory_order_acquire);
}

/* The same, made where there is none; NULL: no memory, or no addresses. */
static struct backing *backing_make(struct guest *guest, struct guest_device *device)
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
	if (atomic_compare_exchange_strong(&guest->movable->backing[device->ordinal], &expected, made))
		return made;
	DRIVER(cuMemAddressFree, (made->base, made->pages * GRANULE_BYTES));
	pieces_unmap(made);
	return expected;
}

/*
 * Its physical memory goes, and then its addresses. Should the driver refuse, nobody gets them.
 * Those that have it from us keep it, and are charged for it from here on.
 */
static void backing_end_piece(struct guest *guest, struct backing *backing, uint32_t page)
{
	struct object export;

	if (object_take(guest->objects, OBJECT_EXPORT, pieces_address(backing, page), &export))
		entry_leave(guest, &export);
	if (physical_displace(pieces_address(backing, page), &backing->piece[page]))
		return;
	lock_take(&backing->lock);
	pieces_give(backing, page);
	lock_drop(&backing->lock);
}

/* --- Allocations -------------------------------------------------------------------------------- */

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

/* --- Frees, and spare pieces -------------------------------------------------------------------- */

/* Has a piece that moves be spare. False: it is not as any other. */
static bool backing_keep(struct guest *guest, struct backing *backing, uint32_t page,
			 struct spare_piece *ret_old)
{
	uint32_t old = UINT32_MAX;
	struct object export;
	bool kept;

	/* What others have a name of is not to become another allocation's. */
	if (object_get(guest->objects, OBJECT_EXPORT, pieces_address(backing, page), &export))
		return false;
	lock_take(&backing->lock);
	kept = pieces_spare(backing, page, &old);
	lock_drop(&backing->lock);
	*ret_old = pieces_spare_piece(backing, old);
	return kept;
}

bool backing_free(struct guest *guest, struct guest_device *device, CUdeviceptr at,
		  struct spare_piece *ret_old)
{
	struct backing *backing = backing_of(guest, device);
	uint32_t page = pieces_page(backing, at);
	bool last;

	lock_take(&backing->lock);
	last = pieces_leave(backing, page, at - pieces_address(backing, page));
	lock_drop(&backing->lock);
	if (last && ret_old && backing_keep(guest, backing, page, ret_old))
		return true;
	if (last)
		backing_end_piece(guest, backing, page);
	return false;
}

bool backing_has_spare(struct guest *guest, const struct guest_device *device)
{
	struct backing *backing = backing_of(guest, device);
	bool has;

	if (!backing)
		return false;
	lock_take(&backing->lock);
	has = backing->spare[PIECES_ONE] || backing->spare[PIECES_SEVERAL];
	lock_drop(&backing->lock);
	return has;
}

struct spare_piece backing_take_spare(struct guest *guest, struct guest_device *device,
					enum pieces_kind kind)
{
	struct backing *backing = backing_of(guest, device);
	uint32_t page = UINT32_MAX;

	if (backing) {
		lock_take(&backing->lock);
		page = pieces_take_spare(backing, kind);
		lock_drop(&backing->lock);
	}
	return pieces_spare_piece(backing, page);
}

struct spare_piece backing_take_fit(struct guest *guest, struct guest_device *device,
				      uint64_t bytes)
{
	struct backing *backing = backing_of(guest, device);
	uint64_t pages = round_up(bytes, GRANULE_BYTES) / GRANULE_BYTES;
	uint32_t page = UINT32_MAX;

	if (backing && pages <= backing->pages) {
		lock_take(&backing->lock);
		page = pieces_take_fit(backing, (uint32_t)pages);
		lock_drop(&backing->lock);
	}
	return pieces_spare_piece(backing, page);
}

void backing_end_spare(struct guest *guest, struct guest_device *device, struct spare_piece spare)
{
	struct backing *backing = backing_of(guest, device);

	backing_end_piece(guest, backing, pieces_page(backing, spare.at));
}

/* --- What has an address ------------------------------------------------------------------------ */

struct guest_device *backing_device(struct guest *guest, CUdeviceptr at)
{
	for (int i = 0; i < guest->ndevices; i++) {
		const struct backing *backing = backing_of(guest, &guest->device[i]);

		if (backing && at - backing->base < backing->pages * GRANULE_BYTES)
			return &guest->device[i];
	}
	return NULL;
}

/* Takes the lock of the reservation that has an address; NULL: none has. */
static struct backing *backing_lock(struct guest *guest, CUdeviceptr at)
{
	const struct guest_device *device = backing_device(guest, at);
	struct backing *backing = device ? backing_of(guest, device) : NULL;

	if (backing)
		lock_take(&backing->lock);
	return backing;
}

CUdeviceptr backing_start(struct guest *guest, CUdeviceptr at)
{
	struct backing *backing = backing_lock(guest, at);
	const struct piece *piece;
	CUdeviceptr start = 0;
	int unit;

	if (!backing)
		return 0;
	piece = pieces_find(backing, at);
	if (piece && piece->state != PIECE_MOVING) {
		start = pieces_address(backing, (uint32_t)(piece - backing->piece));
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
	struct backing *backing = backing_lock(guest, at);
	const struct piece *piece;
	bool found;

	if (!backing)
		return false;
	piece = pieces_find(backing, at);
	found = piece && piece->state != PIECE_MOVING;
	if (found)
		*ret = backing_say(backing, (uint32_t)(piece - backing->piece));
	lock_drop(&backing->lock);
	return found;
}

void *backing_owner(struct guest *guest, CUdeviceptr at)
{
	struct backing *backing = backing_lock(guest, at);
	const struct piece *piece;
	void *owner;

	if (!backing)
		return NULL;
	piece = pieces_find(backing, at);
	owner = piece ? piece->owner : NULL;
	lock_drop(&backing->lock);
	return owner;
}

void backing_disown(struct guest *guest, CUdeviceptr at)
{
	struct backing *backing = backing_lock(guest, at);

	pieces_find(backing, at)->owner = NULL;
	lock_drop(&backing->lock);
}

void backing_mark(struct guest *guest, CUdeviceptr at)
{
	struct backing *backing = backing_lock(guest, at);
	struct piece *piece;

	if (!backing)
		return;
	piece = pieces_find(backing, at);
	if (piece)
		piece->marked = true;
	lock_drop(&backing->lock);
}

/* A piece that ends meanwhile does not mind. */
CUresult backing_set_peers(struct guest *guest, CUdeviceptr at, uint64_t peers)
{
	struct backing *backing = backing_lock(guest, at);
	uint64_t less = 0;
	uint32_t pages = 0;
	struct piece *piece;

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

/* --- Handles of the program's, and imports ------------------------------------------------------ */

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
	struct backing *backing = NULL;
	const struct piece *piece = backing_piece(guest, handle, &backing);

	if (!backing)
		return handle;
	return piece && (piece->adopted || piece->imported) ? piece->handle : 0;
}

/* --- For the thread that moves memory, while the gate is shut ----------------------------------- */

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
