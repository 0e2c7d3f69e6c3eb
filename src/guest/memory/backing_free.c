/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/memory/backing.h"

#include "guest/core/entry.h"
#include "guest/core/object.h"
#include "guest/memory/backing_priv.h"
#include "guest/memory/physical.h"

/*
 * Its physical memory goes, and then its addresses. Should the driver refuse, nobody gets them.
 * Those that have it from us keep it, and are charged for it from here on.
 */
void backing_end_piece(struct guest *guest, struct backing *backing, uint32_t page)
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
