/* SPDX-License-Identifier: Apache-2.0 */
/* What lies at an address: a range, or what a pool holds and has not handed out. */
#include "sim/cuda/pool.h"
#include "sim/cuda/stream.h"

bool sim_memory_valid(CUdeviceptr ptr, size_t bytes)
{
	uint64_t at = ptr, end = ptr + bytes;
	bool valid = end >= ptr;

	sim_lock();
	while (valid && at < end) {
		struct sim_range *range = sim_range_find(at);

		/*
		 * A stream may still use what has been freed behind it in the same stream, and is handed
		 * out again in part by now.
		 */
		if ((!range || range->kind == SIM_RANGE_POOL) && sim_pool_holds(at, end - at))
			break;
		if (!range || !range->readable ||
		    (range->base + range->bytes < end && range->kind != SIM_RANGE_VMM))
			valid = false;
		else
			at = range->base + range->bytes;
	}
	sim_unlock();
	return valid;
}

bool sim_memory_is_device(CUdeviceptr ptr)
{
	struct sim_range *range;
	bool device;

	sim_lock();
	range = sim_range_find(ptr);
	device = range ? !sim_range_on_host(range) : sim_pool_holds(ptr, 1);
	sim_unlock();
	return device;
}
