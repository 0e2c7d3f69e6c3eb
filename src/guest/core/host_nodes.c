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
} runs;

static uint32_t host_run_begin(uint64_t exec)
{
	uint64_t now = now_monotonic_ns();
	uint32_t i;

	lock_take(&runs.lock);
	i = runs.n++;
	runs.run[i % RUNS] = (struct run){exec, {now, 0}};
	lock_drop(&runs.lock);
	return i;
}

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

	lock_take(&runs.lock);
	for (uint32_t i = host_runs_first(); i != runs.n && n < HOST_TIMES; i++) {
		const struct run *run = &runs.run[i % RUNS];

		if (run->exec == exec && run->time.from_ns < to_ns && run->time.to_ns > from_ns)
			ret[n++] = (struct host_time){max_u64(run->time.from_ns, from_ns),
						      min_u64(run->time.to_ns, to_ns)};
	}
	lock_drop(&runs.lock);
	return n;
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

/* --- The function around theirs -------------------------------------------------------------- */

struct host_node {
	struct host_nodes *all;
	CUgraphNode node;
	CUDA_HOST_NODE_PARAMS own;
};

struct host_nodes {
	size_t bytes; /* of this mapping */
	uint64_t exec;
	CUuserObject object;
	size_t n;
	struct host_node node[];
};

static void CUDA_CB host_node_run(void *arg)
{
	const struct host_node *node = arg;
	uint32_t run = host_run_begin(node->all->exec);

	node->own.fn(node->own.userData);
	host_run_end(run);
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

static bool host_node_is(CUgraphNode node)
{
	CUgraphNodeType type;

	return !DRIVER(cuGraphNodeGetType, (node, &type)) && type == CU_GRAPH_NODE_TYPE_HOST;
}

/* How many of the nodes have host functions; 0 also if they are no chain. */
static size_t host_nodes_count(const CUgraphNode *node, size_t n)
{
	size_t hosts = 0, heads = 0;

	for (size_t i = 0; i < n; i++) {
		if (!host_node_is_of_chain(node[i], &heads))
			return 0;
		hosts += host_node_is(node[i]);
	}
	return hosts;
}

static void host_nodes_add(struct host_nodes *nodes, CUgraphNode of)
{
	struct host_node *node = &nodes->node[nodes->n];
	CUDA_HOST_NODE_PARAMS ours = {host_node_run, node};

	*node = (struct host_node){.all = nodes, .node = of};
	/* A node that has our function already is being instantiated by another thread. */
	if (DRIVER(cuGraphHostNodeGetParams, (of, &node->own)) || node->own.fn == host_node_run ||
	    DRIVER(cuGraphHostNodeSetParams, (of, &ours)))
		return;
	nodes->n++;
}

/* False: a node still has our function, which lives for as long as the graph. */
static bool host_nodes_give_back(struct host_nodes *nodes)
{
	bool all = true;

	for (size_t i = 0; i < nodes->n; i++)
		if (DRIVER(cuGraphHostNodeSetParams, (nodes->node[i].node, &nodes->node[i].own)))
			all = false;
	return all;
}

static struct host_nodes *host_nodes_new(CUgraph graph, size_t n)
{
	size_t bytes = sizeof(struct host_nodes) + n * sizeof(struct host_node);
	struct host_nodes *nodes = pages_map(bytes);

	if (!nodes)
		return NULL;
	nodes->bytes = bytes;
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

struct host_nodes *host_nodes_watch(struct guest *guest, CUgraph graph)
{
	struct host_nodes *nodes = NULL;
	struct graph_nodes all;
	size_t hosts;

	if (graph_nodes_read(graph, &all))
		return NULL;
	hosts = host_nodes_count(all.node, all.n);
	if (hosts)
		nodes = host_nodes_new(graph, hosts);
	for (size_t i = 0; nodes && i < all.n && nodes->n < hosts; i++)
		if (host_node_is(all.node[i]))
			host_nodes_add(nodes, all.node[i]);
	graph_nodes_free(&all);
	return nodes;
}

void host_nodes_watched(struct guest *guest, struct host_nodes *nodes, CUgraph graph,
			CUgraphExec exec)
{
	if (!nodes)
		return;
	nodes->exec = KEY(exec);
	/* With the graph's reference may go what no executable has. */
	if (host_nodes_give_back(nodes))
		DRIVER(cuGraphReleaseUserObject, (graph, nodes->object, 1));
}
