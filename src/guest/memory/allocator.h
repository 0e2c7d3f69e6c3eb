/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a tenant's memory is made of: the driver's own allocations, or pieces that can leave the
 * device (backing.h). One of the two tables is chosen as the process claims its slot, before any
 * allocation, and never changes. Hooks go through it and do not ask which one it is.
 */
#ifndef ALLOT_GUEST_MEMORY_ALLOCATOR_H
#define ALLOT_GUEST_MEMORY_ALLOCATOR_H

#include "guest/core/guest.h"
#include "guest/core/object.h"

struct allocator {
	/* As cuMemAlloc, in the current context, of which `device` is: reserve, back, record, commit. */
	CUresult (*alloc)(struct guest *guest, struct guest_device *device, uint64_t bytes,
			  CUdeviceptr *ret);

	/*
	 * Ends the spare pieces of the device (backing.h), with their charge: before anything is
	 * refused, and when the program asks what is free. Disturbs no capture. The caller has a
	 * pass, or moves memory.
	 */
	void (*end_spare)(struct guest *guest, struct guest_device *device);

	/* As memory_freed, of OBJECT_BACKED. Not called where nothing is. */
	void (*release)(struct guest *guest, struct guest_device *device,
			const struct object *object);
};

extern const struct allocator allocator_driver;

#endif
