/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The questions of a program about memory, which view.h answers, and the calls at which the driver gives
 * unused pool memory back.
 */
#include "base/number.h"
#include "guest/account/figure.h"
#include "guest/account/view.h"
#include "guest/core/hook.h"
#include "guest/memory/allocator.h"
#include "guest/memory/graph.h"
#include "guest/memory/memory.h"
#include "guest/memory/pool.h"

struct figures {
	uint64_t total, free;
};

/* What streams have freed by now, and what the driver then takes back from pools. */
static void query_settle(struct guest *guest)
{
	memory_reap(guest);
	pool_settle_all(guest);
	guest->allocator->settle(guest);
}

static struct figures query_figures(struct guest *guest, struct guest_device *device,
				    struct figures physical)
{
	struct view v;

	query_settle(guest);
	if (graph_has_memory(device))
		graph_settle(guest, device);
	/* Where no quota binds, what the driver says is free is all there is to know. */
	if (guest_limit(guest, device) < physical.total)
		figure_look(guest, device);
	view_of_device(guest, device, physical.total, &v);
	return (struct figures){v.total_bytes, view_free(guest, device->uuid, &v, physical.free)};
}

CUresult hook_cuMemGetInfo_v2(size_t *free, size_t *total)
{
	GUEST_OR_PASS(cuMemGetInfo_v2, (free, total));
	struct guest_device *device = guest_current_device(guest);
	size_t own_free, own_total; /* for what the program left out: each figure needs both */
	struct figures f;
	CUresult e;

	free = free ? free : &own_free;
	total = total ? total : &own_total;
	if (device)
		guest->allocator->show_spare(guest, device);
	e = DRIVER(cuMemGetInfo_v2, (free, total));
	if (e || !device)
		return e;
	f = query_figures(guest, device, (struct figures){*total, *free});
	*free = f.free;
	*total = f.total;
	return e;
}

/* Answers in 32 bits: more than that is said as the most. */
static unsigned int query_clip(uint64_t bytes)
{
	return bytes < UINT32_MAX ? (unsigned int)bytes : UINT32_MAX;
}

CUresult hook_cuMemGetInfo(unsigned int *free, unsigned int *total)
{
	GUEST_OR_PASS(cuMemGetInfo, (free, total));
	struct guest_device *device = guest_current_device(guest);
	size_t real_free, real_total;
	struct figures f;
	CUresult e;

	if (device)
		guest->allocator->show_spare(guest, device);
	e = DRIVER(cuMemGetInfo, (free, total));
	if (e || !device || DRIVER(cuMemGetInfo_v2, (&real_free, &real_total)))
		return e;
	f = query_figures(guest, device, (struct figures){real_total, real_free});
	if (free)
		*free = query_clip(f.free);
	if (total)
		*total = query_clip(f.total);
	return e;
}

CUresult hook_cuDeviceTotalMem_v2(size_t *bytes, CUdevice dev)
{
	GUEST_OR_PASS(cuDeviceTotalMem_v2, (bytes, dev));
	struct guest_device *device = guest_device(guest, dev);
	CUresult e = DRIVER(cuDeviceTotalMem_v2, (bytes, dev));

	if (!e && device)
		*bytes = min_u64(guest_limit(guest, device), *bytes);
	return e;
}

CUresult hook_cuDeviceTotalMem(unsigned int *bytes, CUdevice dev)
{
	GUEST_OR_PASS(cuDeviceTotalMem, (bytes, dev));
	struct guest_device *device = guest_device(guest, dev);
	CUresult e = DRIVER(cuDeviceTotalMem, (bytes, dev));

	if (!e && device)
		*bytes = query_clip(min_u64(guest_limit(guest, device), device->total_bytes));
	return e;
}
