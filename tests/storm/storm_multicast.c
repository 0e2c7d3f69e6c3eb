/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Multicast objects, to which the memory of several devices is bound. A driver without them, as the
 * simulator's, says so, and then nothing is taken.
 */
#include "storm_work.h"

#define MINIMUM 0 /* CU_MULTICAST_GRANULARITY_MINIMUM */

struct multicast_prop {
	unsigned int devices;
	size_t size;
	unsigned long long handle_types, flags;
};

static struct {
	CUresult (*create)(CUmemGenericAllocationHandle *handle, const struct multicast_prop *prop);
	CUresult (*granularity)(size_t *granularity, const struct multicast_prop *prop, int option);
	CUresult (*add_device)(CUmemGenericAllocationHandle handle, CUdevice device);
	CUresult (*unbind)(CUmemGenericAllocationHandle handle, CUdevice device, size_t offset,
			   size_t size);
} multicast;

/* Several threads may bind it, all to the same. */
static bool multicast_bind(void)
{
	*(void **)&multicast.create = storm_symbol("cuMulticastCreate");
	*(void **)&multicast.granularity = storm_symbol("cuMulticastGetGranularity");
	*(void **)&multicast.add_device = storm_symbol("cuMulticastAddDevice");
	*(void **)&multicast.unbind = storm_symbol("cuMulticastUnbind");
	return multicast.create && multicast.granularity && multicast.add_device &&
	       multicast.unbind;
}

/* An object of one granule, for all devices. False: the driver has none. */
static bool multicast_create(struct block *b)
{
	struct multicast_prop prop = {.devices = (unsigned int)storm->options.devices,
				      .size = 2 * MIB};
	size_t granule;

	if (multicast.granularity(&granule, &prop, MINIMUM))
		return false;
	b->bytes = prop.size = granule;
	if (multicast.create(&b->again, &prop))
		return false;
	for (int d = 0; d < storm->options.devices; d++)
		OK(multicast.add_device(b->again, d));
	return true;
}

static bool multicast_take(struct worker *w, struct block *b)
{
	CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
				    .location = storm_location(b->device)};

	if (!multicast_bind() || !multicast_create(b))
		return false;
	if (REFUSED(w, cu.cuMemCreate(&b->handle, b->bytes, &prop, 0))) {
		OK(cu.cuMemRelease(b->again));
		return false;
	}
	OK(cu.cuMulticastBindMem(b->again, 0, b->handle, 0, b->bytes, 0));
	return true;
}

/* A binding keeps the memory. */
static void multicast_give(struct worker *w, struct block *b)
{
	bool first = pick(&w->seed, 2);

	if (first)
		OK(cu.cuMemRelease(b->handle));
	OK(multicast.unbind(b->again, b->device, 0, b->bytes));
	if (!first)
		OK(cu.cuMemRelease(b->handle));
	OK(cu.cuMemRelease(b->again));
}

const struct family storm_multicast = {"multicast", multicast_take, multicast_give, NULL, NULL};
