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

/* Has a piece that moves be the spare one. False: there is one, or it is not as any other. */
static bool backing_keep(struct guest *guest, struct backing *backing, uint32_t page)
{
	struct object export;
	bool kept;

	/* What others have a name of is not to become another allocation's. */
	if (object_get(guest->objects, OBJECT_EXPORT, pieces_address(backing, page), &export))
		return false;
	lock_take(&backing->lock);
	kept = pieces_spare(backing, page);
	lock_drop(&backing->lock);
	return kept;
}

bool backing_free(struct guest *guest, struct guest_device *device, CUdeviceptr at, bool may_keep)
{
	struct backing *backing = backing_of(guest, device);
	uint32_t page = (uint32_t)((at - backing->base) / GRANULE_BYTES);
	bool last;

	lock_take(&backing->lock);
	last = pieces_leave(backing, page, at - pieces_address(backing, page));
	lock_drop(&backing->lock);
	if (last && may_keep && backing_keep(guest, backing, page))
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
	has = backing->spare;
	lock_drop(&backing->lock);
	return has;
}

CUdeviceptr backing_end_spare(struct guest *guest, struct guest_device *device)
{
	struct backing *backing = backing_of(guest, device);
	uint32_t page;

	lock_take(&backing->lock);
	page = pieces_take_spare(backing);
	lock_drop(&backing->lock);
	if (page == UINT32_MAX)
		return 0;
	backing_end_piece(guest, backing, page);
	return pieces_address(backing, page);
}
