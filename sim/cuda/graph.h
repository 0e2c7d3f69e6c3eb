/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Graphs: nodes with works and dependencies. As in the driver, one graph is edited by one thread at
 * a time; what several graphs and executables share (the memory of allocation nodes) is counted.
 */
#ifndef ALLOT_SIM_GRAPH_H
#define ALLOT_SIM_GRAPH_H

#include "sim/cuda/exec.h"
#include "sim/cuda/work.h"

#define GRAPH_MAGIC 0x67726170u
#define NODE_MAGIC 0x6e6f6465u
#define GRAPH_EXEC_MAGIC 0x67657865u

struct sim_graph;

/* An allocation node's memory, held by every graph and executable that has a copy of the node. */
struct graph_mem;

struct sim_node {
	uint32_t magic;
	bool disabled; /* in an executable */
	struct sim_graph *graph;
	struct sim_node *next;	 /* in order of creation */
	struct sim_node *origin; /* in a copy: the node it was made from; only ever compared */
	struct sim_work work;
	struct graph_mem *mem; /* of allocation and free nodes; one reference */
	struct sim_node **deps;
	size_t n_deps;
	uint32_t unmet; /* while the graph is sorted */
	size_t index;	/* by creation, when counted */
	void *params[SIM_KERNEL_ARGS]; /* what GetParams shows: into work.launch.arg */
};

struct sim_graph {
	uint32_t magic;
	bool child; /* belongs to a node */
	struct sim_node *nodes;
	struct sim_node **tail;
	size_t n;
	struct user_object_ref *objects; /* that it keeps */
};

struct sim_graph_exec {
	uint32_t magic;
	unsigned long long flags;
	struct sim_graph *graph; /* a copy, its own */
	struct sim_node **order;
	pthread_mutex_t lock; /* over last: one launch runs after the other */
	struct sim_mark *last;
};

CUresult graph_lookup(CUgraph handle, struct sim_graph **ret_graph);
CUresult node_lookup(CUgraphNode handle, struct sim_node **ret_node);
CUresult graph_exec_lookup(CUgraphExec handle, struct sim_graph_exec **ret_exec);

struct sim_graph *graph_new(void);
void graph_free(struct sim_graph *graph);
/* A deep copy: child graphs too. Memory is shared, not copied. NULL without memory. */
struct sim_graph *graph_copy(struct sim_graph *graph);
bool graph_has_memory(const struct sim_graph *graph);
/* The copy's node that was made from `origin`, in the graph itself, not in its children. */
struct sim_node *graph_find_copy(struct sim_graph *graph, const struct sim_node *origin);
/* All nodes so that each comes after what it depends on: -EINVAL for a cycle, -ENOMEM. */
int graph_sort(struct sim_graph *graph, struct sim_node ***ret_order);
void graph_number(struct sim_graph *graph);

/* Takes the work over on success; what it names (events, child graphs) must be ready. */
CUresult node_add(struct sim_graph *graph, const struct sim_work *work, CUgraphNode const *deps,
		  size_t n_deps, struct sim_node **ret_node);
void node_free(struct sim_node *node);
CUgraphNodeType node_type(const struct sim_node *node);
CUresult node_add_alloc(struct sim_graph *graph, const CUmemPoolProps *props, size_t bytes,
			CUgraphNode const *deps, size_t n_deps, struct sim_node **ret_node);
/* INVALID_VALUE when the address is no allocation node's. */
CUresult node_add_free(struct sim_graph *graph, CUdeviceptr ptr, CUgraphNode const *deps,
		       size_t n_deps, struct sim_node **ret_node);
/* Replace a node's work by one of the same kind. */
CUresult node_set(struct sim_node *node, const struct sim_work *work);

struct sim_graph_mem *graph_mem_of(const struct sim_node *node);
/* An executable begins or ends to use it: only one may at a time. */
bool graph_mem_claim(struct sim_node *node);
void graph_mem_disclaim(struct sim_node *node);

/* graph_api.c: the works that parameters describe, checked. No child graphs, no memory nodes. */
CUresult graph_kernel_work(const CUDA_KERNEL_NODE_PARAMS *params, struct sim_work *ret_work);
CUresult graph_copy_work(const CUDA_MEMCPY3D *params, struct sim_work *ret_work);
CUresult graph_set_work(const CUDA_MEMSET_NODE_PARAMS *params, struct sim_work *ret_work);
CUresult graph_host_work(const CUDA_HOST_NODE_PARAMS *params, struct sim_work *ret_work);
CUresult graph_event_work(enum work_kind kind, CUevent event, struct sim_work *ret_work);
CUresult graph_params_work(const CUgraphNodeParams *params, struct sim_work *ret_work);

/* graph_launch.c */
CUresult graph_launch(struct sim_graph_exec *exec, struct sim_stream *stream);
CUresult graph_upload(struct sim_graph_exec *exec, struct sim_stream *stream);

#endif
