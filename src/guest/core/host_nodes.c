/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/core/host_nodes.h"

#include <string.h>
#include <sys/mman.h>

#include "base/lock.h"
#include "base/now.h"
#include "base/number.h"
#include "base/pages.h"
#include "guest/core/graph_nodes.h"
#include "guest/core/hook.h"

/* --- When they ran --------------------------------------------------------------------------- */

#define RUNS 256

struct run {
	uint64_t exec;
	struct host_time time; /* to_ns 0: it still runs */
};

static struct {
	struct lock_host_nodes lock;
	uint32_t n; /* of all that began; the last RUNS are kept */
	struct run run[RUNS];
	_Atomic uint32_t readers; /* threads that may know an event of them */
} runs;

static void host_run_end(uint32_t i)
{
	lock_take(&runs.lock);
	if (runs.n - i <= RUNS)
		runs.run[i % RUNS].time.to_ns = now_monotonic_ns();
	lock_drop(&runs.lock);
}

static uint32_t host_runs_first(void)
{
	return runs.n > RUNS ? runs.n - RUNS : 0;
}

int host_nodes_between(uint64_t exec, uint64_t from_ns, uint64_t to_ns,
		       struct host_time ret[HOST_TIMES])
{
	int n = 0;

	atomic_fetch_add(&runs.readers, 1);
	lock_take(&runs.lock);
	for (uint32_t i = host_runs_first(); i != runs.n && n < HOST_TIMES; i++) {
		const struct run *run = &runs.run[i % RUNS];

		if (run->exec == exec && run->time.from_ns < to_ns && run->time.to_ns > from_ns)
			ret[n++] = (struct host_time){max_u64(run->time.from_ns, from_ns),
						      min_u64(run->time.to_ns, to_ns),
						      {run->time.event[0], run->time.event[1]}};
	}
	lock_drop(&runs.lock);
	return n;
}

void host_nodes_read(void)
{
	atomic_fetch_sub(&runs.readers, 1);
}

bool host_nodes_run(uint64_t exec)
{
	bool any = false;

	lock_take(&runs.lock);
	for (uint32_t i = host_runs_first(); i != runs.n && !any; i++)
		any = runs.run[i % RUNS].exec == exec && !runs.run[i % RUNS].time.to_ns;
	lock_drop(&runs.lock);
	return any;
}

/* --- Functions around what waits ------------------------------------------------------------- */

/* A node that waits. A host node has its own function back when the graph is instantiated. */
struct host_node {
	struct host_nodes *all;
	CUgraphNode node;
	CUDA_HOST_NODE_PARAMS own;	/* of a host node */
	CUgraphNode begin, end;	   /* ours, around a node that waits for something else */
	CUgraphNode record[2];	   /* of the events; ours, around all that */
	CUevent event[2];
	_Atomic uint32_t run; /* from `begin` to `end` */
};

struct host_nodes {
	size_t bytes; /* of this mapping */
	uint64_t exec;
	CUuserObject object;
	bool plain; /* all of them have nodes of ours */
	bool left;  /* its events end: under the lock of `runs` */
	size_t n, most;
	struct host_node node[];
};

/* With the lock. */
static void host_runs_clear(uint64_t exec)
{
	for (uint32_t i = host_runs_first(); i != runs.n; i++)
		if (runs.run[i % RUNS].exec == exec)
			memset(runs.run[i % RUNS].time.event, 0, sizeof(runs.run[0].time.event));
}

void host_nodes_forget(uint64_t exec)
{
	lock_take(&runs.lock);
	host_runs_clear(exec);
	lock_drop(&runs.lock);
}

static uint32_t host_run_begin(const struct host_node *node)
{
	struct run run = {node->all->exec, {now_monotonic_ns(), 0, {NULL}}};
	uint32_t i;

	lock_take(&runs.lock);
	if (!node->all->left)
		memcpy(run.time.event, node->event, sizeof(run.time.event));
	i = runs.n++;
	runs.run[i % RUNS] = run;
	lock_drop(&runs.lock);
	return i;
}

/* Returns whether no thread knows an event of the executable any more. */
static bool host_runs_forget(struct host_nodes *nodes)
{
	lock_take(&runs.lock);
	nodes->left = true;
	host_runs_clear(nodes->exec);
	lock_drop(&runs.lock);
	return !atomic_load(&runs.readers);
}

static void CUDA_CB host_node_run(void *arg)
{
	const struct host_node *node = arg;
	uint32_t run = host_run_begin(node);

	node->own.fn(node->own.userData);
	host_run_end(run);
}

static void CUDA_CB host_node_wait_begin(void *arg)
{
	struct host_node *node = arg;

	atomic_store(&node->run, host_run_begin(node));
}

static void CUDA_CB host_node_wait_end(void *arg)
{
	struct host_node *node = arg;

	host_run_end(atomic_load(&node->run));
}

static void CUDA_CB host_nodes_free(void *arg)
{
	struct host_nodes *nodes = arg;

	munmap(nodes, nodes->bytes);
}

/* --- A graph's nodes ------------------------------------------------------------------------- */

/* One chain has an end less than nodes; nobody has two before it or behind it. */
static bool host_node_is_of_chain(CUgraphNode node, size_t *heads)
{
	size_t before = 0, behind = 0;

	if (DRIVER(cuGraphNodeGetDependencies, (node, NULL, &before)) ||
	    DRIVER(cuGraphNodeGetDependentNodes, (node, NULL, &behind)))
		return false;
	*heads += !before;
	return before <= 1 && behind <= 1 && *heads <= 1;
}

enum host_kind {
	HOST_NONE,
	HOST_FUNCTION,
	HOST_WAIT,
	HOST_MEMORY, /* in a graph with such a node none can be removed */
	HOST_KINDS,
};

static enum host_kind host_node_kind(CUgraphNode node)
{
	CUgraphNodeType type;

	if (DRIVER(cuGraphNodeGetType, (node, &type)))
		return HOST_NONE;
	switch (type) {
	case CU_GRAPH_NODE_TYPE_HOST:
		return HOST_FUNCTION;
	case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
	case CU_GRAPH_NODE_TYPE_EXT_SEMAS_WAIT:
	case CU_GRAPH_NODE_TYPE_BATCH_MEM_OP:
		return HOST_WAIT;
	case CU_GRAPH_NODE_TYPE_MEM_ALLOC:
	case CU_GRAPH_NODE_TYPE_MEM_FREE:
		return HOST_MEMORY;
	default:
		return HOST_NONE;
	}
}

/* How many nodes of each kind there are; none also if they are no chain. */
static void host_nodes_count(const struct graph_nodes *all, size_t ret[HOST_KINDS])
{
	size_t heads = 0;

	memset(ret, 0, HOST_KINDS * sizeof(*ret));
	for (size_t i = 0; i < all->n; i++) {
		if (!host_node_is_of_chain(all->node[i], &heads)) {
			memset(ret, 0, HOST_KINDS * sizeof(*ret));
			return;
		}
		ret[host_node_kind(all->node[i])]++;
	}
}

/* False: a node still has a function of ours, which lives for as long as the graph. */
static bool host_node_give_back(struct host_node *node)
{
	CUgraphNode *const ours[] = {&node->record[1], &node->end, &node->begin, &node->record[0]};
	bool all = true;

	for (size_t i = 0; i < sizeof(ours) / sizeof(ours[0]); i++) {
		all = (!*ours[i] || !DRIVER(cuGraphDestroyNode, (*ours[i]))) && all;
		*ours[i] = NULL;
	}
	if (node->own.fn)
		all = !DRIVER(cuGraphHostNodeSetParams, (node->node, &node->own)) && all;
	return all;
}

static bool host_node_wrap(struct host_node *node)
{
	CUDA_HOST_NODE_PARAMS ours = {host_node_run, node}, own;

	/* A node that has our function already is being instantiated by another thread. */
	if (DRIVER(cuGraphHostNodeGetParams, (node->node, &own)) || own.fn == host_node_run ||
	    DRIVER(cuGraphHostNodeSetParams, (node->node, &ours)))
		return false;
	node->own = own;
	return true;
}

/* Adds a function of ours, or the recording of an event, behind a node; NULL: at the beginning. */
static bool host_node_add(CUgraph graph, CUgraphNode *ret, const CUgraphNode *behind, CUevent event,
			  const CUDA_HOST_NODE_PARAMS *function)
{
	size_t n = behind ? 1 : 0;

	return function ? !DRIVER(cuGraphAddHostNode, (ret, graph, behind, n, function))
			: !DRIVER(cuGraphAddEventRecordNode, (ret, graph, behind, n, event));
}

/*
 * Puts nodes of ours around a node of a chain. Its own edges stay, so that it is as it was when
 * ours are gone. `data`: what our functions are called with; it has the events.
 */
static bool host_node_surround(CUgraph graph, struct host_node *node, struct host_node *data,
			       enum host_kind kind)
{
	const CUDA_HOST_NODE_PARAMS begin = {host_node_wait_begin, data};
	const CUDA_HOST_NODE_PARAMS end = {host_node_wait_end, data};
	CUgraphNode last, next, *before = &node->record[0], *behind = &node->node;
	size_t lasts = 1, nexts = 1;
	bool ok = !DRIVER(cuGraphNodeGetDependencies, (node->node, &last, &lasts)) &&
		  !DRIVER(cuGraphNodeGetDependentNodes, (node->node, &next, &nexts)) &&
		  host_node_add(graph, before, lasts ? &last : NULL, data->event[0], NULL);

	if (kind == HOST_WAIT) {
		ok = ok && host_node_add(graph, &node->begin, before, NULL, &begin) &&
		     host_node_add(graph, &node->end, behind, NULL, &end);
		before = &node->begin;
		behind = &node->end;
	}
	ok = ok && host_node_add(graph, &node->record[1], behind, data->event[1], NULL) &&
	     !DRIVER(cuGraphAddDependencies, (graph, before, &node->node, 1)) &&
	     (!nexts || !DRIVER(cuGraphAddDependencies, (graph, &node->record[1], &next, 1)));
	if (!ok)
		host_node_give_back(node);
	return ok;
}

static struct host_nodes *host_nodes_map(size_t n)
{
	size_t bytes = sizeof(struct host_nodes) + n * sizeof(struct host_node);
	struct host_nodes *nodes = pages_map(bytes);

	if (nodes) {
		nodes->bytes = bytes;
		nodes->most = n;
	}
	return nodes;
}

static struct host_nodes *host_nodes_new(CUgraph graph, size_t n)
{
	struct host_nodes *nodes = host_nodes_map(n);

	if (!nodes)
		return NULL;
	if (DRIVER(cuUserObjectCreate, (&nodes->object, nodes, host_nodes_free, 1,
					CU_USER_OBJECT_NO_DESTRUCTOR_SYNC))) {
		host_nodes_free(nodes);
		return NULL;
	}
	if (!DRIVER(cuGraphRetainUserObject, (graph, nodes->object, 1, CU_GRAPH_USER_OBJECT_MOVE)))
		return nodes;
	DRIVER(cuUserObjectRelease, (nodes->object, 1));
	return NULL;
}

static void host_node_drop_events(struct host_node *node)
{
	for (int i = 0; i < 2; i++) {
		CUevent event = node->event[i];

		node->event[i] = NULL;
		if (event)
			DRIVER(cuEventDestroy_v2, (event));
	}
}

static bool host_node_make_events(struct host_node *node)
{
	return !DRIVER(cuEventCreate, (&node->event[0], CU_EVENT_DEFAULT)) &&
	       !DRIVER(cuEventCreate, (&node->event[1], CU_EVENT_DEFAULT));
}

static bool host_node_fill(struct host_node *node, CUgraph graph, enum host_kind kind)
{
	if (node->all->plain &&
	    !(host_node_make_events(node) && host_node_surround(graph, node, node, kind)))
		return false;
	return kind == HOST_WAIT || host_node_wrap(node);
}

static void host_nodes_add(struct host_nodes *nodes, CUgraph graph, CUgraphNode of)
{
	struct host_node *node = &nodes->node[nodes->n];
	enum host_kind kind = host_node_kind(of);

	if (nodes->n == nodes->most ||
	    !(kind == HOST_FUNCTION || (kind == HOST_WAIT && nodes->plain)))
		return;
	*node = (struct host_node){.all = nodes, .node = of};
	if (host_node_fill(node, graph, kind)) {
		nodes->n++;
		return;
	}
	host_node_give_back(node);
	host_node_drop_events(node);
}

/* False: some still have functions of ours. */
static bool host_nodes_give_back(struct host_nodes *nodes)
{
	bool all = true;

	for (size_t i = 0; i < nodes->n; i++)
		all = host_node_give_back(&nodes->node[i]) && all;
	return all;
}

static void host_nodes_drop_events(struct host_nodes *nodes)
{
	for (size_t i = 0; i < nodes->n; i++)
		host_node_drop_events(&nodes->node[i]);
}

/* All waits get nodes of ours, or else none does, and host nodes a function alone. */
static void host_nodes_add_all(struct host_nodes *nodes, CUgraph graph,
			       const struct graph_nodes *all)
{
	for (size_t i = 0; i < all->n; i++)
		host_nodes_add(nodes, graph, all->node[i]);
	if (!nodes->plain || nodes->n == nodes->most)
		return;
	host_nodes_give_back(nodes);
	host_nodes_drop_events(nodes);
	nodes->n = 0;
	nodes->plain = false;
	host_nodes_add_all(nodes, graph, all);
}

struct host_nodes *host_nodes_watch(struct guest *guest, CUgraph graph)
{
	struct host_nodes *nodes = NULL;
	size_t n[HOST_KINDS], waits;
	struct graph_nodes all;

	if (graph_nodes_read(graph, &all))
		return NULL;
	host_nodes_count(&all, n);
	waits = n[HOST_FUNCTION] + (n[HOST_MEMORY] ? 0 : n[HOST_WAIT]);
	if (waits)
		nodes = host_nodes_new(graph, waits);
	if (nodes) {
		nodes->plain = !n[HOST_MEMORY];
		host_nodes_add_all(nodes, graph, &all);
	}
	graph_nodes_free(&all);
	return nodes;
}

void host_nodes_watched(struct guest *guest, struct host_nodes *nodes, CUgraph graph,
			CUgraphExec exec)
{
	if (!nodes)
		return;
	nodes->exec = KEY(exec);
	if (!exec)
		host_nodes_drop_events(nodes);
	/* With the graph's reference may go what no executable has. */
	if (host_nodes_give_back(nodes))
		DRIVER(cuGraphReleaseUserObject, (graph, nodes->object, 1));
}

/* Around each wait of a graph what is around that of the executable. False: they do not match. */
static bool host_nodes_match(struct host_nodes *nodes, struct host_nodes *of, CUgraph graph,
			     const struct graph_nodes *all)
{
	for (size_t i = 0; i < all->n; i++) {
		struct host_node *node = &nodes->node[nodes->n];
		enum host_kind kind = host_node_kind(all->node[i]);

		if (kind != HOST_FUNCTION && kind != HOST_WAIT)
			continue;
		if (nodes->n == nodes->most)
			return false;
		node->node = all->node[i];
		if (!host_node_surround(graph, node, &of->node[nodes->n], kind))
			return false;
		nodes->n++;
	}
	return nodes->n == of->n;
}

/* With an update the executable gives up what it holds for what the graph does. */
static bool host_nodes_hold(struct host_nodes *nodes, struct host_nodes *of, CUgraph graph)
{
	nodes->object = of->object;
	return !DRIVER(cuGraphRetainUserObject, (graph, of->object, 1, 0));
}

/* The same nodes as the executable's, if it has any. False: the graph has other ones. */
static bool host_nodes_copy(struct host_nodes *nodes, struct host_nodes *of, CUgraph graph)
{
	struct graph_nodes all;
	size_t n[HOST_KINDS];
	bool same;

	if (!of->plain)
		return true;
	if (graph_nodes_read(graph, &all))
		return false;
	host_nodes_count(&all, n);
	same = n[HOST_FUNCTION] + n[HOST_WAIT] == of->n && !n[HOST_MEMORY] &&
	       host_nodes_match(nodes, of, graph, &all);
	graph_nodes_free(&all);
	return same;
}

struct host_nodes *host_nodes_update(struct guest *guest, struct host_nodes *of, CUgraph graph)
{
	struct host_nodes *nodes = host_nodes_map(of->n);

	if (nodes && !host_nodes_hold(nodes, of, graph)) {
		host_nodes_free(nodes);
		return NULL;
	}
	if (nodes && !host_nodes_copy(nodes, of, graph)) {
		host_nodes_updated(guest, nodes, graph);
		return NULL;
	}
	return nodes;
}

void host_nodes_updated(struct guest *guest, struct host_nodes *nodes, CUgraph graph)
{
	if (!nodes)
		return;
	if (host_nodes_give_back(nodes))
		DRIVER(cuGraphReleaseUserObject, (graph, nodes->object, 1));
	host_nodes_free(nodes);
}

bool host_nodes_keep(struct guest *guest, struct host_nodes *nodes)
{
	return nodes && !DRIVER(cuUserObjectRetain, (nodes->object, 1));
}

void host_nodes_kept(struct guest *guest, struct host_nodes *nodes, bool ended)
{
	/* While a thread may still ask one they stay, as long as the context: to ask a dead one is fatal. */
	if (ended && host_runs_forget(nodes))
		host_nodes_drop_events(nodes);
	DRIVER(cuUserObjectRelease, (nodes->object, 1));
}
