/* SPDX-License-Identifier: Apache-2.0 */
/* Legacy IPC of cuMemAlloc memory, and external memory by descriptor. */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "sim/cuda/api.h"
#include "sim/cuda/memory.h"
#include "sim/cuda/stream.h"

#define IPC_MAGIC 0x3143504943554453ull

struct ipc_handle {
	uint64_t magic;
	uint64_t key[2];
	uint64_t offset, bytes;
	int32_t pid, fd;
	int32_t row;
	uint32_t generation;
	uint64_t id; /* of the allocation: the next one at its address has another */
};

_Static_assert(sizeof(struct ipc_handle) <= sizeof(CUipcMemHandle), "must fit the handle");

static uint32_t ipc_generation(void)
{
	return (uint32_t)sim.region->row[sim.row].generation;
}

CUresult cuIpcGetMemHandle(CUipcMemHandle *pHandle, CUdeviceptr dptr)
{
	struct ipc_handle h = {.magic = IPC_MAGIC, .pid = getpid(), .row = sim.row};
	struct sim_context *ctx;
	struct sim_exec *exec;
	struct sim_range *range;
	CUresult r = sim_context_current(&ctx);

	if (r)
		return r;
	if (!pHandle)
		return CUDA_ERROR_INVALID_VALUE;
	/* Memory that becomes shared moves; nothing may be writing to it meanwhile. */
	exec = exec_hold(ctx);
	r = exec_synchronize(exec);
	exec_release(exec);
	if (r)
		return r;
	sim_lock();
	range = sim_range_find(dptr);
	if (!range || (range->kind != SIM_RANGE_DEVICE && range->kind != SIM_RANGE_SMALL)) {
		r = CUDA_ERROR_INVALID_VALUE;
	} else {
		r = sim_block_share(range->block);
		memcpy(h.key, range->block->key, sizeof(h.key));
		h.fd = range->block->fd;
		h.offset = range->base - range->map_base;
		h.bytes = range->bytes;
		h.id = range->id;
		h.generation = ipc_generation();
	}
	sim_unlock();
	if (r)
		return r;
	memset(pHandle, 0, sizeof(*pHandle));
	memcpy(pHandle, &h, sizeof(h));
	return CUDA_SUCCESS;
}

struct wanted {
	const struct ipc_handle *handle;
	struct sim_context *ctx;
};

static bool ipc_is_opened(struct sim_range *range, void *arg)
{
	const struct wanted *w = arg;

	return range->kind == SIM_RANGE_IPC && range->ctx == w->ctx &&
	       range->block->key[0] == w->handle->key[0] &&
	       range->exporter_id == w->handle->id;
}

CUresult cuIpcOpenMemHandle_v2(CUdeviceptr *pdptr, CUipcMemHandle handle, unsigned int Flags)
{
	struct ipc_handle h;
	struct wanted wanted = {.handle = &h};
	struct sim_range *range;
	CUresult r = sim_context_current(&wanted.ctx);

	if (r)
		return r;
	memcpy(&h, &handle, sizeof(h));
	if (!pdptr || h.magic != IPC_MAGIC ||
	    Flags & ~(unsigned int)CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS)
		return CUDA_ERROR_INVALID_VALUE;
	if (h.row == sim.row && h.generation == ipc_generation())
		return CUDA_ERROR_INVALID_CONTEXT; /* one's own, as the driver answers */
	sim_lock();
	range = sim_range_each(ipc_is_opened, &wanted);
	if (!range)
		r = sim_range_import(h.pid, h.fd, h.key, h.offset, h.bytes, SIM_RANGE_IPC,
				     wanted.ctx, &range);
	if (!r) {
		range->exporter_id = h.id;
		range->opens++;
		*pdptr = range->base;
	}
	sim_unlock();
	return r;
}

CUresult cuIpcOpenMemHandle(CUdeviceptr *pdptr, CUipcMemHandle handle, unsigned int Flags)
{
	return cuIpcOpenMemHandle_v2(pdptr, handle, Flags);
}

CUresult cuIpcCloseMemHandle(CUdeviceptr dptr)
{
	struct sim_range *range;
	CUresult r = sim_ready();

	if (r)
		return r;
	sim_lock();
	range = sim_range_find(dptr);
	if (!range || range->kind != SIM_RANGE_IPC || range->base != dptr)
		r = CUDA_ERROR_INVALID_VALUE;
	else if (!--range->opens)
		sim_range_end(range);
	sim_unlock();
	return r;
}
