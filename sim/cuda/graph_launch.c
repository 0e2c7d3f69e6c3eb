/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Executables: a graph's nodes become works of the stream, one after the other in an order that
 * its edges allow. (Side by side would also be right, and shorter; one launch of one graph is a
 * unit here.) A launch waits for the executable's last one, in whatever stream that was.
 */
#include <stdlib.h>

#include "base/now.h"
#include "sim/cuda/event.h"
#include "sim/cuda/graph.h"
#include "sim/cuda/stream.h"

/* Works lined up for one push. */
struct line {
	struct sim_op *first, *last;
	uint32_t n;
};

static CUresult graph_launch_line_add(struct line *line, const struct sim_work *work)
{
	struct sim_op *op = op_new(work);

	if (!op)
		return CUDA_ERROR_OUT_OF_MEMORY;
	if (line->last)
		line->last->next = op;
	else
		line->first = op;
	line->last = op;
	line->n++;
	return CUDA_SUCCESS;
}

static void graph_launch_line_drop(struct line *line)
{
	for (struct sim_op *op = line->first, *next; op; op = next) {
		next = op->next;
		if (op->work.kind == WORK_MARK)
			mark_set(op->work.mark, now_monotonic_ns());
		op_free(op);
	}
}

/* The mark's reference goes to the work, or is dropped. */
static CUresult graph_launch_line_add_mark(struct line *line, struct sim_work work)
{
	struct sim_mark *mark = work.mark;
	CUresult error = mark ? graph_launch_line_add(line, &work) : CUDA_ERROR_OUT_OF_MEMORY;

	if (error && mark)
		work_drop(&work);
	return error;
}

static CUresult graph_launch_add_node(struct line *line, const struct sim_node *node);

static CUresult graph_launch_add_all(struct line *line, struct sim_graph *graph)
{
	struct sim_node **order;
	CUresult error = CUDA_SUCCESS;

	if (graph_sort(graph, &order))
		return CUDA_ERROR_INVALID_VALUE;
	for (size_t i = 0; i < graph->n && !error; i++)
		error = graph_launch_add_node(line, order[i]);
	free(order);
	return error;
}

static CUresult graph_launch_add_node(struct line *line, const struct sim_node *node)
{
	struct sim_mark *mark;
	CUresult error;

	if (node->disabled)
		return CUDA_SUCCESS;
	switch (node->work.kind) {
	case WORK_EMPTY:
		return CUDA_SUCCESS;
	case WORK_GRAPH:
		return graph_launch_add_all(line, (struct sim_graph *)node->work.graph);
	case WORK_RECORD_EVENT:
		return graph_launch_line_add_mark(
			line, (struct sim_work){.kind = WORK_MARK, .recorded = true,
						.mark = event_record(node->work.event)});
	case WORK_WAIT_EVENT:
		mark = event_mark(node->work.event);
		if (!mark)
			return CUDA_SUCCESS;
		return graph_launch_line_add_mark(
			line, (struct sim_work){.kind = WORK_WAIT, .mark = mark});
	case WORK_KERNEL:
		error = sim_function_launch(node->work.launch.function);
		return error ? error : graph_launch_line_add(line, &node->work);
	default:
		return graph_launch_line_add(line, &node->work);
	}
}

static bool graph_launch_freed_within(const struct sim_graph *graph, CUdeviceptr ptr)
{
	for (const struct sim_node *node = graph->nodes; node; node = node->next)
		if (node->work.kind == WORK_FREE && node->work.mem.ptr == ptr)
			return true;
	return false;
}

/* Memory that an earlier launch left is freed first where that was asked for, else an error. */
static CUresult graph_launch_free_leftovers(struct sim_graph_exec *exec, struct line *line)
{
	struct sim_graph *graph = exec->graph;
	struct sim_work work = {.kind = WORK_FREE};

	if (!exec->last)
		return CUDA_SUCCESS;
	for (struct sim_node *node = graph->nodes; node; node = node->next) {
		if (node->work.kind != WORK_ALLOC ||
		    graph_launch_freed_within(graph, node->work.mem.ptr))
			continue;
		work.mem = node->work.mem;
		if (exec->flags & CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH) {
			if (graph_launch_line_add(line, &work))
				return CUDA_ERROR_OUT_OF_MEMORY;
			continue;
		}
		/*
		 * Only when all that was enqueued before has run is it known whether the memory was
		 * freed.
		 */
		mark_wait(exec->last);
		if (sim_graph_mem_in_use(work.mem.mem))
			return CUDA_ERROR_INVALID_VALUE;
	}
	return CUDA_SUCCESS;
}

/* Back all allocation nodes, or none; their unbacking is put at the line's end. */
static CUresult graph_launch_back(struct sim_graph *graph, struct line *line)
{
	struct sim_work work = {.kind = WORK_UNBACK};
	struct line unback = {NULL, NULL, 0};
	CUresult error = CUDA_SUCCESS;

	for (struct sim_node *node = graph->nodes; node && !error; node = node->next) {
		if (node->work.kind != WORK_ALLOC)
			continue;
		work.mem = node->work.mem;
		error = sim_graph_mem_back(work.mem.mem);
		if (!error && graph_launch_line_add(&unback, &work)) {
			sim_graph_mem_unback(work.mem.mem);
			error = CUDA_ERROR_OUT_OF_MEMORY;
		}
	}
	if (error) {
		for (struct sim_op *op = unback.first; op; op = op->next)
			sim_graph_mem_unback(op->work.mem.mem);
		graph_launch_line_drop(&unback);
		return error;
	}
	if (!unback.first)
		return CUDA_SUCCESS;
	if (line->last)
		line->last->next = unback.first;
	else
		line->first = unback.first;
	line->last = unback.last;
	line->n += unback.n;
	return CUDA_SUCCESS;
}

static CUresult graph_launch_submit(struct sim_graph_exec *exec, struct sim_stream *stream)
{
	struct line line = {NULL, NULL, 0};
	struct sim_mark *mark = mark_new();
	CUresult error = mark ? exec_start(stream->exec) : CUDA_ERROR_OUT_OF_MEMORY;

	if (!error && exec->last && !mark_done(exec->last))
		error = graph_launch_line_add_mark(
			&line,
			(struct sim_work){.kind = WORK_WAIT, .mark = mark_ref(exec->last)});
	if (!error)
		error = graph_launch_free_leftovers(exec, &line);
	for (size_t i = 0; i < exec->graph->n && !error; i++)
		error = graph_launch_add_node(&line, exec->order[i]);
	if (!error)
		error = graph_launch_line_add_mark(
			&line, (struct sim_work){.kind = WORK_MARK, .mark = mark_ref(mark)});
	if (!error)
		error = graph_launch_back(exec->graph, &line);
	if (error) {
		graph_launch_line_drop(&line);
		mark_unref(mark);
		return error;
	}
	mark_unref(exec->last);
	exec->last = mark;
	stream_push(stream, line.first, line.last, line.n);
	return CUDA_SUCCESS;
}

CUresult graph_launch(struct sim_graph_exec *exec, struct sim_stream *stream)
{
	CUresult error;

	pthread_mutex_lock(&exec->lock);
	error = graph_launch_submit(exec, stream);
	pthread_mutex_unlock(&exec->lock);
	return error;
}

CUresult graph_upload(struct sim_graph_exec *exec, struct sim_stream *stream)
{
	struct line line = {NULL, NULL, 0};
	CUresult error = exec_start(stream->exec);

	if (!error)
		error = graph_launch_back(exec->graph, &line);
	if (!error && line.first)
		stream_push(stream, line.first, line.last, line.n);
	return error;
}
