/* SPDX-License-Identifier: Apache-2.0 */
/* Contexts: made, current, and what they take. A CUcontext or CUgreenCtx is a sim_context. */
#ifndef ALLOT_SIM_CUDA_CONTEXT_H
#define ALLOT_SIM_CUDA_CONTEXT_H

#include "sim/cuda/sim.h"

#define SIM_FIFO_DEFAULT (1ull << 20)

enum sim_context_kind { SIM_CONTEXT_EXPLICIT, SIM_CONTEXT_PRIMARY, SIM_CONTEXT_GREEN };

struct sim_context {
	struct sim_device *device;
	enum sim_context_kind kind;
	bool live; /* a destroyed context keeps its struct: stale handles must stay harmless */
	unsigned int flags;
	unsigned int api_version;
	uint64_t id;
	uint64_t bytes;	      /* device memory of the context itself */
	bool holds;	      /* its memory is taken: of a green one, also after its end */
	uint64_t stack_bytes; /* and what the limit of its stacks took beyond that */
	size_t limit[CU_LIMIT_MAX];
	struct sim_block *heap; /* of malloc in kernels: from the first launch that uses it */
	struct sim_block *fifo; /* of printf in kernels, if it is larger than the default */
	bool fifo_backed;	/* since code was loaded that prints */
	bool fifo_used;		/* such code was launched: its limit cannot be set any more */
	struct sim_exec *exec;
	struct sim_chunk *chunks; /* of small allocations: memory.c */
	unsigned int attached;	  /* cuCtxAttach beyond its creation */
	unsigned int peers;	  /* bit per ordinal that it may reach */
	CUdevResource sm;	  /* of a green context */
	struct sim_context *next;
};

/* In stream.h: sim_context_current, sim_context_lookup, sim_context_exec, ... */

/*
 * A green context, and its end. It keeps the primary context active, whoever retains that. Its end
 * gives nothing back: what it took, and what was allocated in it, goes with the primary context,
 * which ends when neither a green context nor a retain is left.
 */
CUresult sim_green_make(struct sim_device *device, struct sim_context **ret_ctx);
void sim_green_end(struct sim_context *ctx);

/* Contexts of the process, for searches by handle. With sim_lock held. */
struct sim_context *sim_contexts(void);

/*
 * Room for a new context, or NULL. Stale handles stay harmless, as no driver's do: with
 * ALLOT_SIM_HANDLES=reuse it is the place of one that was destroyed, as allocators have it.
 */
struct sim_context *sim_context_take_place(void);
void sim_context_add(struct sim_context *ctx);
/* The calling thread's stack: onto it, and off it where the context is on top. */
CUresult sim_context_push(struct sim_context *ctx);
void sim_context_drop(const struct sim_context *ctx);

/* A new context takes the code of all libraries where CUDA_MODULE_LOADING=EAGER. Unlocked. */
CUresult sim_context_libraries_load(struct sim_context *ctx);

/*
 * Called by context_api.c at the end of a context, in this order and without the lock; each is
 * defined by the file whose table it clears.
 */
void sim_context_libraries_gone(struct sim_context *ctx);
void sim_context_modules_gone(struct sim_context *ctx);
void sim_context_arrays_gone(struct sim_context *ctx);
void sim_context_memory_gone(struct sim_context *ctx);

/* The limits that a context of its kind begins with: also what cuCtxGetLimit answers. */
void sim_context_limits_init(struct sim_context *ctx);
void sim_context_limits_done(struct sim_context *ctx);

#endif
