/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ALLOT_SIM_CUDA_ARRAY_H
#define ALLOT_SIM_CUDA_ARRAY_H

#include "sim/cuda/block.h"
#include "sim/cuda/vmm.h"

struct sim_storage;

/* A CUarray: of its own, or a level or plane of something larger. */
struct sim_array {
	struct sim_storage *storage;
	CUDA_ARRAY3D_DESCRIPTOR desc;
	uint64_t offset; /* in the storage */
	bool part;	 /* goes with its owner */
};

/* Memory bound to a piece of a sparse resource. */
struct sim_binding {
	struct sim_binding *next;
	CUarrayMapInfo where;
	struct sim_physical *physical;
};

/* What lies behind a CUarray or a CUmipmappedArray (which is a storage). */
struct sim_storage {
	struct sim_storage *next;
	struct sim_context *ctx;
	struct sim_block *block; /* NULL: takes nothing itself */
	bool imported;		 /* the block is another's, held by a hidden reference */
	uint64_t bytes;
	void *address;
	uint64_t address_bytes;
	CUDA_ARRAY3D_DESCRIPTOR desc;
	unsigned int nlevels; /* 0 for a plain array */
	struct sim_array *level;  /* nlevels of them, or the one */
	struct sim_binding *bindings;
};

/* Takes its memory later, by cuMemMapArrayAsync. */
static inline bool sim_array_loose(const CUDA_ARRAY3D_DESCRIPTOR *d)
{
	return d->Flags & (CUDA_ARRAY3D_SPARSE | CUDA_ARRAY3D_DEFERRED_MAPPING);
}

static inline size_t sim_at_least_1(size_t v)
{
	return v ? v : 1;
}

size_t sim_array_element_bytes(const CUDA_ARRAY3D_DESCRIPTOR *desc);

/* Handles that exist, or NULL: with sim_lock held. */
struct sim_array *sim_array_find(CUarray handle);
struct sim_storage *sim_mipmap_find(CUmipmappedArray handle);

/*
 * A mipmapped array whose content lies in memory that somebody else took, from `offset` on. The
 * hidden reference is taken over, also when this fails.
 */
CUresult sim_mipmap_on_block(CUmipmappedArray *ret_mipmap, struct sim_context *ctx,
			     const CUDA_ARRAY3D_DESCRIPTOR *desc, unsigned int levels,
			     struct sim_block *block, uint64_t offset);

#endif
