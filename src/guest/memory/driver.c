/* SPDX-License-Identifier: Apache-2.0 */
/* The table of a tenant whose memory is the driver's, and stays. */
#include "guest/memory/alloc.h"
#include "guest/memory/context_limits.h"
#include "guest/memory/graph.h"
#include "guest/memory/memory.h"
#include "guest/memory/pool.h"
#include "guest/memory/vmm.h"

#define NOTHING(name, ...)                                           \
	static void driver_##name(struct guest *guest, __VA_ARGS__) \
	{                                                            \
	}
#define ANSWER(type, name, answer, ...)                              \
	static type driver_##name(struct guest *guest, __VA_ARGS__) \
	{                                                            \
		return answer;                                       \
	}

ANSWER(CUresult, pool_made, CUDA_SUCCESS, CUmemoryPool handle, const CUmemPoolProps *props)
NOTHING(pool_ends, CUmemoryPool handle)
NOTHING(pool_trim, CUmemoryPool handle, uint64_t keep)
NOTHING(pool_set, CUmemoryPool handle, CUmemPool_attribute which, const void *value)
NOTHING(pool_figure, CUmemoryPool handle, CUmemPool_attribute which, void *value)
NOTHING(pool_set_access, CUmemoryPool handle, const CUmemAccessDesc *desc, size_t count)
ANSWER(struct guest_device *, holds, NULL, CUdeviceptr at)
ANSWER(bool, ipc_open, false, const CUipcMemHandle *handle, CUdeviceptr *ret, CUresult *ret_e)
ANSWER(CUresult, adopt, CUDA_SUCCESS, struct guest_device *device, const CUmemAllocationProp *prop,
       struct object *handle)
ANSWER(CUmemGenericAllocationHandle, real_handle, handle, CUmemGenericAllocationHandle handle)
ANSWER(uint64_t, mapped_handle, 0, CUdeviceptr at)
ANSWER(bool, import_handle, false, int fd, CUmemGenericAllocationHandle *ret, CUresult *ret_e)
ANSWER(CUresult, map_tiles, vmm_map_tiles(guest, list, list, count, stream, real),
       CUarrayMapInfo *list, unsigned int count, CUstream stream, map_array_fn *real)
NOTHING(end_spare, struct guest_device *device)
NOTHING(show_spare, struct guest_device *device)

NOTHING(waited, CUstream stream, uint64_t frees)
NOTHING(waited_context, CUcontext context, uint64_t frees)
NOTHING(stream_ends, CUstream stream)
NOTHING(context_ended, CUcontext context)

static uint64_t driver_frees(struct guest *guest)
{
	return 0;
}

static void driver_settle(struct guest *guest)
{
}

static const struct holder *const driver_holders[] = {&memory_holder, &pool_holder, &graph_holder,
						      &context_limits_holder, NULL};

/* What is not here is called of memory alone that the other allocator has made. */
const struct allocator allocator_driver = {
	.alloc = alloc_linear,
	.alloc_pitched = alloc_pitched,
	.free = alloc_free,
	.free_in_stream = alloc_free_in_stream,
	.alloc_from_pool = pool_alloc,
	.pool_made = driver_pool_made,
	.pool_ends = driver_pool_ends,
	.pool_trim = driver_pool_trim,
	.pool_set = driver_pool_set,
	.pool_figure = driver_pool_figure,
	.pool_set_access = driver_pool_set_access,
	.holds = driver_holds,
	.ipc_open = driver_ipc_open,
	.adopt = driver_adopt,
	.real_handle = driver_real_handle,
	.mapped_handle = driver_mapped_handle,
	.import_handle = driver_import_handle,
	.map_tiles = driver_map_tiles,
	.end_spare = driver_end_spare,
	.show_spare = driver_show_spare,
	.frees = driver_frees,
	.waited = driver_waited,
	.waited_context = driver_waited_context,
	.settle = driver_settle,
	.stream_ends = driver_stream_ends,
	.context_ended = driver_context_ended,
	.holders = driver_holders,
};
