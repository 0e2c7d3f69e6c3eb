/* SPDX-License-Identifier: Apache-2.0 */
/*
 * families_steps <n>: the n-th of the stories below, each of which takes and gives memory in an
 * order that could be counted wrong. Exit status 99: there are no more.
 */
#include <pthread.h>
#include <stdint.h>
#include <sys/wait.h>

#include "families_guest.h"

#define GRANULE (2 * MIB)

static CUdeviceptr alloc(uint64_t bytes)
{
	CUdeviceptr p;

	OK(cu.cuMemAlloc_v2(&p, bytes));
	return p;
}

static CUdeviceptr alloc_async(uint64_t bytes, CUstream stream)
{
	CUdeviceptr p;

	OK(cu.cuMemAllocAsync(&p, bytes, stream));
	return p;
}

static void *free_in_thread(void *arg)
{
	OK(cu.cuMemFree_v2((CUdeviceptr)(uintptr_t)arg));
	return NULL;
}

static void in_thread(void *(*fn)(void *), void *arg)
{
	pthread_t thread;

	CHECK_EQ(pthread_create(&thread, NULL, fn, arg), 0);
	CHECK_EQ(pthread_join(thread, NULL), 0);
}

static CUstream new_stream(void)
{
	CUstream stream;

	OK(cu.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	return stream;
}

/* Keeps a stream at work for a while. */
static void spin(CUstream stream, uint64_t us)
{
	static CUfunction function;
	void *params[] = {&us};

	if (!function) {
		CUmodule module;

		OK(cu.cuModuleLoadData(&module, "allot-sim-module\n"));
		OK(cu.cuModuleGetFunction(&function, module, "sim_spin"));
	}
	OK(cu.cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, stream, params, NULL));
}

/* Refused at any size, then possible again once `p` is free. */
static void fill_rest(void)
{
	CUdeviceptr p;

	for (uint64_t bytes = 64 * MIB; bytes >= GRANULE; bytes /= 2)
		while (!cu.cuMemAlloc_v2(&p, bytes))
			;
	tell(NOTE_FULL, 0, GRANULE, "the rest is full");
}

static void frees_of_async(void)
{
	CUdeviceptr p;

	guest_context(0);
	p = alloc_async(40 * MIB, NULL);
	tell(NOTE_USED, 0, 64 * MIB, "async");
	OK(cu.cuStreamSynchronize(NULL));
	OK(cu.cuMemFree_v2(p));
	tell(NOTE_FREED, 0, 0, "cuMemFree of async memory");
	p = alloc_async(40 * MIB, NULL);
	in_thread(free_in_thread, (void *)(uintptr_t)p);
	tell(NOTE_FREED, 0, 0, "in another thread");
}

static void frees_in_stream(void)
{
	CUstream stream;
	CUdeviceptr p, q;

	guest_context(0);
	stream = new_stream();
	spin(stream, 1);
	OK(cu.cuStreamSynchronize(stream));
	tell(NOTE_EMPTY, 0, 0, "with a kernel");
	p = alloc(40 * MIB);
	q = alloc(4096);
	spin(stream, 30000);
	OK(cu.cuMemFreeAsync(p, stream));
	OK(cu.cuMemFreeAsync(q, stream));
	tell(NOTE_QUOTA, 0, 0, "on its way");
	OK(cu.cuStreamSynchronize(stream));
	tell(NOTE_FREED, 0, 0, "cuMemFreeAsync of plain memory");
	p = alloc(40 * MIB);
	q = alloc(4096);
	OK(cu.cuMemFreeAsync_ptsz(p, NULL));
	OK(cu.cuMemFreeAsync_ptsz(q, NULL));
	OK(cu.cuStreamSynchronize_ptsz(NULL));
	tell(NOTE_FREED, 0, 0, "per-thread stream");
	/* Freed behind work that takes long: who needs it does not wait, but gets it at last. */
	fill_rest();
}

static void wrong_frees(void)
{
	CUdeviceptr p, q;

	guest_context(0);
	p = alloc(40 * MIB);
	q = alloc(4096);
	CHECK(cu.cuMemFree_v2(p + 512));
	CHECK(cu.cuMemFree_v2(q + 512));
	CHECK(cu.cuMemFree_v2(12345));
	CHECK(cu.cuMemFree((CUdeviceptr_v1)p));
	OK(cu.cuMemFree_v2(0));
	tell(NOTE_USED, 0, 42 * MIB, "nothing was freed");
	OK(cu.cuMemFree_v2(p));
	OK(cu.cuMemFree_v2(q));
	CHECK(cu.cuMemFree_v2(p));
	CHECK(cu.cuMemFreeAsync(q, NULL));
	tell(NOTE_FREED, 0, 0, "once");
	CHECK(cu.cuMemAlloc_v2(&p, 0));
	CHECK(cu.cuMemAlloc_v2(NULL, 1));
	GIVES(CUDA_ERROR_OUT_OF_MEMORY, cu.cuMemAlloc_v2(&p, SIZE_MAX));
	GIVES(CUDA_ERROR_OUT_OF_MEMORY, cu.cuMemAlloc_v2(&p, SIZE_MAX - 1000));
	GIVES(CUDA_ERROR_OUT_OF_MEMORY, cu.cuMemAllocAsync(&p, SIZE_MAX, NULL));
	tell(NOTE_FREED, 0, 0, "absurd sizes");
}

/* Takes a bit of everything that lives in a context; the rest outlives it. */
static void some_of_all(void)
{
	CUDA_ARRAY_DESCRIPTOR d = {1024, 512, CU_AD_FORMAT_FLOAT, 4};
	CUDA_ARRAY_DESCRIPTOR small = {64, 64, CU_AD_FORMAT_FLOAT, 1};
	CUDA_ARRAY3D_DESCRIPTOR deep = {256, 256, 0, CU_AD_FORMAT_FLOAT, 4, 0};
	CUmipmappedArray mipmap;
	CUfunction function;
	CUdeviceptr p;
	CUmodule module;
	CUarray array;
	size_t pitch;

	alloc(10 * MIB);
	alloc(1000);
	OK(cu.cuMemAllocPitch_v2(&p, &pitch, 1000, 1000, 4));
	OK(cu.cuMemAllocManaged(&p, 6 * MIB, CU_MEM_ATTACH_GLOBAL));
	OK(cu.cuArrayCreate_v2(&array, &d));
	OK(cu.cuArrayCreate_v2(&array, &small));
	OK(cu.cuMipmappedArrayCreate(&mipmap, &deep, 5));
	OK(cu.cuModuleLoadData(&module, "allot-sim-module bytes=6000000\n"));
	OK(cu.cuModuleGetFunction(&function, module, "any"));
	OK(cu.cuCtxSetLimit(CU_LIMIT_MALLOC_HEAP_SIZE, 16 * MIB));
	tell(NOTE_LEDGER, 0, 0, "some of all");
}

static void destroyed_context(void)
{
	CUcontext ctx;

	guest_context(0);
	for (int i = 0; i < 3; i++) {
		OK(cu.cuCtxCreate_v2(&ctx, 0, 0));
		some_of_all();
		OK(cu.cuCtxDestroy_v2(ctx));
		tell(NOTE_FREED, 0, 0, "context destroyed");
	}
}

static void reset_primary(void)
{
	CUcontext ctx;

	guest_context(0);
	some_of_all();
	OK(cu.cuDevicePrimaryCtxReset_v2(0));
	tell(NOTE_LEDGER, 0, 0, "reset");
	OK(cu.cuDevicePrimaryCtxRetain(&ctx, 0));
	OK(cu.cuCtxSetCurrent(ctx));
	tell(NOTE_FREED, 0, 0, "and retained");
	some_of_all();
	OK(cu.cuDevicePrimaryCtxRelease_v2(0));
	tell(NOTE_LEDGER, 0, 0, "released");
	guest_context(0);
	OK(cu.cuDevicePrimaryCtxRetain(&ctx, 0));
	some_of_all();
	OK(cu.cuDevicePrimaryCtxRelease(0));
	tell(NOTE_LEDGER, 0, 0, "still retained");
	OK(cu.cuDevicePrimaryCtxReset(0));
	tell(NOTE_LEDGER, 0, 0, "reset again");
}

static void attached_context(void)
{
	CUcontext ctx, same;

	guest_context(0);
	OK(cu.cuCtxCreate_v2(&ctx, 0, 0));
	tell(NOTE_LEDGER, 0, 0, "created");
	if (!cu.cuCtxAttach(&same, 0)) {
		OK(cu.cuCtxDetach(ctx));
		tell(NOTE_LEDGER, 0, 0, "detached once");
	}
	OK(cu.cuCtxDetach(ctx));
	tell(NOTE_FREED, 0, 0, "detached");
}

/* Physical memory by handle. */
static CUmemGenericAllocationHandle create(uint64_t bytes)
{
	CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
				    .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
	CUmemGenericAllocationHandle handle;

	OK(cu.cuMemCreate(&handle, bytes, &prop, 0));
	return handle;
}

static CUdeviceptr reserve(uint64_t bytes)
{
	CUdeviceptr p;

	OK(cu.cuMemAddressReserve(&p, bytes, 0, 0, 0));
	return p;
}

static void handle_orders(void)
{
	CUmemGenericAllocationHandle h, again, other;
	CUdeviceptr p;

	guest_context(0);
	p = reserve(64 * MIB);
	tell(NOTE_USED, 0, 0, "addresses take nothing");

	h = create(10 * MIB);
	OK(cu.cuMemMap(p, 10 * MIB, 0, h, 0));
	OK(cu.cuMemRelease(h));
	tell(NOTE_USED, 0, 10 * MIB, "mapped keeps it");
	OK(cu.cuMemRetainAllocationHandle(&again, (void *)p));
	OK(cu.cuMemUnmap(p, 10 * MIB));
	tell(NOTE_USED, 0, 10 * MIB, "retained keeps it");
	OK(cu.cuMemRelease(again));
	tell(NOTE_FREED, 0, 0, "map, release, retain, unmap, release");

	h = create(10 * MIB);
	OK(cu.cuMemMap(p, 10 * MIB, 0, h, 0));
	OK(cu.cuMemUnmap(p, 10 * MIB));
	OK(cu.cuMemMap(p + 20 * MIB, 10 * MIB, 0, h, 0));
	OK(cu.cuMemUnmap(p + 20 * MIB, 10 * MIB));
	tell(NOTE_USED, 0, 10 * MIB, "unmapped stays");
	OK(cu.cuMemRelease(h));
	tell(NOTE_FREED, 0, 0, "map, unmap, release");

	/* Several mappings of one handle, at once. */
	h = create(10 * MIB);
	OK(cu.cuMemMap(p, 10 * MIB, 0, h, 0));
	OK(cu.cuMemMap(p + 10 * MIB, 10 * MIB, 0, h, 0));
	OK(cu.cuMemRelease(h));
	OK(cu.cuMemUnmap(p, 10 * MIB));
	tell(NOTE_USED, 0, 10 * MIB, "one of two");
	OK(cu.cuMemUnmap(p + 10 * MIB, 10 * MIB));
	tell(NOTE_FREED, 0, 0, "two mappings");

	/* Parts of a handle, if the driver maps them; two handles in one range. */
	h = create(10 * MIB);
	other = create(4 * MIB);
	if (!cu.cuMemMap(p, 4 * MIB, 6 * MIB, h, 0)) {
		OK(cu.cuMemMap(p + 4 * MIB, 6 * MIB, 0, h, 0));
	} else {
		OK(cu.cuMemMap(p, 10 * MIB, 0, h, 0));
	}
	OK(cu.cuMemMap(p + 10 * MIB, 4 * MIB, 0, other, 0));
	OK(cu.cuMemRelease(h));
	OK(cu.cuMemRelease(other));
	tell(NOTE_USED, 0, 14 * MIB, "three mappings");
	CHECK(cu.cuMemUnmap(p + GRANULE, GRANULE));
	tell(NOTE_USED, 0, 14 * MIB, "no part of one");
	OK(cu.cuMemUnmap(p, 14 * MIB));
	tell(NOTE_FREED, 0, 0, "one range of three mappings");

	CHECK(cu.cuMemRelease(h));
	CHECK(cu.cuMemUnmap(p, 14 * MIB));
	CHECK(cu.cuMemMap(p, 4 * MIB, 0, h, 0));
	tell(NOTE_FREED, 0, 0, "errors change nothing");

	/* It outlives contexts. */
	h = create(10 * MIB);
	OK(cu.cuDevicePrimaryCtxReset_v2(0));
	guest_context(0);
	OK(cu.cuMemRelease(h));
	tell(NOTE_LEDGER, 0, 0, "after a reset");
}

static void sparse_array(void)
{
	CUDA_ARRAY3D_DESCRIPTOR d = {1024, 512, 0, CU_AD_FORMAT_FLOAT, 4, CUDA_ARRAY3D_SPARSE};
	CUarrayMapInfo map = {.resourceType = CU_RESOURCE_TYPE_ARRAY,
			      .memOperationType = CU_MEM_OPERATION_TYPE_MAP,
			      .memHandleType = CU_MEM_HANDLE_TYPE_GENERIC, .deviceBitMask = 1};
	CUmemGenericAllocationHandle h, other;
	CUarray array;

	guest_context(0);
	OK(cu.cuArray3DCreate_v2(&array, &d));
	tell(NOTE_USED, 0, 0, "sparse takes nothing");
	h = create(8 * MIB);
	other = create(8 * MIB);
	map.resource.array = array;
	map.subresource.sparseLevel.extentWidth = 1024;
	map.subresource.sparseLevel.extentHeight = 512;
	map.subresource.sparseLevel.extentDepth = 1;
	map.memHandle.memHandle = h;
	OK(cu.cuMemMapArrayAsync(&map, 1, NULL));
	OK(cu.cuMemRelease(h));
	tell(NOTE_USED, 0, 16 * MIB, "mapped");
	map.memHandle.memHandle = other;
	OK(cu.cuMemMapArrayAsync(&map, 1, NULL));
	OK(cu.cuStreamSynchronize(NULL));
	tell(NOTE_USED, 0, 8 * MIB, "mapped over");
	map.memOperationType = CU_MEM_OPERATION_TYPE_UNMAP;
	map.memHandle.memHandle = 0;
	OK(cu.cuMemMapArrayAsync(&map, 1, NULL));
	OK(cu.cuStreamSynchronize(NULL));
	tell(NOTE_USED, 0, 8 * MIB, "unmapped");
	map.memOperationType = CU_MEM_OPERATION_TYPE_MAP;
	map.memHandle.memHandle = other;
	OK(cu.cuMemMapArrayAsync_ptsz(&map, 1, NULL));
	OK(cu.cuMemRelease(other));
	OK(cu.cuStreamSynchronize_ptsz(NULL));
	tell(NOTE_USED, 0, 8 * MIB, "mapped and released");
	OK(cu.cuArrayDestroy(array));
	tell(NOTE_FREED, 0, 0, "destroyed");
}

/* Pools. */
static void keep_all(CUmemoryPool pool)
{
	cuuint64_t all = UINT64_MAX;

	OK(cu.cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &all));
}

static CUmemoryPool new_pool(void)
{
	CUmemPoolProps props = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
				.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
	CUmemoryPool pool;

	OK(cu.cuMemPoolCreate(&pool, &props));
	return pool;
}

static void idle_pools_go_first(void)
{
	CUmemoryPool standard, own;
	CUdeviceptr p, q;

	guest_context(0);
	OK(cu.cuDeviceGetDefaultMemPool(&standard, 0));
	own = new_pool();
	keep_all(standard);
	keep_all(own);
	p = alloc_async(60 * MIB, NULL);
	OK(cu.cuMemAllocFromPoolAsync(&q, 60 * MIB, own, NULL));
	OK(cu.cuMemFreeAsync(p, NULL));
	OK(cu.cuMemFreeAsync(q, NULL));
	OK(cu.cuStreamSynchronize(NULL));
	tell(NOTE_USED, 0, 128 * MIB, "both pools keep");
	p = alloc(160 * MIB);
	tell(NOTE_USED, 0, 160 * MIB, "trimmed for another family");
	OK(cu.cuMemFree_v2(p));
	OK(cu.cuMemAllocFromPoolAsync(&q, 150 * MIB, own, NULL));
	OK(cu.cuMemFreeAsync(q, NULL));
	OK(cu.cuStreamSynchronize(NULL));
	p = alloc_async(150 * MIB, NULL);
	tell(NOTE_USED, 0, 160 * MIB, "trimmed for another pool");
	OK(cu.cuMemFreeAsync(p, NULL));
	OK(cu.cuStreamSynchronize(NULL));
	create(160 * MIB);
	tell(NOTE_USED, 0, 160 * MIB, "trimmed for a handle");
}

/* Each time after the one before was used twice, so that it is well known. */
static void pools_exchanged(void)
{
	CUmemLocation here = {.type = CU_MEM_LOCATION_TYPE_DEVICE};
	CUmemoryPool standard, own;
	CUdeviceptr p, q;

	guest_context(0);
	OK(cu.cuDeviceGetDefaultMemPool(&standard, 0));
	own = new_pool();
	keep_all(standard);
	keep_all(own);
	alloc_async(20 * MIB, NULL);
	alloc_async(10 * MIB, NULL);
	tell(NOTE_USED, 0, 32 * MIB, "the default");
	OK(cu.cuDeviceSetMemPool(0, own));
	p = alloc_async(20 * MIB, NULL);
	q = alloc_async(10 * MIB, NULL);
	tell(NOTE_USED, 0, 64 * MIB, "another");
	OK(cu.cuMemSetMemPool(&here, CU_MEM_ALLOCATION_TYPE_PINNED, standard));
	alloc_async(20 * MIB, NULL);
	alloc_async(10 * MIB, NULL);
	tell(NOTE_USED, 0, 96 * MIB, "the default again");
	OK(cu.cuDeviceSetMemPool(0, own));
	OK(cu.cuMemFreeAsync(p, NULL));
	OK(cu.cuMemFreeAsync(q, NULL));
	OK(cu.cuStreamSynchronize(NULL));
	alloc_async(30 * MIB, NULL);
	tell(NOTE_USED, 0, 96 * MIB, "one that has room");
	OK(cu.cuMemPoolDestroy(own));
	alloc_async(30 * MIB, NULL);
	tell(NOTE_QUOTA, 0, 0, "the current one destroyed");
	fill_rest();
}

static void pools_in_pieces(void)
{
	CUdeviceptr piece[20], big;
	CUmemoryPool standard;
	int n;

	guest_context(0);
	OK(cu.cuDeviceGetDefaultMemPool(&standard, 0));
	keep_all(standard);
	for (n = 0; n < 20; n++)
		piece[n] = alloc_async(8 * MIB, NULL);
	for (n = 0; n < 20; n += 2)
		OK(cu.cuMemFreeAsync(piece[n], NULL));
	OK(cu.cuStreamSynchronize(NULL));
	tell(NOTE_USED, 0, 160 * MIB, "in pieces");
	guest_slack = 32 * MIB; /* whether it fits nobody can tell beforehand */
	GIVES(CUDA_ERROR_OUT_OF_MEMORY, cu.cuMemAllocAsync(&big, 20 * MIB, NULL));
	tell(NOTE_USED, 0, 160 * MIB, "too big for any piece");
	for (n = 0; n < 20; n += 2)
		piece[n] = alloc_async(8 * MIB, NULL);
	tell(NOTE_USED, 0, 160 * MIB, "pieces are used again");
	for (n = 0; n < 20; n++)
		OK(cu.cuMemFree_v2(piece[n]));
	OK(cu.cuMemPoolTrimTo(standard, 0));
	tell(NOTE_FREED, 0, 0, "all freed");
}

static void pool_destroyed_early(void)
{
	CUmemoryPool own;
	CUdeviceptr p, q;

	guest_context(0);
	own = new_pool();
	OK(cu.cuMemAllocFromPoolAsync(&p, 60 * MIB, own, NULL));
	OK(cu.cuStreamSynchronize(NULL));
	OK(cu.cuMemPoolDestroy(own));
	tell(NOTE_QUOTA, 0, 0, "destroyed");
	fill_rest();
	OK(cu.cuMemFreeAsync(p, NULL));
	OK(cu.cuStreamSynchronize(NULL));
	q = alloc(60 * MIB);
	tell(NOTE_QUOTA, 0, 0, "and its memory freed");
	OK(cu.cuMemFree_v2(q));
}

static void pool_threshold(void)
{
	CUmemoryPool standard;
	cuuint64_t none = 0;
	CUdeviceptr p;

	guest_context(0);
	OK(cu.cuDeviceGetDefaultMemPool(&standard, 0));
	keep_all(standard);
	p = alloc_async(60 * MIB, NULL);
	OK(cu.cuMemFreeAsync(p, NULL));
	OK(cu.cuCtxSynchronize());
	tell(NOTE_USED, 0, 64 * MIB, "kept");
	OK(cu.cuMemPoolTrimTo(standard, 32 * MIB));
	tell(NOTE_LEDGER, 0, 0, "trimmed to");
	OK(cu.cuMemPoolSetAttribute(standard, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &none));
	OK(cu.cuCtxSynchronize());
	tell(NOTE_FREED, 0, 0, "threshold lowered");
	p = alloc_async(60 * MIB, NULL);
	OK(cu.cuMemFreeAsync(p, NULL));
	OK(cu.cuStreamSynchronize(NULL));
	tell(NOTE_FREED, 0, 0, "released at synchronisation");
	p = alloc_async(60 * MIB, CU_STREAM_PER_THREAD);
	OK(cu.cuMemFreeAsync_ptsz(p, NULL));
	OK(cu.cuStreamSynchronize_ptsz(NULL));
	tell(NOTE_FREED, 0, 0, "and in the thread's stream");
}

/* Graphs. */
static void add_alloc(CUgraph graph, uint64_t bytes, CUgraphNode *ret, CUdeviceptr *ret_ptr)
{
	CUDA_MEM_ALLOC_NODE_PARAMS node = {
		.poolProps = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
			      .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}},
		.bytesize = bytes};

	OK(cu.cuGraphAddMemAllocNode(ret, graph, NULL, 0, &node));
	*ret_ptr = node.dptr;
}

static CUgraph balanced(uint64_t bytes)
{
	CUgraphNode a, f;
	CUdeviceptr p;
	CUgraph graph;

	OK(cu.cuGraphCreate(&graph, 0));
	add_alloc(graph, bytes, &a, &p);
	OK(cu.cuGraphAddMemFreeNode(&f, graph, &a, 1, p));
	return graph;
}

static CUgraphExec instantiate(CUgraph graph)
{
	CUgraphExec exec;

	OK(cu.cuGraphInstantiateWithFlags(&exec, graph, 0));
	return exec;
}

static void graphs_take_turns(void)
{
	CUgraphExec a, b;
	CUstream stream;

	guest_context(0);
	stream = new_stream();
	a = instantiate(balanced(100 * MIB));
	b = instantiate(balanced(110 * MIB));
	tell(NOTE_USED, 0, 0, "instantiated");
	for (int i = 0; i < 10; i++) {
		OK(cu.cuGraphLaunch(i % 2 ? a : b, stream));
		OK(cu.cuStreamSynchronize(stream));
		tell(NOTE_LEDGER, 0, 0, "launched");
	}
	alloc(160 * MIB);
	tell(NOTE_USED, 0, 160 * MIB, "trimmed for another family");
	GIVES(CUDA_ERROR_OUT_OF_MEMORY, cu.cuGraphLaunch(a, stream));
	GIVES(CUDA_ERROR_OUT_OF_MEMORY, cu.cuGraphUpload(b, stream));
	tell(NOTE_USED, 0, 160 * MIB, "refused");
	OK(cu.cuGraphExecDestroy(a));
	OK(cu.cuGraphExecDestroy(b));
}

static void graphs_nested(void)
{
	CUgraph outer, inner, deep;
	CUgraphNode n;
	CUgraphExec e;

	guest_context(0);
	inner = balanced(60 * MIB);
	OK(cu.cuGraphCreate(&deep, 0));
	OK(cu.cuGraphCreate(&outer, 0));
	if (cu.cuGraphAddChildGraphNode(&n, deep, NULL, 0, inner) ||
	    cu.cuGraphAddChildGraphNode(&n, outer, NULL, 0, deep))
		return; /* a driver that nests no memory nodes */
	e = instantiate(outer);
	fill_rest();
	GIVES(CUDA_ERROR_OUT_OF_MEMORY, cu.cuGraphLaunch(e, NULL));
	tell(NOTE_FULL, 0, GRANULE, "refused");
}

static void graph_relaunched(void)
{
	CUgraphExec kept, other;
	CUgraphNode n;
	CUdeviceptr p;
	CUgraph graph;

	guest_context(0);
	OK(cu.cuGraphCreate(&graph, 0));
	add_alloc(graph, 90 * MIB, &n, &p);
	kept = instantiate(graph);
	other = instantiate(balanced(90 * MIB));
	/* `other` first has the memory, then loses it to one that keeps it. */
	OK(cu.cuGraphLaunch(other, NULL));
	OK(cu.cuStreamSynchronize(NULL));
	OK(cu.cuGraphLaunch(kept, NULL));
	OK(cu.cuStreamSynchronize(NULL));
	tell(NOTE_LEDGER, 0, 0, "kept");
	alloc(80 * MIB);
	GIVES(CUDA_ERROR_OUT_OF_MEMORY, cu.cuGraphLaunch(other, NULL));
	tell(NOTE_LEDGER, 0, 0, "refused");
	OK(cu.cuMemFree_v2(p));
	OK(cu.cuGraphLaunch(other, NULL));
	OK(cu.cuStreamSynchronize(NULL));
	tell(NOTE_LEDGER, 0, 0, "has it again");
	OK(cu.cuGraphExecDestroy(kept));
	OK(cu.cuGraphExecDestroy(other));
	OK(cu.cuDeviceGraphMemTrim(0));
	tell(NOTE_USED, 0, 80 * MIB, "trimmed");
}

/* Near the limit while a capture is under way: what we give back is none of its business. */
static void refused_in_capture(void)
{
	CUmemoryPool standard;
	CUgraphExec exec;
	CUstream stream, idle;
	CUdeviceptr p, q;
	CUgraph graph;

	guest_context(0);
	stream = new_stream();
	idle = new_stream();
	OK(cu.cuDeviceGetDefaultMemPool(&standard, 0));
	keep_all(standard);
	p = alloc_async(100 * MIB, NULL);
	OK(cu.cuMemFreeAsync(p, NULL));
	OK(cu.cuStreamSynchronize(NULL));
	OK(cu.cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
	OK(cu.cuMemAllocAsync(&q, 16 * MIB, stream));
	p = alloc(150 * MIB);
	OK(cu.cuMemFreeAsync(q, stream));
	GIVES(CUDA_ERROR_OUT_OF_MEMORY, cu.cuMemAllocAsync(&q, 100 * MIB, idle));
	OK(cu.cuStreamEndCapture(stream, &graph));
	OK(cu.cuMemFree_v2(p));
	exec = instantiate(graph);
	OK(cu.cuGraphLaunch(exec, stream));
	OK(cu.cuStreamSynchronize(stream));
	tell(NOTE_LEDGER, 0, 0, "captured and launched");
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
	graph_relaunched, refused_in_capture, lazy_code, quota_moves,
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
