/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files of the simulated driver share: the process's state, devices and contexts. Each
 * calls those below it alone, so they are best read from the last line up (tools/includes.py):
 *
 *   entries.c         what is exported, in front of the rows; how it is found: proc.c, stubs.c
 *   context_api.c     contexts begin and end, and all that is in them
 *   green.c           contexts over parts of the SMs
 *   *_api.c           rows of streams, events, copies, launches, capture; of graphs, with
 *                     graph_launch.c and graph_query.c
 *   memory.c, host.c, ipc.c, pool_device.c, pointer.c, array_map.c, context_info.c: other rows
 *   stream.c          a context's streams: what goes into them, and who waits for it
 *   executor.c        one thread a context runs what is in its streams, in the device's time
 *   kernel.c, copy.c  what kernels and copies do, in steps
 *   library.c, module.c, function.c: code and its functions
 *   array.c, external.c, multicast.c, vmm.c, vmm_map.c, pool_share.c: memory of other kinds
 *   capture.c         what a capturing stream does instead, and whom that forbids what
 *   graph.c           graphs as data; graph_mem.c: memory that they own
 *   queue.c, event.c, mark.c: works in a stream, and completions that somebody waits for
 *   address.c         what lies at an address
 *   pool.c            memory pools
 *   engine.c          whose turn it is on a device, among all processes
 *   context.c         which contexts there are, and which is the current one; device.c: devices
 *   block.c, range.c  physical memory, and addresses
 *   checkpoint.c, call.c: one process's memory leaves the device, when no call of its is under way
 *   init.c            cuInit, and this process's state; mps.c: under MPS
 *   errors.c, settings.c: names of results, and what the environment asks for
 *
 * Locking: one mutex, sim_lock(), guards all of this process's tables (contexts, ranges, blocks,
 * pools, modules). The region's lock nests inside it. It is never held while calling anything of
 * stream.h, which waits and runs user code; functions called back from there may take it.
 */
#ifndef ALLOT_SIM_CUDA_SIM_H
#define ALLOT_SIM_CUDA_SIM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "nvidia/abi/cuda.h"
#include "sim/region.h"

#define SIM_GRANULE (2ull << 20)

struct sim_context;
struct sim_exec;
struct sim_pool;
struct sim_chunk;

/* A device as this process sees it: CUDA_VISIBLE_DEVICES chooses and orders. */
struct sim_device {
	CUdevice ordinal;
	int index; /* in the region */
	struct sim_device_row *row;
	struct sim_context *primary; /* made at the first retain, kept for the process's life */
	unsigned int primary_refs; /* retained by the program */
	unsigned int greens;	   /* green contexts that are alive: each keeps the primary one */
	unsigned int greens_made;  /* since the primary one began */
	unsigned int primary_flags;
	struct sim_pool *default_pool, *current_pool;
};

struct sim_process {
	struct sim_region *region;
	int row;
	int ndevices;
	struct sim_device device[SIM_MAX_DEVICES];
};

extern struct sim_process sim;

/* CUDA_SUCCESS after cuInit in this very process; a forked child's is not initialised. */
CUresult sim_ready(void);
/* A visible device, or CUDA_ERROR_NOT_INITIALIZED, CUDA_ERROR_INVALID_DEVICE. */
CUresult sim_device_get(CUdevice ordinal, struct sim_device **ret_device);
/* Device or host of a location: false for none that exists. *ret_device NULL is the host. */
bool sim_location(const CUmemLocation *location, struct sim_device **ret_device);

void sim_lock(void);
void sim_unlock(void);

/* Take device memory for this process: CUDA_ERROR_OUT_OF_MEMORY when the device is full. */
CUresult sim_device_take(struct sim_device *device, uint64_t bytes);
void sim_device_give(struct sim_device *device, uint64_t bytes);

/* The device's part of the region, the own row in it, and whether another row's process lives. */
struct sim_engine_shared *sim_region_engine(unsigned int device);
unsigned int sim_region_row(void);
unsigned int sim_region_account(void);
bool sim_region_row_alive(unsigned int row);

/* Rounding: `to` is a power of two. 0 comes back for what does not fit. */
static inline uint64_t sim_round(uint64_t bytes, uint64_t to)
{
	return bytes + (to - 1) < bytes ? 0 : (bytes + (to - 1)) & ~(to - 1);
}

#endif
