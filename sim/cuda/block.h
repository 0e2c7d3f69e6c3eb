/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Blocks are physical memory: bytes taken from a device, with content. Ranges are addresses: a
 * piece of a block that is mapped, or that a program may name. A device pointer is the address at
 * which this process has the content mapped. Everything here is called with sim_lock held, except
 * where it says otherwise.
 */
#ifndef ALLOT_SIM_CUDA_BLOCK_H
#define ALLOT_SIM_CUDA_BLOCK_H

#include "sim/cuda/context.h"

/*
 * Content lies in a file without a name: one for all of the process's blocks, or one of its own
 * for a block that others may hold. So a block can be mapped any number of times, and a 24 GiB
 * block costs what is touched. Host memory (device NULL) takes nothing of any device.
 */
struct sim_block {
	struct sim_device *device;
	uint64_t bytes; /* whole granules for device memory */
	int fd;		/* of its own, or -1 */
	uint64_t offset;
	unsigned int refs;
	unsigned int hidden; /* of these, the ones by which the process's figure does not have it */
	bool shared; /* counted as the region's object `key`, no longer as the process's own */
	bool exported;
	uint64_t key[2];
	struct sim_block *next_shared;
};

/* `own_file`: to be exported. Takes the memory: CUDA_ERROR_OUT_OF_MEMORY. One reference. */
CUresult sim_block_create(struct sim_device *device, uint64_t bytes, bool own_file,
			  struct sim_block **ret_block);
/*
 * Memory of another process, or of this one, by key; `fd` has its content and stays the caller's.
 * CUDA_ERROR_INVALID_HANDLE when it is gone. One reference, a hidden one if `hidden`.
 */
CUresult sim_block_import(int fd, const uint64_t key[2], bool hidden,
			  struct sim_block **ret_block);
struct sim_block *sim_block_ref(struct sim_block *block);
void sim_block_unref(struct sim_block *block); /* the last one gives the memory back */
/*
 * The same for a reference that keeps the memory and is in no figure: while a shared block has no
 * other ones here, the driver's figure of this process does not have it.
 */
struct sim_block *sim_block_ref_hidden(struct sim_block *block);
void sim_block_unref_hidden(struct sim_block *block);
void sim_block_unref_as(struct sim_block *block, bool hidden);

/*
 * Map [offset, offset + bytes) of a block, at `at` (replacing what is there) or anywhere, aligned
 * to `align`. Unmapping returns addresses to the system; `keep` leaves them reserved.
 */
CUresult sim_block_map(struct sim_block *block, uint64_t offset, uint64_t bytes, void *at,
		       uint64_t align, int prot, void **ret_address);
void sim_address_unmap(void *address, uint64_t bytes, bool keep);
CUresult sim_address_reserve(uint64_t bytes, uint64_t align, void *hint, void **ret_address);

/* Give a block a file of its own, moving its content, and make it an object of the region. */
CUresult sim_block_share(struct sim_block *block);
/* A descriptor for others, which holds the memory while it is open anywhere. Shares the block. */
CUresult sim_block_export(struct sim_block *block, int *ret_fd);
/* The key that a descriptor made by sim_block_export names: CUDA_ERROR_INVALID_HANDLE. */
CUresult sim_block_fd_key(int fd, uint64_t ret_key[2]);

enum sim_range_kind {
	SIM_RANGE_DEVICE,     /* cuMemAlloc of whole granules */
	SIM_RANGE_SMALL,      /* cuMemAlloc within a chunk */
	SIM_RANGE_POOL,	      /* cuMemAllocAsync */
	SIM_RANGE_MANAGED,    /* cuMemAllocManaged */
	SIM_RANGE_VMM,	      /* cuMemMap */
	SIM_RANGE_IPC,	      /* cuIpcOpenMemHandle */
	SIM_RANGE_EXTERNAL,   /* cuExternalMemoryGetMappedBuffer */
	SIM_RANGE_GLOBAL,     /* a module's variable */
	SIM_RANGE_GRAPH,      /* a graph's allocation node */
	SIM_RANGE_POOL_PTR,   /* cuMemPoolImportPointer */
	SIM_RANGE_HOST,	      /* cuMemHostAlloc */
	SIM_RANGE_REGISTERED, /* cuMemHostRegister */
};

struct sim_range {
	uint64_t base, bytes;
	enum sim_range_kind kind;
	struct sim_device *device; /* where the memory is; for host memory, whose context made it */
	struct sim_context *ctx;   /* NULL for what outlives contexts */
	struct sim_block *block;   /* may be NULL; a range holds a reference, but in a chunk */
	bool hidden;		   /* ... which is a hidden one */
	uint64_t map_base, map_bytes; /* the mapping that it lies in */
	uint64_t map_offset;	      /* and where in the block that begins */
	uint64_t id;
	unsigned int opens;   /* of SIM_RANGE_IPC */
	uint64_t exporter_id; /* likewise: the id that the exporter has for it */
	void *owner;	    /* chunk, pool, module, ...: as the kind says */
	void *piece;	    /* of the owner */
	bool freeing;	    /* a free of it is on its way through a stream */
	unsigned int flags; /* as given to the call that made it */
	bool readable, writable;
	bool sync_memops;
};

/* A new range, in the table; its other fields are the caller's to fill. NULL: overlap. */
struct sim_range *sim_range_add(uint64_t base, uint64_t bytes, enum sim_range_kind kind,
				struct sim_device *device, struct sim_context *ctx);
/* The range that holds the address, or NULL. */
struct sim_range *sim_range_find(uint64_t address);
void sim_range_remove(struct sim_range *range); /* and frees it; not its block */
/* Its free is on its way: the program has done its part. */
void sim_range_part(struct sim_range *range);
/* Calls fn for each range; fn may not change the table. Stops at the first true, returns it. */
struct sim_range *sim_range_each(bool (*fn)(struct sim_range *range, void *arg), void *arg);

/* As sim_range_add, for a block mapped whole at `address`, whose reference the range takes over. */
struct sim_range *sim_range_add_block(struct sim_block *block, void *address, uint64_t offset,
				      uint64_t bytes, enum sim_range_kind kind,
				      struct sim_context *ctx);
/* Map another process's block, by what it sent, and make [offset, offset + bytes) of it a range. */
CUresult sim_range_import(int pid, int fd, const uint64_t key[2], uint64_t offset, uint64_t bytes,
			  enum sim_range_kind kind, struct sim_context *ctx,
			  struct sim_range **ret_range);
/* The end of a range of whatever kind: unmaps it, lets its block go, removes it. */
void sim_range_end(struct sim_range *range);

static inline bool sim_range_on_host(const struct sim_range *range)
{
	return range->kind == SIM_RANGE_HOST || range->kind == SIM_RANGE_REGISTERED;
}

#endif
