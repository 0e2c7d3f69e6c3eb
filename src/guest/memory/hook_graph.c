/* SPDX-License-Identifier: Apache-2.0 */

#include "base/now.h"
#include "guest/account/holder.h"
#include "guest/core/graph_nodes.h"
#include "guest/core/hook.h"
#include "guest/core/host_nodes.h"
#include "guest/lend/entry.h"
#include "guest/memory/graph.h"
#include "guest/memory/state.h"

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

/*
 * The graph that was backed last still has its memory. A call that may take it away, a launch of
 * another or a trim, begins an epoch before, and waits for launches that rely on what they have:
 *
 *	launch of the graph      raises `relying' ── same epoch? ── driver ── lowers it
 *	launch of another, trim  begins an epoch ── nobody relies? ── driver
 *
 * Either the first one sees the new epoch, or the second one sees that it relies. A call from an
 * earlier epoch may still be on its way to the driver, and take what was backed in a later one:
 *
 *	trim       begins 1 ────────────────────────────────────── driver takes it
 *	launch                 begins 2 ── driver backs it ── ends         relies on 2?
 *
 * So an epoch in which such a call was under way already is no graph's. memory_device.graph_takes
 * tells both at once: its lower half counts those under way, the upper one is the epoch.
 */
#define TAKES_ONE_MORE ((UINT64_C(1) << 32) + 1)
#define RELY_WAIT_NS   UINT64_C(1000000000) /* for a driver that makes a launch wait */
#define RELY_NAP_NS    20000

static uint32_t graph_epoch(uint64_t takes)
{
	return (uint32_t)(takes >> 32);
}

/* Answers the epoch that begins; 0: it is no graph's. */
static uint32_t graph_take_begin(struct guest_device *device)
{
	uint64_t was = atomic_fetch_add(&device->memory->graph_takes, TAKES_ONE_MORE);
	uint64_t until = 0, now;

	while (atomic_load(&device->memory->graph_relying)) {
		now = now_monotonic_ns();
		until = until ? until : now + RELY_WAIT_NS;
		if (now > until)
			break;
		nap_ns(RELY_NAP_NS);
	}
	return (uint32_t)was ? 0 : graph_epoch(was + TAKES_ONE_MORE);
}

static void graph_take_end(struct guest_device *device)
{
	atomic_fetch_sub(&device->memory->graph_takes, 1);
}

/* As pools are followed, see pool_settle in pool.c. */
void graph_settle(struct guest *guest, struct guest_device *device)
{
	uint64_t spare = 0; /* charged, but not recorded */
	bool begun = false;

	for (;;) {
		uint64_t old = atomic_load(&device->memory->graph_charged);
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
		if (atomic_compare_exchange_strong(&device->memory->graph_charged, &old, now))
			spare = old + spare - now;
	}
	if (spare) {
		/* The driver may have taken it from any graph, unasked. */
		graph_take_begin(device);
		graph_take_end(device);
		charge_follow(guest, device, CAT_GRAPH, spare, 0);
	}
	if (begun)
		charge_release_end(guest, device, CAT_GRAPH, 0);
}

bool graph_has_memory(const struct guest_device *device)
{
	return atomic_load(&device->memory->graph_charged) != 0;
}

/* Findings about a graph's nodes. */
struct nodes {
	uint64_t bytes[GUEST_DEVICES]; /* that they own */
	bool wait;		       /* some do, for the program */
};

/* Deeper than people nest, and what it takes of a program's stack is known. */
#define DEPTH 32

/* What a node waits for may be the program, or nobody knows whom. */
static bool graph_node_waits(CUgraphNodeType type)
{
	return type == CU_GRAPH_NODE_TYPE_HOST || type == CU_GRAPH_NODE_TYPE_WAIT_EVENT ||
	       type == CU_GRAPH_NODE_TYPE_EXT_SEMAS_WAIT ||
	       type == CU_GRAPH_NODE_TYPE_BATCH_MEM_OP;
}

/*
 * Adds up what a graph's allocation nodes ask for, child graphs included, by device. An upper
 * bound: nodes whose lifetimes do not overlap may share memory. False: it cannot be told.
 */
static bool graph_add_nodes(struct guest *guest, CUgraph graph, int depth, struct nodes *ret)
{
	struct graph_nodes nodes;
	bool known = true;

	if (graph_nodes_read(graph, &nodes))
		return false;
	if (depth >= DEPTH && nodes.n) {
		graph_nodes_free(&nodes);
		return false;
	}
	for (size_t i = 0; i < nodes.n; i++) {
		CUDA_MEM_ALLOC_NODE_PARAMS params;
		CUgraphNodeType type;
		CUgraph child;

		if (DRIVER(cuGraphNodeGetType, (nodes.node[i], &type)))
			continue;
		ret->wait = ret->wait || graph_node_waits(type);
		if (type == CU_GRAPH_NODE_TYPE_MEM_ALLOC &&
		    !DRIVER(cuGraphMemAllocNodeGetParams, (nodes.node[i], &params))) {
			if (guest_device(guest, params.poolProps.location.id))
				ret->bytes[params.poolProps.location.id] +=
					round_up(params.bytesize, GRANULE_BYTES);
		} else if (type == CU_GRAPH_NODE_TYPE_GRAPH &&
			   !DRIVER(cuGraphChildGraphNodeGetGraph, (nodes.node[i], &child))) {
			known = graph_add_nodes(guest, child, depth + 1, ret) && known;
		}
	}
	graph_nodes_free(&nodes);
	return known;
}

/* An executable graph has an object for each device that it owns memory of. */
static uint64_t graph_key(CUgraphExec exec, const struct guest_device *device)
{
	uint64_t name[2] = {KEY(exec), (uint64_t)device->ordinal};

	return entry_key(name, sizeof(name)).word[0];
}

static bool graph_part(struct guest *guest, CUgraphExec exec, struct guest_device *device,
		       struct object *ret)
{
	return object_get(guest->objects, OBJECT_EXEC, graph_key(exec, device), ret);
}

/* Makes the driver release what no graph uses. */
static void graph_trim(struct guest *guest, struct guest_device *device)
{
	if (!graph_has_memory(device))
		return;
	graph_take_begin(device);
	charge_release_begin(device);
	DRIVER(cuDeviceGraphMemTrim, (device->ordinal));
	graph_take_end(device);
	charge_release_end(guest, device, CAT_GRAPH, 0);
	graph_settle(guest, device);
}

const struct holder graph_holder = {.catch_up = graph_settle, .give_back = graph_trim};

static bool graph_relies(struct guest_device *device, const struct object *part)
{
	atomic_fetch_add(&device->memory->graph_relying, 1);
	if (part->exec.epoch == graph_epoch(atomic_load(&device->memory->graph_takes)))
		return true;
	atomic_fetch_sub(&device->memory->graph_relying, 1);
	return false;
}

/* What a call that backs a graph does on one device. */
struct graph_backing {
	struct charge charge;
	bool relies;	/* the graph is backed */
	uint32_t epoch; /* else, see graph_take_begin */
};

/*
 * Reserves what backing the graph may take; one that still has its memory reserves nothing. Idle
 * memory of other graphs is not taken off: only when the device gets there does it show how much of
 * it is in use. Near the limit it is trimmed before anything is refused.
 */
static CUresult graph_back_begin(struct guest *guest, struct guest_device *device,
				 const struct object *part, struct graph_backing *backing)
{
	CUresult e;

	backing->relies = false;
	/* Reserving may trim, and so wait for those that rely: that comes first. */
	if (part->exec.epoch) {
		e = charge_reserve(guest, device, 0, &backing->charge);
		backing->relies = !e && graph_relies(device, part);
		if (e || backing->relies)
			return e;
		charge_cancel(&backing->charge);
	}
	e = charge_reserve(guest, device, round_up(part->size, POOL_BYTES), &backing->charge);
	if (!e)
		backing->epoch = graph_take_begin(device);
	return e;
}

static bool graph_set_epoch(struct object *exec, void *arg)
{
	exec->exec.epoch = *(const uint32_t *)arg;
	return true;
}

static void graph_back_end(struct guest *guest, struct graph_backing *backing)
{
	struct guest_device *device = backing->charge.device;

	if (backing->relies)
		atomic_fetch_sub(&device->memory->graph_relying, 1);
	else
		graph_take_end(device);
	graph_settle(guest, device);
	charge_cancel(&backing->charge);
}

static void graph_back_end_all(struct guest *guest, CUgraphExec exec, struct graph_backing *backing,
			       int n, CUresult e)
{
	for (int i = 0; i < n; i++) {
		uint32_t epoch = e ? 0 : backing[i].epoch;

		graph_back_end(guest, &backing[i]);
		if (!backing[i].relies)
			object_change(guest->objects, OBJECT_EXEC,
				      graph_key(exec, backing[i].charge.device), false,
				      graph_set_epoch, &epoch);
	}
}

CUresult graph_run(struct guest *guest, CUgraphExec hexec, CUstream stream, graph_run_fn *real)
{
	struct graph_backing backing[GUEST_DEVICES];
	struct object part;
	int n = 0;
	CUresult e = CUDA_SUCCESS;

	for (int i = 0; !e && i < guest->ndevices && object_count(guest->objects, OBJECT_EXEC); i++)
		if (graph_part(guest, hexec, &guest->device[i], &part)) {
			e = graph_back_begin(guest, &guest->device[i], &part, &backing[n]);
			n += !e;
		}
	if (!e) {
		guest_depth++;
		e = real(hexec, stream);
		guest_depth--;
	}
	graph_back_end_all(guest, hexec, backing, n, e);
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
	struct nodes nodes;
	struct host_nodes *hosts;
	struct graph_backing backing[GUEST_DEVICES]; /* of an upload */
	int backings;
};

static CUresult graph_instantiate_begin(struct guest *guest, CUgraph graph,
					unsigned long long flags, struct owned *owned)
{
	CUresult e = CUDA_SUCCESS;

	owned->nodes = (struct nodes){.wait = false};
	owned->hosts = NULL;
	owned->backings = 0;
	/* What cannot be accounted for is not given out. */
	if (graph && !graph_add_nodes(guest, graph, 0, &owned->nodes))
		return CUDA_ERROR_OUT_OF_MEMORY;
	for (int i = 0; !e && flags & CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD && i < guest->ndevices;
	     i++) {
		struct object part = {.size = owned->nodes.bytes[i]};

		if (!part.size)
			continue;
		e = graph_back_begin(guest, &guest->device[i], &part,
				     &owned->backing[owned->backings]);
		owned->backings += !e;
	}
	if (e)
		graph_back_end_all(guest, NULL, owned->backing, owned->backings, e);
	else if (owned->nodes.wait && !guest_gate_is_open(guest))
		owned->hosts = host_nodes_watch(guest, graph);
	return e;
}

static void graph_forget(struct guest *guest, CUgraphExec exec)
{
	struct object part;

	for (int i = 0; i < guest->ndevices; i++)
		object_take(guest->objects, OBJECT_EXEC, graph_key(exec, &guest->device[i]), &part);
	object_take(guest->objects, OBJECT_EXEC_WAITS, KEY(exec), &part);
}

/* Its waits are known no more. */
static CUresult graph_destroy(struct guest *guest, CUgraphExec exec, struct host_nodes *hosts)
{
	bool kept = host_nodes_keep(guest, hosts);
	CUresult e = DRIVER(cuGraphExecDestroy, (exec));

	if (kept)
		host_nodes_kept(guest, hosts, !e);
	return e;
}

bool graph_waits(struct guest *guest, CUgraphExec exec)
{
	struct object object;

	return object_count(guest->objects, OBJECT_EXEC_WAITS) &&
	       object_get(guest->objects, OBJECT_EXEC_WAITS, KEY(exec), &object);
}

static CUresult graph_instantiate_end(struct guest *guest, CUgraph graph, struct owned *owned,
				      CUresult e, CUgraphExec *exec)
{
	struct object waits = {.kind = OBJECT_EXEC_WAITS, .device = -1};
	CUcontext context = NULL;
	bool full = false;

	host_nodes_watched(guest, owned->hosts, graph, e ? NULL : *exec);
	if (!e && owned->nodes.wait) {
		waits.key = KEY(*exec);
		waits.hosts = owned->hosts;
		DRIVER(cuCtxGetCurrent, (&context));
		waits.context = KEY(context);
		full = object_put(guest->objects, &waits);
	}
	for (int i = 0; !e && i < guest->ndevices; i++) {
		struct object part = {.kind = OBJECT_EXEC, .category = CAT_GRAPH,
				      .device = (int16_t)i, .size = owned->nodes.bytes[i]};

		part.key = graph_key(*exec, &guest->device[i]);
		full = full || (part.size && object_put(guest->objects, &part));
	}
	graph_back_end_all(guest, e ? NULL : *exec, owned->backing, owned->backings, e);
	if (!full)
		return e;
	graph_forget(guest, *exec);
	graph_destroy(guest, *exec, owned->hosts);
	return CUDA_ERROR_OUT_OF_MEMORY;
}

/* The driver refused the graph: is it for nodes of ours? Then it is asked without them. */
static bool graph_unwatch(struct guest *guest, CUgraph graph, struct owned *owned)
{
	struct host_nodes *hosts = owned->hosts;

	host_nodes_watched(guest, hosts, graph, NULL);
	owned->hosts = NULL;
	return hosts;
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
		if (e && graph_unwatch(guest, graph, &owned))                                      \
			e = DRIVER(name, args);                                                    \
		return graph_instantiate_end(guest, graph, &owned, e, phGraphExec);                \
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

/* The nodes around the waits of an executable are in no graph of the program. */
static struct host_nodes *graph_update_begin(struct guest *guest, CUgraphExec exec, CUgraph graph)
{
	struct object waits;

	if (!object_count(guest->objects, OBJECT_EXEC_WAITS) ||
	    !object_get(guest->objects, OBJECT_EXEC_WAITS, KEY(exec), &waits) || !waits.hosts)
		return NULL;
	return host_nodes_update(guest, waits.hosts, graph);
}

#define UPDATE(name, params, args)                                                              \
	CUresult hook_##name params                                                             \
	{                                                                                       \
		GUEST_OR_PASS(name, args);                                                      \
		struct host_nodes *nodes = graph_update_begin(guest, hGraphExec, hGraph);       \
		CUresult e = DRIVER(name, args);                                                \
                                                                                                \
		host_nodes_updated(guest, nodes, hGraph);                                             \
		return e;                                                                       \
	}

UPDATE(cuGraphExecUpdate,
       (CUgraphExec hGraphExec, CUgraph hGraph, CUgraphNode *hErrorNode_out,
	CUgraphExecUpdateResult *updateResult_out),
       (hGraphExec, hGraph, hErrorNode_out, updateResult_out))
UPDATE(cuGraphExecUpdate_v2,
       (CUgraphExec hGraphExec, CUgraph hGraph, CUgraphExecUpdateResultInfo *resultInfo),
       (hGraphExec, hGraph, resultInfo))

/* Its handle may be another graph's at once, so what is known of it goes before. */
CUresult hook_cuGraphExecDestroy(CUgraphExec hGraphExec)
{
	GUEST_OR_PASS(cuGraphExecDestroy, (hGraphExec));
	struct object part[OBJECT_BATCH], waits;
	bool waited = object_count(guest->objects, OBJECT_EXEC_WAITS) &&
		      object_take(guest->objects, OBJECT_EXEC_WAITS, KEY(hGraphExec), &waits);
	int n = 0;
	CUresult e;

	for (int i = 0; i < guest->ndevices && object_count(guest->objects, OBJECT_EXEC); i++)
		if (n < OBJECT_BATCH &&
		    object_take(guest->objects, OBJECT_EXEC,
				graph_key(hGraphExec, &guest->device[i]), &part[n]))
			n++;
	e = graph_destroy(guest, hGraphExec, waited ? waits.hosts : NULL);
	if (e && waited)
		object_put(guest->objects, &waits);
	for (int i = 0; i < n; i++)
		if (e)
			object_put(guest->objects, &part[i]);
		else /* normally the driver keeps the memory */
			graph_settle(guest, guest_device(guest, part[i].device));
	return e;
}

CUresult hook_cuDeviceGraphMemTrim(CUdevice device)
{
	GUEST_OR_PASS(cuDeviceGraphMemTrim, (device));
	struct guest_device *d = guest_device(guest, device);
	CUresult e;

	if (d)
		graph_take_begin(d);
	e = DRIVER(cuDeviceGraphMemTrim, (device));
	if (d)
		graph_take_end(d);
	if (!e && d)
		graph_settle(guest, d);
	return e;
}
