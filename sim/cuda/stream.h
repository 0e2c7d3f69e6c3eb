/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Streams: what the rest of the simulated driver may ask of the execution half, and (at the end)
 * what the execution half asks of the rest. A struct sim_exec is a context's execution state; its
 * executor thread starts with the first work.
 */
#ifndef ALLOT_SIM_STREAM_H
#define ALLOT_SIM_STREAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "nvidia/abi/cuda.h"

struct sim_context;
struct sim_exec;
struct sim_stream;

/*
 * A context's execution state: made when the context is made, no thread yet. exec_destroy waits
 * for the work, frees the streams, ends the thread; it must not be called from a host function.
 */
struct sim_exec *exec_create(struct sim_context *ctx, unsigned int device);
void exec_destroy(struct sim_exec *exec);
/*
 * Wait for all work of the context; the sticky error if it has one. cuCtxSynchronize. NULL:
 * CUDA_ERROR_CONTEXT_IS_DESTROYED.
 */
CUresult exec_synchronize(struct sim_exec *exec);
/* The same, but no synchronisation as the program knows it: pools keep what they hold. */
CUresult exec_drain(struct sim_exec *exec);
/*
 * Around such a wait, for another thread may end the context meanwhile. NULL: it ends just now, or
 * has.
 */
struct sim_exec *exec_hold(struct sim_context *ctx);
void exec_release(struct sim_exec *exec); /* takes NULL */
/* The sticky error of a context whose kernel faulted, else CUDA_SUCCESS. NULL as above. */
CUresult exec_error(struct sim_exec *exec);

/*
 * The stream that a handle names. NULL, CU_STREAM_LEGACY and CU_STREAM_PER_THREAD name streams of
 * the current context; per_thread says that the call came by a _ptsz/_ptds name, where NULL is the
 * calling thread's own stream. The handle belongs to the caller; the stream lives while it does.
 */
CUresult stream_resolve(CUstream handle, bool per_thread, struct sim_stream **ret_stream);
struct sim_context *stream_context(struct sim_stream *stream);
unsigned int stream_device(struct sim_stream *stream);
uint64_t stream_id(struct sim_stream *stream);

/*
 * Run fn(arg) in the stream's order, on the executor's thread. It may not block, nor call cu*
 * functions. Not for a capturing stream: such a call must add a node, or be refused.
 */
CUresult stream_enqueue(struct sim_stream *stream, void (*fn)(void *arg), void *arg);
/* Has the stream nothing pending? */
bool stream_idle(struct sim_stream *stream);
CUresult stream_synchronize(struct sim_stream *stream);

/*
 * Capture. A call that the driver forbids while somebody captures (cuMemAlloc, cuMemFree, module
 * loads, ... ) starts with `capture_forbids()`: CUDA_SUCCESS, or the error to answer; the capture
 * is invalidated then, as the driver does.
 */
bool stream_is_capturing(struct sim_stream *stream);
CUresult capture_forbids(void);
/* The same for cuCtxSynchronize, which no stream of the context may be capturing through. */
CUresult capture_forbids_context_sync(struct sim_exec *exec);
/* cuMemAllocAsync, cuMemAllocFromPoolAsync and cuMemFreeAsync on a capturing stream. */
CUresult capture_mem_alloc(struct sim_stream *stream, const CUmemPoolProps *props, size_t bytes,
			   CUdeviceptr *ret_ptr);
CUresult capture_mem_free(struct sim_stream *stream, CUdeviceptr ptr);

/* ---- Asked of the rest; defined by the context, memory, array and module modules ---- */

/* CUDA_ERROR_NOT_INITIALIZED, CUDA_ERROR_INVALID_CONTEXT, or the calling thread's context. */
CUresult sim_context_current(struct sim_context **ret_ctx);
/* A handle's context: INVALID_CONTEXT where it is none. A CUcontext is a struct sim_context *. */
CUresult sim_context_lookup(CUcontext handle, struct sim_context **ret_ctx);
struct sim_exec *sim_context_exec(struct sim_context *ctx);
unsigned int sim_context_device(struct sim_context *ctx);
CUresult sim_green_context_lookup(CUgreenCtx handle, struct sim_context **ret_ctx);

/*
 * May a kernel or a copy touch [ptr, ptr + bytes)? True within one allocation: device, pool,
 * managed, mapped VMM (adjoining mappings may be treated as one), imported, pinned or registered.
 */
bool sim_memory_valid(CUdeviceptr ptr, size_t bytes);
/* Is the address device memory at all? (CU_MEMORYTYPE_UNIFIED: what is not, is the host's.) */
bool sim_memory_is_device(CUdeviceptr ptr);
/* A synchronisation happened: pools beyond their release threshold give back what they can. */
void sim_pool_synchronized(unsigned int device);

/* Where an array's bytes lie: row y of slice z at base + z * slice_bytes + y * pitch. */
struct sim_array_view {
	unsigned char *base;
	size_t pitch;
	size_t slice_bytes;
	size_t width_bytes;
	size_t height; /* at least 1 */
	size_t depth;  /* at least 1; layers count */
	size_t element_bytes;
};

CUresult sim_array_view(CUarray array, struct sim_array_view *ret_view);

/* A CUfunction (or a CUkernel passed as one) about to be launched: loads lazily, gives its name. */
CUresult sim_function_use(CUfunction function, const char **ret_name);
/* A launch of it, by a call or by a graph: OUT_OF_MEMORY if what its code uses cannot be backed. */
CUresult sim_function_launch(CUfunction function);

/*
 * The memory of one graph allocation node. The address is fixed when the node is made; physical
 * memory comes at the launch and stays with the device's graph pool until it is trimmed.
 */
struct sim_graph_mem;
CUresult sim_graph_mem_create(const CUmemPoolProps *props, size_t bytes,
			      struct sim_graph_mem **ret_mem, CUdeviceptr *ret_ptr);
/* The graph that has the node is gone: the address goes when nothing uses it any more. */
void sim_graph_mem_destroy(struct sim_graph_mem *mem);
/*
 * The launching thread calls this at each launch or upload: it backs the memory, or answers
 * OUT_OF_MEMORY.
 */
CUresult sim_graph_mem_back(struct sim_graph_mem *mem);
/* Each successful sim_graph_mem_back ends here, on the executor, when that launch has run. */
void sim_graph_mem_unback(struct sim_graph_mem *mem);
/*
 * The executor calls these in the stream's order: the memory is in use, and free again (also by
 * cuMemFree*).
 */
void sim_graph_mem_alloc(struct sim_graph_mem *mem);
void sim_graph_mem_free(struct sim_graph_mem *mem);
/* Is it in use? A second launch without a free is refused unless it frees on launch. */
bool sim_graph_mem_in_use(struct sim_graph_mem *mem);

#endif
