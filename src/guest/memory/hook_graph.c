/* SPDX-License-Identifier: Apache-2.0 */
#include <sys/mman.h>

#include "guest/core/hook.h"
#include "guest/memory/graph.h"
#include "guest/memory/holder.h"

static uint64_t graph_attribute(struct guest_device *device, CUgraphMem_attribute which)
{
	cuuint64_t value = 0;

	DRIVER(cuDeviceGetGraphMemAttribute, (device->ordinal, which, &value));
	return value;
}

static uint64_t graph_reserved(struct guest_device *device)
{
	return graph_attribute(device, CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT);
}

/* As pools are followed, see pool_settle in pool.c. */
void graph_settle(struct guest *guest, struct guest_device *device)
{
	uint64_t spare = 0; /* charged, but not recorded */
	bool begun = false;

	for (;;) {
		uint64_t old = atomic_load(&device->graph_charged);
		uint64_t now = round_up(graph_reserved(device), GRANULE_BYTES);

		if (now == old)
			break;
		if (!begun)
			charge_release_begin(device);
		begun = true;
		if (now > old + spare) {
			charge_follow(guest, device, CAT_GRAPH, old + spare, now);
			spare = now - old;
		}
		if (atomic_compare_exchange_strong(&device->graph_charged, &old, now))
			spare = old + spare - now;
	}
	if (spare)
		charge_follow(guest, device, CAT_GRAPH, spare, 0);
	if (begun)
		charge_release_end(guest, device, CAT_GRAPH, 0);
}

bool graph_has_memory(const struct guest_device *device)
{
	return atomic_load(&device->graph_charged) != 0;
}

/* Makes the driver release what no graph uses. */
static void graph_trim(struct guest *guest, struct guest_device *device)
{
	if (!graph_has_memory(device))
		return;
	charge_release_begin(device);
	DRIVER(cuDeviceGraphMemTrim, (device->ordinal));
	charge_release_end(guest, device, CAT_GRAPH, 0);
	atomic_fetch_add(&device->graph_epoch, 1);
	graph_settle(guest, device);
}

const struct holder graph_holder = {.catch_up = graph_settle, .give_back = graph_trim};

/*
 * The bytes that a graph's allocation nodes ask for, child graphs included, and their device. An
 * upper bound: nodes whose lifetimes do not overlap may share memory.
 */
static uint64_t graph_node_bytes(CUgraph graph, int depth, int *device)
{
	size_t n = 0, size;
	uint64_t bytes = 0;
	CUgraphNode *nodes;

	if (depth > 8 || DRIVER(cuGraphGetNodes, (graph, NULL, &n)) || !n)
		return 0;
	size = n * sizeof(*nodes);
	nodes = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (nodes == MAP_FAILED)
		return 0;
	if (DRIVER(cuGraphGetNodes, (graph, nodes, &n)))
		n = 0;
	for (size_t i = 0; i < n; i++) {
		CUDA_MEM_ALLOC_NODE_PARAMS params;
		CUgraphNodeType type;
		CUgraph child;

		if (DRIVER(cuGraphNodeGetType, (nodes[i], &type)))
			continue;
		if (type == CU_GRAPH_NODE_TYPE_MEM_ALLOC &&
		    !DRIVER(cuGraphMemAllocNodeGetParams, (nodes[i], &params))) {
			bytes += round_up(params.bytesize, GRANULE_BYTES);
			*device = params.poolProps.location.id;
		} else if (type == CU_GRAPH_NODE_TYPE_GRAPH &&
			   !DRIVER(cuGraphChildGraphNodeGetGraph, (nodes[i], &child))) {
			bytes += graph_node_bytes(child, depth + 1, device);
		}
	}
	munmap(nodes, size);
	return bytes;
}

/*
 * Reserves what backing the graph may take. The graph that was backed last still has its memory and
 * reserves nothing; others may have lost theirs to it. Idle memory of graphs is not taken off: only
 * when the device gets there does it show how much of it is in use. Near the limit it is trimmed
 * before anything is refused.
 */
static CUresult graph_charge(struct guest *guest, struct guest_device *device,
			     const struct object *exec, struct charge *charge)
{
	bool backed = exec->exec.epoch == atomic_load(&device->graph_epoch) + 1;

	return charge_reserve(guest, device, backed ? 0 : round_up(exec->size, POOL_BYTES), charge);
}

/* The epoch of the graph that was backed just now, until another graph is backed. */
static uint32_t graph_next_epoch(struct guest_device *device)
{
	return atomic_fetch_add(&device->graph_epoch, 1) + 2;
}

static bool graph_set_epoch(struct object *exec, void *arg)
{
	exec->exec.epoch = *(const uint32_t *)arg;
	return true;
}

CUresult graph_run(struct guest *guest, CUgraphExec hexec, CUstream stream, graph_run_fn *real)
{
	struct guest_device *device = NULL;
	struct charge charge;
	struct object exec;
	uint32_t epoch;
	CUresult e;

	if (object_count(guest->objects, OBJECT_EXEC) &&
	    object_get(guest->objects, OBJECT_EXEC, KEY(hexec), &exec))
		device = guest_device(guest, exec.device);
	if (device) {
		e = graph_charge(guest, device, &exec, &charge);
		if (e)
			return e;
	}
	guest_depth++;
	e = real(hexec, stream);
	guest_depth--;
	if (device) {
		epoch = atomic_load(&device->graph_epoch) + 1;
		graph_settle(guest, device);
		if (e)
			charge_cancel(&charge);
		else
			charge_settle(&charge);
		if (!e && exec.exec.epoch != epoch) {
			epoch = graph_next_epoch(device);
			object_change(guest->objects, OBJECT_EXEC, KEY(hexec), false,
				      graph_set_epoch, &epoch);
		}
	}
	return e;
}

#define UPLOAD(name)                                                          \
	CUresult hook_##name(CUgraphExec hGraphExec, CUstream hStream)        \
	{                                                                     \
		GUEST_OR_PASS(name, (hGraphExec, hStream));                   \
		return graph_run(guest, hGraphExec, hStream, cuda_real.name); \
	}
UPLOAD(cuGraphUpload)
UPLOAD(cuGraphUpload_ptsz)

/*
 * Instantiation takes no device memory, unless it uploads. A graph that owns memory is recorded;
 * the others, nearly all, leave no trace.
 */
struct owned {
	struct object exec;
	struct guest_device *device;
	struct charge charge;
	bool uploads;
};

static CUresult graph_instantiate_begin(struct guest *guest, CUgraph graph,
					unsigned long long flags, struct owned *owned)
{
	int device = -1;

	*owned = (struct owned){.exec = {.kind = OBJECT_EXEC, .category = CAT_GRAPH}};
	owned->exec.size = graph ? graph_node_bytes(graph, 0, &device) : 0;
	owned->exec.device = (int16_t)device;
	owned->device = owned->exec.size ? guest_device(guest, device) : NULL;
	owned->uploads = owned->device && flags & CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD;
	return owned->uploads ? graph_charge(guest, owned->device, &owned->exec, &owned->charge)
			      : CUDA_SUCCESS;
}

static CUresult graph_instantiate_end(struct guest *guest, struct owned *owned, CUresult e,
				      CUgraphExec *exec)
{
	if (owned->uploads) {
		graph_settle(guest, owned->device);
		if (e)
			charge_cancel(&owned->charge);
		else
			charge_settle(&owned->charge);
	}
	if (e || !owned->device)
		return e;
	if (owned->uploads)
		owned->exec.exec.epoch = graph_next_epoch(owned->device);
	owned->exec.key = KEY(*exec);
	if (object_put(guest->objects, &owned->exec)) {
		DRIVER(cuGraphExecDestroy, (*exec));
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	return e;
}

#define INSTANTIATE(name, params, args, graph, flags)                                              \
	CUresult hook_##name params                                                                \
	{                                                                                          \
		GUEST_OR_PASS(name, args);                                                         \
		struct owned owned;                                                                \
		CUresult e = graph_instantiate_begin(guest, graph, flags, &owned);                 \
                                                                                                   \
		if (e)                                                                             \
			return e;                                                                  \
		e = DRIVER(name, args);                                                            \
		return graph_instantiate_end(guest, &owned, e, phGraphExec);                       \
	}

INSTANTIATE(cuGraphInstantiate,
	    (CUgraphExec *phGraphExec, CUgraph hGraph, CUgraphNode *phErrorNode, char *logBuffer,
	     size_t bufferSize),
	    (phGraphExec, hGraph, phErrorNode, logBuffer, bufferSize), hGraph, 0)
INSTANTIATE(cuGraphInstantiate_v2,
	    (CUgraphExec *phGraphExec, CUgraph hGraph, CUgraphNode *phErrorNode, char *logBuffer,
	     size_t bufferSize),
	    (phGraphExec, hGraph, phErrorNode, logBuffer, bufferSize), hGraph, 0)
INSTANTIATE(cuGraphInstantiateWithFlags,
	    (CUgraphExec *phGraphExec, CUgraph hGraph, unsigned long long flags),
	    (phGraphExec, hGraph, flags), hGraph, flags)
INSTANTIATE(cuGraphInstantiateWithParams,
	    (CUgraphExec *phGraphExec, CUgraph hGraph,
	     CUDA_GRAPH_INSTANTIATE_PARAMS *instantiateParams),
	    (phGraphExec, hGraph, instantiateParams), hGraph,
	    instantiateParams ? instantiateParams->flags : 0)
INSTANTIATE(cuGraphInstantiateWithParams_ptsz,
	    (CUgraphExec *phGraphExec, CUgraph hGraph,
	     CUDA_GRAPH_INSTANTIATE_PARAMS *instantiateParams),
	    (phGraphExec, hGraph, instantiateParams), hGraph,
	    instantiateParams ? instantiateParams->flags : 0)

CUresult hook_cuGraphExecDestroy(CUgraphExec hGraphExec)
{
	GUEST_OR_PASS(cuGraphExecDestroy, (hGraphExec));
	struct guest_device *device;
	struct object exec;
	bool ours = object_count(guest->objects, OBJECT_EXEC) &&
		    object_take(guest->objects, OBJECT_EXEC, KEY(hGraphExec), &exec);
	CUresult e = DRIVER(cuGraphExecDestroy, (hGraphExec));

	if (!ours)
		return e;
	device = guest_device(guest, exec.device);
	if (e)
		object_put(guest->objects, &exec);
	else
		graph_settle(guest, device); /* normally the driver keeps the memory */
	return e;
}

CUresult hook_cuDeviceGraphMemTrim(CUdevice device)
{
	GUEST_OR_PASS(cuDeviceGraphMemTrim, (device));
	CUresult e = DRIVER(cuDeviceGraphMemTrim, (device));
	struct guest_device *d = guest_device(guest, device);

	if (!e && d) {
		atomic_fetch_add(&d->graph_epoch, 1);
		graph_settle(guest, d);
	}
	return e;
}
