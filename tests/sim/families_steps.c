/* SPDX-License-Identifier: Apache-2.0 */
/* families_steps <n>: the n-th of the stories below. Exit status 99: there are no more. */
#include "families_steps.h"

#include <stdint.h>

CUdeviceptr alloc(uint64_t bytes)
{
	CUdeviceptr p;

	OK(cu.cuMemAlloc_v2(&p, bytes));
	return p;
}

CUdeviceptr alloc_async(uint64_t bytes, CUstream stream)
{
	CUdeviceptr p;

	OK(cu.cuMemAllocAsync(&p, bytes, stream));
	return p;
}

CUstream new_stream(void)
{
	CUstream stream;

	OK(cu.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	return stream;
}

void fill_rest(void)
{
	CUdeviceptr p;

	for (uint64_t bytes = 64 * MIB; bytes >= GRANULE; bytes /= 2)
		while (!cu.cuMemAlloc_v2(&p, bytes))
			;
	tell(NOTE_FULL, 0, GRANULE, "the rest is full");
}

CUmemGenericAllocationHandle create(uint64_t bytes)
{
	CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
				    .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
	CUmemGenericAllocationHandle handle;

	OK(cu.cuMemCreate(&handle, bytes, &prop, 0));
	return handle;
}

void keep_all(CUmemoryPool pool)
{
	cuuint64_t all = UINT64_MAX;

	OK(cu.cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &all));
}

/* Code that is loaded when it is first asked for cannot be refused, but counts. */
static void lazy_code(void)
{
	CUfunction function;
	CUdeviceptr p;
	CUmodule module;
	CUlibrary library;
	CUkernel kernel;

	guest_context(0);
	OK(cu.cuModuleLoadData(&module, "allot-sim-module bytes=33554432\n"));
	OK(cu.cuLibraryLoadData(&library, "allot-sim-module bytes=16777216\n", NULL, NULL, 0, NULL,
				NULL, 0));
	tell(NOTE_USED, 0, 0, "loaded lazily");
	OK(cu.cuModuleGetFunction(&function, module, "one"));
	OK(cu.cuModuleGetFunction(&function, module, "two"));
	tell(NOTE_USED, 0, 32 * MIB, "functions of a module");
	OK(cu.cuLibraryGetKernel(&kernel, library, "one"));
	OK(cu.cuKernelGetFunction(&function, kernel));
	tell(NOTE_USED, 0, 48 * MIB, "functions of a library");
	OK(cu.cuModuleUnload(module));
	OK(cu.cuLibraryUnload(library));
	tell(NOTE_FREED, 0, 0, "unloaded");
	OK(cu.cuModuleLoadData(&module, "allot-sim-module bytes=33554432\n"));
	p = alloc(170 * MIB);
	guest_slack = 32 * MIB;
	OK(cu.cuModuleGetFunction(&function, module, "one"));
	GIVES(CUDA_ERROR_OUT_OF_MEMORY, cu.cuMemAlloc_v2(&p, 4096));
	tell(NOTE_OVER, 0, 0, "beyond the quota");
}

/* As `allot set` does. */
static void quota_moves(void)
{
	CUdeviceptr p[3], q;

	guest_context(0);
	for (int i = 0; i < 3; i++)
		p[i] = alloc(40 * MIB);
	tell(NOTE_LIMIT, 0, 100 * MIB, "lowered below what is used");
	GIVES(CUDA_ERROR_OUT_OF_MEMORY, cu.cuMemAlloc_v2(&q, 4096));
	GIVES(CUDA_ERROR_OUT_OF_MEMORY, cu.cuMemAllocAsync(&q, 4096, NULL));
	guest_slack = 60 * MIB;
	tell(NOTE_OVER, 0, 0, "nothing was taken away");
	OK(cu.cuMemFree_v2(p[0]));
	GIVES(CUDA_ERROR_OUT_OF_MEMORY, cu.cuMemAlloc_v2(&q, 4096));
	OK(cu.cuMemFree_v2(p[1]));
	q = alloc(4096);
	tell(NOTE_USED, 0, 42 * MIB, "below again");
	fill_rest();
	guest_slack = 0;
	tell(NOTE_LIMIT, 0, 300 * MIB, "raised");
	alloc(180 * MIB);
	fill_rest();
}

static void (*const stories[])(void) = {
	frees_of_async, frees_in_stream, wrong_frees, destroyed_context, reset_primary,
	attached_context, handle_orders, sparse_array, idle_pools_go_first, pools_exchanged,
	pools_in_pieces, pool_destroyed_early, pool_threshold, graphs_take_turns, graphs_nested,
	graph_relaunched, refused_in_capture, lazy_code, quota_moves, multicast, managed_pool,
};

int main(int argc, char **argv)
{
	size_t n = argc > 1 ? strtoul(argv[1], NULL, 10) : 0;

	if (n >= sizeof(stories) / sizeof(stories[0]))
		return 99;
	guest_label = argv[1];
	guest_bind();
	stories[n]();
	return 0;
}
