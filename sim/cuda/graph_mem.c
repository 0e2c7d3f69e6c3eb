/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory of graphs' allocation nodes. A node has its address from the start; at a launch it gets
 * device memory from what the device's graphs hold already, or new; afterwards the memory stays
 * with the device until it is trimmed.
 */
#include "sim/cuda/graph_mem.h"

#include <stdlib.h>
#include <sys/mman.h>

#include "sim/cuda/api.h"
#include "sim/cuda/pool.h"
#include "sim/cuda/stream.h"

struct sim_graph_mem {
	struct sim_device *device;
	uint64_t base, bytes; /* whole granules */
	struct reserve *reserve;
	unsigned int launches; /* that are to run, or running */
	bool in_use;	       /* between its alloc and its free, in the stream's order */
	bool orphan;	       /* its graph is gone */
};

/* Device memory that graphs hold; mapped at its user's address, if it has one. */
struct reserve {
	struct reserve *next;
	struct sim_block *block;
	struct sim_graph_mem *user;
};

static struct reserve *reserves;
static struct {
	uint64_t used, used_high, reserved, reserved_high;
} figures[SIM_MAX_DEVICES];

static void graph_mem_grew(uint64_t *figure, uint64_t *high, uint64_t bytes)
{
	*figure += bytes;
	if (*figure > *high)
		*high = *figure;
}

CUresult sim_graph_mem_create(const CUmemPoolProps *props, size_t bytes,
			      struct sim_graph_mem **ret_mem, CUdeviceptr *ret_ptr)
{
	uint64_t rounded = sim_round(bytes, SIM_GRANULE);
	struct sim_graph_mem *mem;
	struct sim_device *device;
	struct sim_range *range = NULL;
	void *address;
	CUresult r = sim_ready();

	if (r)
		return r;
	if (!bytes || !props || !sim_location(&props->location, &device) || !device)
		return CUDA_ERROR_INVALID_VALUE;
	if (!rounded)
		return CUDA_ERROR_OUT_OF_MEMORY;
	mem = calloc(1, sizeof(*mem));
	if (!mem)
		return CUDA_ERROR_OUT_OF_MEMORY;
	sim_lock();
	r = sim_address_reserve(rounded, SIM_GRANULE, NULL, &address);
	if (!r) {
		range = sim_range_add((uint64_t)address, bytes, SIM_RANGE_GRAPH, device, NULL);
		if (!range) {
			sim_address_unmap(address, rounded, false);
			r = CUDA_ERROR_OUT_OF_MEMORY;
		}
	}
	if (!r) {
		mem->device = device;
		mem->base = (uint64_t)address;
		mem->bytes = rounded;
		range->owner = mem;
		range->readable = range->writable = false;
	}
	sim_unlock();
	if (r) {
		free(mem);
		return r;
	}
	*ret_mem = mem;
	*ret_ptr = mem->base;
	return CUDA_SUCCESS;
}

/* Nobody needs it any more: the reserve stays with the device, its address goes. */
static void graph_mem_settle(struct sim_graph_mem *mem)
{
	if (!mem->orphan || mem->launches || mem->in_use)
		return;
	if (mem->reserve)
		mem->reserve->user = NULL;
	sim_range_remove(sim_range_find(mem->base));
	sim_address_unmap((void *)mem->base, mem->bytes, false);
	free(mem);
}

void sim_graph_mem_destroy(struct sim_graph_mem *mem)
{
	sim_lock();
	mem->orphan = true;
	graph_mem_settle(mem);
	sim_unlock();
}

static bool graph_mem_idle(const struct reserve *v)
{
	return !v->user || (!v->user->launches && !v->user->in_use);
}

/* The smallest idle reserve that is enough, and not more than twice too much. */
static struct reserve *graph_mem_find_reserve(const struct sim_graph_mem *mem)
{
	struct reserve *best = NULL;

	for (struct reserve *v = reserves; v; v = v->next)
		if (v->block->device == mem->device && graph_mem_idle(v) &&
		    v->block->bytes >= mem->bytes && v->block->bytes <= 2 * mem->bytes &&
		    (!best || v->block->bytes < best->block->bytes))
			best = v;
	return best;
}

/* An address without memory behind it is nothing that a kernel may touch. */
static void graph_mem_set_valid(struct sim_graph_mem *mem, bool valid)
{
	struct sim_range *range = sim_range_find(mem->base);

	range->readable = range->writable = valid;
}

static void graph_mem_leave(struct reserve *v)
{
	if (!v->user)
		return;
	graph_mem_set_valid(v->user, false);
	sim_address_unmap((void *)v->user->base, v->user->bytes, true);
	v->user->reserve = NULL;
	v->user = NULL;
}

static bool graph_mem_trim(struct sim_device *device)
{
	bool any = false;

	for (struct reserve **at = &reserves, *v; (v = *at);) {
		if (v->block->device != device || !graph_mem_idle(v)) {
			at = &v->next;
			continue;
		}
		*at = v->next;
		graph_mem_leave(v);
		figures[device->ordinal].reserved -= v->block->bytes;
		sim_block_unref(v->block);
		free(v);
		any = true;
	}
	return any;
}

static CUresult graph_mem_back(struct sim_graph_mem *mem)
{
	struct reserve *v = graph_mem_find_reserve(mem);
	CUresult r;

	if (!v) {
		v = calloc(1, sizeof(*v));
		if (!v)
			return CUDA_ERROR_OUT_OF_MEMORY;
		r = sim_pools_block_create(mem->device, mem->bytes, false, &v->block);
		if (r) {
			free(v);
			return r;
		}
		v->next = reserves;
		reserves = v;
		sim_pools_trim_also(graph_mem_trim);
		graph_mem_grew(&figures[mem->device->ordinal].reserved,
			       &figures[mem->device->ordinal].reserved_high, mem->bytes);
	}
	graph_mem_leave(v);
	r = sim_block_map(v->block, 0, mem->bytes, (void *)mem->base, 0, PROT_READ | PROT_WRITE,
			  NULL);
	if (r)
		return r;
	v->user = mem;
	mem->reserve = v;
	graph_mem_set_valid(mem, true);
	return CUDA_SUCCESS;
}

CUresult sim_graph_mem_back(struct sim_graph_mem *mem)
{
	CUresult r = CUDA_SUCCESS;

	sim_lock();
	if (!mem->reserve)
		r = graph_mem_back(mem);
	if (!r)
		mem->launches++;
	sim_unlock();
	return r;
}

void sim_graph_mem_unback(struct sim_graph_mem *mem)
{
	sim_lock();
	mem->launches--;
	graph_mem_settle(mem);
	sim_unlock();
}

void sim_graph_mem_alloc(struct sim_graph_mem *mem)
{
	sim_lock();
	if (!mem->in_use)
		graph_mem_grew(&figures[mem->device->ordinal].used,
			       &figures[mem->device->ordinal].used_high, mem->bytes);
	mem->in_use = true;
	sim_unlock();
}

void sim_graph_mem_free(struct sim_graph_mem *mem)
{
	sim_lock();
	if (mem->in_use)
		figures[mem->device->ordinal].used -= mem->bytes;
	mem->in_use = false;
	graph_mem_settle(mem);
	sim_unlock();
}

void sim_graph_mem_freed(void *mem)
{
	sim_graph_mem_free(mem);
}

bool sim_graph_mem_in_use(struct sim_graph_mem *mem)
{
	bool in_use;

	sim_lock();
	in_use = mem->in_use;
	sim_unlock();
	return in_use;
}

CUresult cuDeviceGraphMemTrim(CUdevice dev)
{
	struct sim_device *device;
	CUresult r = sim_device_get(dev, &device);

	if (r)
		return r;
	sim_lock();
	graph_mem_trim(device);
	sim_unlock();
	return CUDA_SUCCESS;
}

CUresult cuDeviceGetGraphMemAttribute(CUdevice dev, CUgraphMem_attribute attr, void *value)
{
	struct sim_device *device;
	CUresult r = sim_device_get(dev, &device);

	if (r)
		return r;
	if (!value)
		return CUDA_ERROR_INVALID_VALUE;
	sim_lock();
	switch (attr) {
	case CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT:
		*(cuuint64_t *)value = figures[dev].used;
		break;
	case CU_GRAPH_MEM_ATTR_USED_MEM_HIGH:
		*(cuuint64_t *)value = figures[dev].used_high;
		break;
	case CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT:
		*(cuuint64_t *)value = figures[dev].reserved;
		break;
	case CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH:
		*(cuuint64_t *)value = figures[dev].reserved_high;
		break;
	default:
		r = CUDA_ERROR_INVALID_VALUE;
	}
	sim_unlock();
	return r;
}

CUresult cuDeviceSetGraphMemAttribute(CUdevice dev, CUgraphMem_attribute attr, void *value)
{
	struct sim_device *device;
	CUresult r = sim_device_get(dev, &device);

	if (r)
		return r;
	if (!value || *(cuuint64_t *)value)
		return CUDA_ERROR_INVALID_VALUE; /* a high-water mark can only be reset */
	sim_lock();
	if (attr == CU_GRAPH_MEM_ATTR_USED_MEM_HIGH)
		figures[dev].used_high = figures[dev].used;
	else if (attr == CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH)
		figures[dev].reserved_high = figures[dev].reserved;
	else
		r = CUDA_ERROR_INVALID_VALUE;
	sim_unlock();
	return r;
}
