/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of backing.h share: the reservation of a device, and how a piece ends. */
#ifndef ALLOT_GUEST_MEMORY_BACKING_PRIV_H
#define ALLOT_GUEST_MEMORY_BACKING_PRIV_H

#include "guest/memory/backing.h"

/* NULL: the device has none yet. */
static inline struct backing *backing_of(struct guest *guest, const struct guest_device *device)
{
	return atomic_load_explicit(&guest->backing[device->ordinal], memory_order_acquire);
}

/* The same, made where there is none; NULL: no memory, or no addresses. */
struct backing *backing_make(struct guest *guest, struct guest_device *device);

/* The physical memory of a piece that moves goes, and then its pages. */
void backing_end_piece(struct guest *guest, struct backing *backing, uint32_t page);

#endif
