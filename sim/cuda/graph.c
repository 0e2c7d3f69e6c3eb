/* SPDX-License-Identifier: Apache-2.0 */
/* Graphs as data. */
#include "sim/cuda/graph.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "sim/cuda/sim.h"
#include "sim/cuda/stream.h"
#include "sim/cuda/user_object.h"

struct graph_mem {
	struct graph_mem *next;
	struct sim_graph_mem *mem;
	CUdeviceptr ptr;
	uint32_t refs;
	bool claimed;
};

/* All allocation nodes' memory in the process: a free node names it by address. */
static pthread_mutex_t mem_lock = PTHREAD_MUTEX_INITIALIZER;
static struct graph_mem *mems;

static struct graph_mem *graph_mem_add(struct sim_graph_mem *memory, CUdeviceptr ptr)
{
	struct graph_mem *mem = calloc(1, sizeof(*mem));

	if (!mem)
		return NULL;
	mem->mem = memory;
	mem->ptr = ptr;
	mem->refs = 1;
	pthread_mutex_lock(&mem_lock);
	mem->next = mems;
	mems = mem;
	pthread_mutex_unlock(&mem_lock);
	return mem;
}

static struct graph_mem *graph_mem_ref(struct graph_mem *mem)
{
	if (mem) {
		pthread_mutex_lock(&mem_lock);
		mem->refs++;
		pthread_mutex_unlock(&mem_lock);
	}
	return mem;
}

static struct graph_mem *graph_mem_find(CUdeviceptr ptr)
{
	struct graph_mem *mem;

	pthread_mutex_lock(&mem_lock);
	for (mem = mems; mem && mem->ptr != ptr; mem = mem->next)
		;
	if (mem)
		mem->refs++;
	pthread_mutex_unlock(&mem_lock);
	return mem;
}

static void graph_mem_unref(struct graph_mem *mem)
{
	if (!mem)
		return;
	pthread_mutex_lock(&mem_lock);
	if (--mem->refs) {
		pthread_mutex_unlock(&mem_lock);
		return;
	}
	for (struct graph_mem **link = &mems; *link; link = &(*link)->next) {
		if (*link == mem) {
			*link = mem->next;
			break;
		}
	}
	pthread_mutex_unlock(&mem_lock);
	sim_graph_mem_destroy(mem->mem);
	free(mem);
}

struct sim_graph_mem *graph_mem_of(const struct sim_node *node)
{
	return node->mem->mem;
}

bool graph_mem_claim(struct sim_node *node)
{
	bool ok;

	pthread_mutex_lock(&mem_lock);
	ok = !node->mem->claimed;
	node->mem->claimed = true;
	pthread_mutex_unlock(&mem_lock);
	return ok;
}

void graph_mem_disclaim(struct sim_node *node)
{
	pthread_mutex_lock(&mem_lock);
	node->mem->claimed = false;
	pthread_mutex_unlock(&mem_lock);
}

CUresult graph_lookup(CUgraph handle, struct sim_graph **ret_graph)
{
	struct sim_graph *graph = (struct sim_graph *)handle;
	CUresult error = sim_ready();

	if (error)
		return error;
	if (!graph || graph->magic != GRAPH_MAGIC)
		return CUDA_ERROR_INVALID_VALUE;
	*ret_graph = graph;
	return CUDA_SUCCESS;
}

CUresult node_lookup(CUgraphNode handle, struct sim_node **ret_node)
{
	struct sim_node *node = (struct sim_node *)handle;
	CUresult error = sim_ready();

	if (error)
		return error;
	if (!node || node->magic != NODE_MAGIC)
		return CUDA_ERROR_INVALID_VALUE;
	*ret_node = node;
	return CUDA_SUCCESS;
}

struct sim_graph *graph_new(void)
{
	struct sim_graph *graph = calloc(1, sizeof(*graph));

	if (graph) {
		graph->magic = GRAPH_MAGIC;
		graph->tail = &graph->nodes;
	}
	return graph;
}

static void graph_node_release(struct sim_node *node)
{
	if (node->work.kind == WORK_GRAPH)
		graph_free((struct sim_graph *)node->work.graph);
	graph_mem_unref(node->mem);
	free(node->deps);
	node->magic = 0;
	free(node);
}

void graph_free(struct sim_graph *graph)
{
	if (!graph)
		return;
	for (struct sim_node *node = graph->nodes, *next; node; node = next) {
		next = node->next;
		graph_node_release(node);
	}
	user_object_refs_release(graph->objects, NULL);
	graph->magic = 0;
	free(graph);
}

static void graph_node_remove_dep(struct sim_node *node, const struct sim_node *dep)
{
	size_t kept = 0;

	for (size_t i = 0; i < node->n_deps; i++)
		if (node->deps[i] != dep)
			node->deps[kept++] = node->deps[i];
	node->n_deps = kept;
}

void node_free(struct sim_node *node)
{
	struct sim_graph *graph = node->graph;
	struct sim_node **link = &graph->nodes;

	while (*link != node)
		link = &(*link)->next;
	*link = node->next;
	if (graph->tail == &node->next)
		graph->tail = link;
	graph->n--;
	for (struct sim_node *other = graph->nodes; other; other = other->next)
		graph_node_remove_dep(other, node);
	graph_node_release(node);
}

static CUresult graph_deps_copy(struct sim_graph *graph, CUgraphNode const *deps, size_t n,
				struct sim_node ***ret_deps)
{
	struct sim_node **copy;

	if (n && !deps)
		return CUDA_ERROR_INVALID_VALUE;
	copy = malloc((n ? n : 1) * sizeof(*copy));
	if (!copy)
		return CUDA_ERROR_OUT_OF_MEMORY;
	for (size_t i = 0; i < n; i++) {
		if (node_lookup(deps[i], &copy[i]) || copy[i]->graph != graph) {
			free(copy);
			return CUDA_ERROR_INVALID_VALUE;
		}
	}
	*ret_deps = copy;
	return CUDA_SUCCESS;
}

static void graph_node_show_params(struct sim_node *node)
{
	if (node->work.kind == WORK_KERNEL)
		for (unsigned int i = 0; i < SIM_KERNEL_ARGS; i++)
			node->params[i] = &node->work.launch.arg[i];
}

CUresult node_add(struct sim_graph *graph, const struct sim_work *work, CUgraphNode const *deps,
		  size_t n_deps, struct sim_node **ret_node)
{
	struct sim_node *node = calloc(1, sizeof(*node));
	CUresult error;

	if (!node)
		return CUDA_ERROR_OUT_OF_MEMORY;
	error = graph_deps_copy(graph, deps, n_deps, &node->deps);
	if (error) {
		free(node);
		return error;
	}
	node->magic = NODE_MAGIC;
	node->n_deps = n_deps;
	node->graph = graph;
	node->work = *work;
	graph_node_show_params(node);
	*graph->tail = node;
	graph->tail = &node->next;
	graph->n++;
	*ret_node = node;
	return CUDA_SUCCESS;
}

CUresult node_set(struct sim_node *node, const struct sim_work *work)
{
	if (node->work.kind != work->kind)
		return CUDA_ERROR_INVALID_VALUE;
	node->work = *work;
	graph_node_show_params(node);
	return CUDA_SUCCESS;
}

CUresult node_add_alloc(struct sim_graph *graph, const CUmemPoolProps *props, size_t bytes,
			CUgraphNode const *deps, size_t n_deps, struct sim_node **ret_node)
{
	struct sim_work work = {.kind = WORK_ALLOC, .mem = {.bytes = bytes, .props = *props}};
	struct sim_graph_mem *memory;
	struct graph_mem *mem;
	CUresult error = sim_graph_mem_create(props, bytes, &memory, &work.mem.ptr);

	if (error)
		return error;
	work.mem.mem = memory;
	mem = graph_mem_add(memory, work.mem.ptr);
	if (!mem) {
		sim_graph_mem_destroy(memory);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	error = node_add(graph, &work, deps, n_deps, ret_node);
	if (error)
		graph_mem_unref(mem);
	else
		(*ret_node)->mem = mem;
	return error;
}

CUresult node_add_free(struct sim_graph *graph, CUdeviceptr ptr, CUgraphNode const *deps,
		       size_t n_deps, struct sim_node **ret_node)
{
	struct sim_work work = {.kind = WORK_FREE, .mem = {.ptr = ptr}};
	struct graph_mem *mem = graph_mem_find(ptr);
	CUresult error = mem ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;

	/* Freed twice in one graph? */
	for (struct sim_node *node = graph->nodes; node && !error; node = node->next)
		if (node->work.kind == WORK_FREE && node->work.mem.ptr == ptr)
			error = CUDA_ERROR_INVALID_VALUE;
	if (!error) {
		work.mem.mem = mem->mem;
		error = node_add(graph, &work, deps, n_deps, ret_node);
	}
	if (error)
		graph_mem_unref(mem);
	else
		(*ret_node)->mem = mem;
	return error;
}

CUgraphNodeType node_type(const struct sim_node *node)
{
	static const CUgraphNodeType types[] = {
		[WORK_KERNEL] = CU_GRAPH_NODE_TYPE_KERNEL,
		[WORK_COPY] = CU_GRAPH_NODE_TYPE_MEMCPY,
		[WORK_SET] = CU_GRAPH_NODE_TYPE_MEMSET,
		[WORK_HOST] = CU_GRAPH_NODE_TYPE_HOST,
		[WORK_READ_VALUE] = CU_GRAPH_NODE_TYPE_BATCH_MEM_OP,
		[WORK_WRITE_VALUE] = CU_GRAPH_NODE_TYPE_BATCH_MEM_OP,
		[WORK_ALLOC] = CU_GRAPH_NODE_TYPE_MEM_ALLOC,
		[WORK_FREE] = CU_GRAPH_NODE_TYPE_MEM_FREE,
		[WORK_RECORD_EVENT] = CU_GRAPH_NODE_TYPE_EVENT_RECORD,
		[WORK_WAIT_EVENT] = CU_GRAPH_NODE_TYPE_WAIT_EVENT,
		[WORK_GRAPH] = CU_GRAPH_NODE_TYPE_GRAPH,
		[WORK_EMPTY] = CU_GRAPH_NODE_TYPE_EMPTY,
	};

	return types[node->work.kind];
}

void graph_number(struct sim_graph *graph)
{
	size_t i = 0;

	for (struct sim_node *node = graph->nodes; node; node = node->next)
		node->index = i++;
}

struct sim_graph *graph_copy(struct sim_graph *graph)
{
	struct sim_node **copies = calloc(graph->n + 1, sizeof(*copies)), *made;
	struct sim_graph *copy = graph_new();

	if (!copy || !copies || user_object_refs_copy(&copy->objects, graph->objects))
		goto fail;
	graph_number(graph);
	for (struct sim_node *node = graph->nodes; node; node = node->next) {
		struct sim_work work = node->work;

		if (work.kind == WORK_GRAPH) {
			struct sim_graph *child = graph_copy((struct sim_graph *)work.graph);

			if (!child)
				goto fail;
			child->child = true;
			work.graph = (CUgraph)child;
		}
		if (node_add(copy, &work, NULL, 0, &made)) {
			if (work.kind == WORK_GRAPH)
				graph_free((struct sim_graph *)work.graph);
			goto fail;
		}
		made->mem = graph_mem_ref(node->mem);
		made->origin = node;
		copies[node->index] = made;
	}
	/* A node may depend on one made later, so that edges come when all copies exist. */
	for (struct sim_node *node = graph->nodes; node; node = node->next) {
		struct sim_node **deps = calloc(node->n_deps + 1, sizeof(*deps));

		if (!deps)
			goto fail;
		for (size_t i = 0; i < node->n_deps; i++)
			deps[i] = copies[node->deps[i]->index];
		made = copies[node->index];
		free(made->deps);
		made->deps = deps;
		made->n_deps = node->n_deps;
	}
	free(copies);
	return copy;
fail:
	free(copies);
	graph_free(copy);
	return NULL;
}

bool graph_has_memory(const struct sim_graph *graph)
{
	for (const struct sim_node *node = graph->nodes; node; node = node->next)
		if (node->mem || (node->work.kind == WORK_GRAPH &&
				  graph_has_memory((struct sim_graph *)node->work.graph)))
			return true;
	return false;
}

struct sim_node *graph_find_copy(struct sim_graph *graph, const struct sim_node *origin)
{
	for (struct sim_node *node = graph->nodes; node; node = node->next)
		if (node->origin == origin)
			return node;
	return NULL;
}

/* Among those whose dependencies are met, the order of creation. */
int graph_sort(struct sim_graph *graph, struct sim_node ***ret_order)
{
	struct sim_node **order = calloc(graph->n + 1, sizeof(*order));
	size_t n = 0;
	bool again;

	if (!order)
		return -ENOMEM;
	for (struct sim_node *node = graph->nodes; node; node = node->next)
		node->unmet = 1; /* 1: not placed */
	do {
		again = false;
		for (struct sim_node *node = graph->nodes; node; node = node->next) {
			bool met = node->unmet;

			for (size_t i = 0; met && i < node->n_deps; i++)
				met = !node->deps[i]->unmet;
			if (!met)
				continue;
			node->unmet = 0;
			order[n++] = node;
			again = true;
		}
	} while (again);
	if (n != graph->n) {
		free(order);
		return -EINVAL;
	}
	*ret_order = order;
	return 0;
}
