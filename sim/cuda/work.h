/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a stream runs. One description serves a call on a stream, a captured node and a graph's
 * node: work_submit() runs it or, on a capturing stream, records it.
 */
#ifndef ALLOT_SIM_WORK_H
#define ALLOT_SIM_WORK_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "nvidia/abi/cuda.h"

struct sim_exec;
struct sim_event;
struct sim_stream;
struct sim_graph_mem;

/*
 * One completion, referenced by the events and works that need it. Host threads sleep on `state`;
 * the executors in `waiters` are rung.
 */
struct sim_mark {
	_Atomic uint32_t refs;
	_Atomic uint32_t state; /* enum mark_state; a futex */
	uint64_t ns;		/* when, once done: the device's time */
	struct mark_waiter *waiters;
};

struct sim_mark *mark_new(void);
struct sim_mark *mark_ref(struct sim_mark *mark);
void mark_unref(struct sim_mark *mark);
bool mark_done(struct sim_mark *mark);
void mark_set(struct sim_mark *mark, uint64_t ns);
void mark_wait(struct sim_mark *mark);
/* False when it is done already; else the executor is rung when it is. */
bool mark_watch(struct sim_mark *mark, struct sim_exec *exec);
/* After this returns no ring of this executor is on its way. */
void mark_quiesce(void);

enum sim_kernel {
	SIM_KERNEL_OTHER, /* 5 us of nothing */
	SIM_KERNEL_SPIN,
	SIM_KERNEL_FILL,
	SIM_KERNEL_CHECK,
	SIM_KERNEL_MEET,
	SIM_KERNEL_LOOK,
};

#define SIM_KERNEL_ARGS 4

struct sim_launch {
	CUfunction function;
	enum sim_kernel id;
	unsigned int grid[3];
	unsigned int block[3];
	unsigned int shared_bytes;
	uint64_t arg[SIM_KERNEL_ARGS];
};

enum work_kind {
	/* These run on the device. */
	WORK_KERNEL,
	WORK_COPY,
	WORK_SET,
	/* These only order other work. */
	WORK_HOST,
	WORK_CALLBACK,
	WORK_CALL,
	WORK_MARK,
	WORK_WAIT,
	WORK_READ_VALUE,
	WORK_WRITE_VALUE,
	WORK_ALLOC,
	WORK_FREE,
	WORK_UNBACK,
	/* These are only ever a graph's nodes. */
	WORK_RECORD_EVENT,
	WORK_WAIT_EVENT,
	WORK_GRAPH,
	WORK_EMPTY,
};

struct sim_work {
	enum work_kind kind;
	union {
		struct sim_launch launch;
		CUDA_MEMCPY3D copy;
		CUDA_MEMSET_NODE_PARAMS set;
		CUDA_HOST_NODE_PARAMS host;
		struct {
			CUstreamCallback fn;
			void *data;
			CUstream stream;
		} callback;
		struct {
			void (*fn)(void *arg);
			void *arg;
		} call;
		struct {
			struct sim_mark *mark; /* one reference, owned */
			bool recorded;	       /* an event's, not one that a thread waits for */
		};
		struct sim_event *event; /* borrowed */
		struct {
			CUdeviceptr address;
			uint64_t value;
			unsigned int flags;
			bool wide;
		} value;
		struct {
			struct sim_graph_mem *mem; /* NULL when freed by address alone */
			CUdeviceptr ptr;
			size_t bytes;
			CUmemPoolProps props;
		} mem;
		CUgraph graph;
	};
};

/* The work's mark is taken over in any case: one that cannot be submitted is dropped. */
CUresult work_submit(struct sim_stream *stream, const struct sim_work *work);
void work_drop(const struct sim_work *work);

/* The device work that executor.c drives in steps. */
struct sim_op {
	struct sim_op *next;	/* in the stream */
	struct sim_op *running; /* in the executor's list */
	struct sim_stream *stream;
	uint64_t stamp; /* order among all works of the context */
	uint64_t enqueued_ns;
	uint64_t ready_ns; /* when it could start, once started */
	uint64_t left_ns;  /* until the end of its current step */
	uint64_t cursor;   /* how far the steps got */
	uint64_t bad;	   /* sim_check: words that differ so far */
	enum { OP_QUEUED, OP_READY, OP_RUNNING } state;
	struct sim_work work;
	void *staged; /* freed with it: a copy of pageable host memory */
};

/*
 * The next step of a kernel, copy or set: does its part of the work and gives how long the device
 * is taken by it; at_ns is the device's time, which is never ahead of the clock. *ret_last says
 * that nothing follows. An error sticks to the context.
 */
CUresult kernel_step(struct sim_op *op, uint64_t at_ns, uint64_t *ret_ns, bool *ret_last);
CUresult copy_step(struct sim_op *op, uint64_t *ret_ns, bool *ret_last);
CUresult set_step(struct sim_op *op, uint64_t *ret_ns, bool *ret_last);

/* Does the host own this side of a copy? Does it own neither? */
bool copy_side_is_host(CUmemorytype type, CUdeviceptr device);
bool copy_on_device(const CUDA_MEMCPY3D *copy);

/*
 * Is a copy or set well formed? With `now` all memory that it names must be there, too; a node of a
 * graph, which runs later, may name memory that is not there yet.
 */
CUresult copy_check(const CUDA_MEMCPY3D *copy, bool now);
CUresult set_check(const CUDA_MEMSET_NODE_PARAMS *set, bool now);

#endif
