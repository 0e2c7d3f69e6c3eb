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

void backing_free(struct guest *guest, struct guest_device *device, CUdeviceptr at)
{
	struct backing *backing = backing_of(guest, device);
	uint32_t page = (uint32_t)((at - backing->base) / GRANULE_BYTES);
	bool last;

	lock_take(&backing->lock);
	last = pieces_leave(backing, page, at - pieces_address(backing, page));
	lock_drop(&backing->lock);
	if (last)
		backing_end_piece(guest, backing, page);
}
