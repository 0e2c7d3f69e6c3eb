/* SPDX-License-Identifier: Apache-2.0 */
/*
 * families_fill <way> <family>: fills the device through one allocation family, by a table of
 * functions that was filled by one way in, until it is refused; then gives everything back. What
 * the device really gave is judged outside (families.c).
 */
#include <pthread.h>
#include <stdint.h>
#include <sys/wait.h>

#include "families_fill.h"
#include "families_guest.h"

#define GRANULE (2 * MIB)
#define POOL (32 * MIB)
#define MAX_HELD 50000

/* What one allocation gave. */
struct held {
	uint64_t a, b, c;
};

struct family {
	const char *name;
	uint64_t first, least; /* bytes to ask for: at first, and in the end */
	uint64_t granule;      /* at most this is lost */
	uint64_t slack;	       /* what is known only once it is there may exceed by one piece */
	void *need;	       /* a member of `cu`: without it this way does not lead here */
	CUresult (*take)(uint64_t bytes, struct held *ret);
	CUresult (*give)(const struct held *held);
	void (*begin)(void); /* before the context */
	void (*start)(void); /* after it */
	void (*end)(void);   /* after all was given back */
};

static CUmemoryPool pool;
static CUstream stream;

static CUresult free_plain(const struct held *h)
{
	return cu.cuMemFree_v2(h->a);
}

static CUresult take_alloc(uint64_t bytes, struct held *ret)
{
	return cu.cuMemAlloc_v2((CUdeviceptr *)&ret->a, bytes);
}

/* Rows a little longer than a multiple of the pitch. */
static CUresult take_pitch(uint64_t bytes, struct held *ret)
{
	size_t pitch;

	return cu.cuMemAllocPitch_v2((CUdeviceptr *)&ret->a, &pitch, 4096 - 508, bytes / 4096, 4);
}

static CUresult take_managed(uint64_t bytes, struct held *ret)
{
	return cu.cuMemAllocManaged((CUdeviceptr *)&ret->a, bytes, CU_MEM_ATTACH_GLOBAL);
}

/* The interface of 32-bit addresses: a driver of today refuses; nothing may stay charged. */
static CUresult take_v1(uint64_t bytes, struct held *ret)
{
	CUdeviceptr_v1 p;
	CUresult e = cu.cuMemAlloc(&p, (unsigned int)bytes);

	ret->a = p;
	return e;
}

static CUresult take_pitch_v1(uint64_t bytes, struct held *ret)
{
	CUdeviceptr_v1 p;
	unsigned int pitch;
	CUresult e = cu.cuMemAllocPitch(&p, &pitch, 4096 - 508, (unsigned int)(bytes / 4096), 4);

	ret->a = p;
	return e;
}

static CUresult free_v1(const struct held *h)
{
	return cu.cuMemFree((CUdeviceptr_v1)h->a);
}

/* Stream-ordered memory. */
static CUresult take_async(uint64_t bytes, struct held *ret)
{
	return cu.cuMemAllocAsync((CUdeviceptr *)&ret->a, bytes, stream);
}

static CUresult take_async_ptsz(uint64_t bytes, struct held *ret)
{
	return cu.cuMemAllocAsync_ptsz((CUdeviceptr *)&ret->a, bytes, NULL);
}

static CUresult take_from_pool(uint64_t bytes, struct held *ret)
{
	return cu.cuMemAllocFromPoolAsync((CUdeviceptr *)&ret->a, bytes, pool, stream);
}

static CUresult take_from_pool_ptsz(uint64_t bytes, struct held *ret)
{
	return cu.cuMemAllocFromPoolAsync_ptsz((CUdeviceptr *)&ret->a, bytes, pool, NULL);
}

static CUresult free_async(const struct held *h)
{
	return cu.cuMemFreeAsync(h->a, stream);
}

static CUresult free_async_ptsz(const struct held *h)
{
	return cu.cuMemFreeAsync_ptsz(h->a, NULL);
}

static void stream_create(void)
{
	OK(cu.cuStreamCreate(&stream, 0));
}

static void stream_done(void)
{
	OK(cu.cuStreamSynchronize(stream));
}

static void ptsz_done(void)
{
	OK(cu.cuStreamSynchronize_ptsz(NULL));
}

static void pool_create(void)
{
	CUmemPoolProps props = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
				.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};

	stream_create();
	OK(cu.cuMemPoolCreate(&pool, &props));
}

static void pool_set_current(void)
{
	pool_create();
	OK(cu.cuDeviceSetMemPool(0, pool));
}

static void pool_destroy(void)
{
	stream_done();
	OK(cu.cuMemPoolDestroy(pool));
}

static void pool_destroy_ptsz(void)
{
	ptsz_done();
	OK(cu.cuMemPoolDestroy(pool));
}

/* Physical memory by handle; every second one is mapped and its handle released. */
static CUresult take_handle(uint64_t bytes, struct held *ret)
{
	CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
				    .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
	static unsigned int n;
	CUresult e = cu.cuMemCreate((CUmemGenericAllocationHandle *)&ret->a, bytes, &prop, 0);

	ret->b = 0;
	ret->c = bytes;
	if (e || n++ % 2)
		return e;
	OK(cu.cuMemAddressReserve((CUdeviceptr *)&ret->b, bytes, 0, 0, 0));
	OK(cu.cuMemMap(ret->b, bytes, 0, ret->a, 0));
	OK(cu.cuMemRelease(ret->a));
	return e;
}

static CUresult give_handle(const struct held *h)
{
	CUresult e;

	if (!h->b)
		return cu.cuMemRelease(h->a);
	e = cu.cuMemUnmap(h->b, h->c);
	return e ? e : cu.cuMemAddressFree(h->b, h->c);
}

/* Arrays: 1024 texels of four floats a row. */
#define ROW (1024 * 16)

static CUresult take_array_v1(uint64_t bytes, struct held *ret)
{
	CUDA_ARRAY_DESCRIPTOR_v1 d = {1024, (unsigned int)(bytes / ROW), CU_AD_FORMAT_FLOAT, 4};

	return cu.cuArrayCreate((CUarray *)&ret->a, &d);
}

static CUresult take_array(uint64_t bytes, struct held *ret)
{
	CUDA_ARRAY_DESCRIPTOR d = {1024, bytes / ROW, CU_AD_FORMAT_FLOAT, 4};

	return cu.cuArrayCreate_v2((CUarray *)&ret->a, &d);
}

static CUresult take_array3d_v1(uint64_t bytes, struct held *ret)
{
	CUDA_ARRAY3D_DESCRIPTOR_v1 d = {1024, (unsigned int)(bytes / ROW / 8), 8,
					CU_AD_FORMAT_FLOAT, 4, 0};

	return cu.cuArray3DCreate((CUarray *)&ret->a, &d);
}

static CUresult take_array3d(uint64_t bytes, struct held *ret)
{
	CUDA_ARRAY3D_DESCRIPTOR d = {1024, bytes / ROW / 8, 8, CU_AD_FORMAT_FLOAT, 4, 0};

	return cu.cuArray3DCreate_v2((CUarray *)&ret->a, &d);
}

static CUresult take_small_array(uint64_t bytes, struct held *ret)
{
	CUDA_ARRAY_DESCRIPTOR d = {128, bytes / 512, CU_AD_FORMAT_FLOAT, 1};

	return cu.cuArrayCreate_v2((CUarray *)&ret->a, &d);
}

static CUresult give_array(const struct held *h)
{
	return cu.cuArrayDestroy((CUarray)h->a);
}

static CUresult take_mipmap(uint64_t bytes, struct held *ret)
{
	CUDA_ARRAY3D_DESCRIPTOR d = {1024, bytes / ROW * 3 / 4, 0, CU_AD_FORMAT_FLOAT, 4, 0};

	return cu.cuMipmappedArrayCreate((CUmipmappedArray *)&ret->a, &d, 7);
}

static CUresult give_mipmap(const struct held *h)
{
	return cu.cuMipmappedArrayDestroy((CUmipmappedArray)h->a);
}

/* A sparse array takes nothing; what backs a part of it is a handle, released right away. */
static CUresult take_sparse(uint64_t bytes, struct held *ret)
{
	CUDA_ARRAY3D_DESCRIPTOR d = {1024, bytes / ROW, 0, CU_AD_FORMAT_FLOAT, 4,
				     CUDA_ARRAY3D_SPARSE};
	CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
				    .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
	CUarrayMapInfo map = {.resourceType = CU_RESOURCE_TYPE_ARRAY,
			      .memOperationType = CU_MEM_OPERATION_TYPE_MAP,
			      .memHandleType = CU_MEM_HANDLE_TYPE_GENERIC, .deviceBitMask = 1};
	CUmemGenericAllocationHandle handle;
	CUresult e = cu.cuMemCreate(&handle, bytes, &prop, 0);

	if (e)
		return e;
	OK(cu.cuArray3DCreate_v2((CUarray *)&ret->a, &d));
	map.resource.array = (CUarray)ret->a;
	map.subresource.sparseLevel.extentWidth = 1024;
	map.subresource.sparseLevel.extentHeight = (unsigned int)(bytes / ROW);
	map.subresource.sparseLevel.extentDepth = 1;
	map.memHandle.memHandle = handle;
	OK(cu.cuMemMapArrayAsync(&map, 1, NULL));
	OK(cu.cuMemRelease(handle));
	return e;
}

/* Memory of graphs: a node that allocates and does not free, so that a launch keeps it. */
static void graph_of_node(uint64_t bytes, struct held *ret)
{
	CUDA_MEM_ALLOC_NODE_PARAMS node = {
		.poolProps = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
			      .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}},
		.bytesize = bytes};
	CUgraphNode n;

	OK(cu.cuGraphCreate((CUgraph *)&ret->b, 0));
	OK(cu.cuGraphAddMemAllocNode(&n, (CUgraph)ret->b, NULL, 0, &node));
	ret->a = node.dptr;
}

static CUresult graph_undo(const struct held *h, CUresult e)
{
	if (h->c)
		OK(cu.cuGraphExecDestroy((CUgraphExec)h->c));
	OK(cu.cuGraphDestroy((CUgraph)h->b));
	return e;
}

static CUresult launched(struct held *ret)
{
	CUresult e;

	ret->c = 0;
	OK(cu.cuGraphInstantiateWithFlags((CUgraphExec *)&ret->c, (CUgraph)ret->b, 0));
	e = cu.cuGraphLaunch((CUgraphExec)ret->c, stream);
	return e ? graph_undo(ret, e) : e;
}

static CUresult take_graph(uint64_t bytes, struct held *ret)
{
	graph_of_node(bytes, ret);
	return launched(ret);
}

static CUresult take_graph_upload(uint64_t bytes, struct held *ret)
{
	CUresult e;

	graph_of_node(bytes, ret);
	ret->c = 0;
	OK(cu.cuGraphInstantiateWithFlags((CUgraphExec *)&ret->c, (CUgraph)ret->b, 0));
	e = cu.cuGraphUpload((CUgraphExec)ret->c, stream);
	if (e)
		return graph_undo(ret, e);
	OK(cu.cuGraphLaunch((CUgraphExec)ret->c, stream));
	return e;
}

static CUresult take_graph_instantiate(uint64_t bytes, struct held *ret)
{
	CUDA_GRAPH_INSTANTIATE_PARAMS params = {.flags = CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD,
						.hUploadStream = stream};
	CUresult e;

	graph_of_node(bytes, ret);
	ret->c = 0;
	e = cu.cuGraphInstantiateWithParams((CUgraphExec *)&ret->c, (CUgraph)ret->b, &params);
	if (e)
		return graph_undo(ret, e);
	OK(cu.cuGraphLaunch((CUgraphExec)ret->c, stream));
	return e;
}

static CUresult take_captured(uint64_t bytes, struct held *ret)
{
	OK(cu.cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
	OK(cu.cuMemAllocAsync((CUdeviceptr *)&ret->a, bytes, stream));
	OK(cu.cuStreamEndCapture(stream, (CUgraph *)&ret->b));
	return launched(ret);
}

static CUresult give_graph(const struct held *h)
{
	OK(cu.cuMemFreeAsync(h->a, stream));
	return graph_undo(h, CUDA_SUCCESS);
}

static void graph_trim(void)
{
	stream_done();
	OK(cu.cuDeviceGraphMemTrim(0));
}

/* Contexts. */
static CUresult give_context(const struct held *h)
{
	return cu.cuCtxDestroy_v2((CUcontext)h->a);
}

static CUresult take_context(uint64_t bytes, struct held *ret)
{
	return cu.cuCtxCreate_v2((CUcontext *)&ret->a, 0, 0);
}

static CUresult take_context_v1(uint64_t bytes, struct held *ret)
{
	return cu.cuCtxCreate((CUcontext *)&ret->a, 0, 0);
}

static CUresult give_context_v1(const struct held *h)
{
	return cu.cuCtxDestroy((CUcontext)h->a);
}

static CUresult take_context_v3(uint64_t bytes, struct held *ret)
{
	return cu.cuCtxCreate_v3((CUcontext *)&ret->a, NULL, 0, 0, 0);
}

static CUresult take_context_v4(uint64_t bytes, struct held *ret)
{
	return cu.cuCtxCreate_v4((CUcontext *)&ret->a, NULL, 0, 0);
}

static CUresult take_green(uint64_t bytes, struct held *ret)
{
	CUdevResourceDesc desc;
	CUdevResource sm;

	OK(cu.cuDeviceGetDevResource(0, &sm, CU_DEV_RESOURCE_TYPE_SM));
	OK(cu.cuDevResourceGenerateDesc(&desc, &sm, 1));
	return cu.cuGreenCtxCreate((CUgreenCtx *)&ret->a, desc, 0, 1 /* default stream */);
}

static CUresult give_green(const struct held *h)
{
	return cu.cuGreenCtxDestroy((CUgreenCtx)h->a);
}

/* The memory of green contexts goes with the primary one. */
static void green_end(void)
{
	OK(cu.cuDevicePrimaryCtxReset_v2(0));
	guest_context(0);
}

/* 16 bytes of stack for each thread that the device can hold: each piece raises the limit. */
static CUresult stack_change(int64_t bytes)
{
	size_t now;

	OK(cu.cuCtxGetLimit(&now, CU_LIMIT_STACK_SIZE));
	return cu.cuCtxSetLimit(CU_LIMIT_STACK_SIZE, now + (size_t)bytes);
}

static CUresult take_stack(uint64_t bytes, struct held *ret)
{
	return stack_change(16);
}

static CUresult give_stack(const struct held *h)
{
	return stack_change(-16);
}

/* Code. */
static void eager(void)
{
	setenv("CUDA_MODULE_LOADING", "EAGER", 1);
}

static const char *image(uint64_t bytes)
{
	static char text[64];

	snprintf(text, sizeof(text), "allot-sim-module bytes=%llu\n", (unsigned long long)bytes);
	return text;
}

static CUresult take_module(uint64_t bytes, struct held *ret)
{
	return cu.cuModuleLoadData((CUmodule *)&ret->a, image(bytes));
}

static CUresult take_module_ex(uint64_t bytes, struct held *ret)
{
	return cu.cuModuleLoadDataEx((CUmodule *)&ret->a, image(bytes), 0, NULL, NULL);
}

static CUresult take_fatbin(uint64_t bytes, struct held *ret)
{
	return cu.cuModuleLoadFatBinary((CUmodule *)&ret->a, image(bytes));
}

static CUresult give_module(const struct held *h)
{
	return cu.cuModuleUnload((CUmodule)h->a);
}

static CUresult take_library(uint64_t bytes, struct held *ret)
{
	return cu.cuLibraryLoadData((CUlibrary *)&ret->a, image(bytes), NULL, NULL, 0,
				    NULL, NULL, 0);
}

static CUresult give_library(const struct held *h)
{
	return cu.cuLibraryUnload((CUlibrary)h->a);
}

#define NEED(member) (void *)&cu.member
static const struct family families[] = {
	{"alloc-4k", 4096, 4096, GRANULE, 0, NEED(cuMemAlloc_v2), take_alloc, free_plain},
	{"alloc-64k", 65536, 65536, GRANULE, 0, NEED(cuMemAlloc_v2), take_alloc, free_plain},
	{"alloc-1m", MIB, MIB, GRANULE, 0, NEED(cuMemAlloc_v2), take_alloc, free_plain},
	{"alloc-1.5m", 3 * MIB / 2, 3 * MIB / 2, GRANULE, 0, NEED(cuMemAlloc_v2), take_alloc,
	 free_plain},
	{"alloc", 33 * MIB, MIB, GRANULE, 0, NEED(cuMemAlloc_v2), take_alloc, free_plain},
	{"alloc-v1", MIB, MIB, UINT64_MAX / 2, 0, NEED(cuMemAlloc), take_v1, free_v1},
	{"pitch", 33 * MIB, GRANULE, GRANULE, 0, NEED(cuMemAllocPitch_v2), take_pitch, free_plain},
	{"pitch-v1", MIB, MIB, UINT64_MAX / 2, 0, NEED(cuMemAllocPitch), take_pitch_v1, free_v1},
	{"managed", 33 * MIB, MIB, GRANULE, 0, NEED(cuMemAllocManaged), take_managed, free_plain},
	{"async", 8 * MIB, MIB, POOL, 0, NEED(cuMemAllocAsync), take_async, free_async, NULL,
	 stream_create, stream_done},
	{"async-big", 40 * MIB, MIB, POOL, POOL, NEED(cuMemAllocAsync), take_async, free_async,
	 NULL, stream_create, stream_done},
	{"async-current", 8 * MIB, MIB, POOL, 0, NEED(cuDeviceSetMemPool), take_async, free_async,
	 NULL, pool_set_current, pool_destroy},
	{"async-ptsz", 8 * MIB, MIB, POOL, 0, NEED(cuMemAllocAsync_ptsz), take_async_ptsz,
	 free_async_ptsz, NULL, NULL, ptsz_done},
	{"from-pool", 8 * MIB, MIB, POOL, 0, NEED(cuMemAllocFromPoolAsync), take_from_pool,
	 free_async, NULL, pool_create, pool_destroy},
	{"from-pool-ptsz", 8 * MIB, MIB, POOL, 0, NEED(cuMemAllocFromPoolAsync_ptsz),
	 take_from_pool_ptsz, free_async_ptsz, NULL, pool_create, pool_destroy_ptsz},
	{"handle", 32 * MIB, GRANULE, GRANULE, 0, NEED(cuMemCreate), take_handle, give_handle},
	{"array-v1", 32 * MIB, GRANULE, GRANULE, 0, NEED(cuArrayCreate), take_array_v1, give_array},
	{"array", 32 * MIB, GRANULE, GRANULE, 0, NEED(cuArrayCreate_v2), take_array, give_array},
	{"array-3d-v1", 32 * MIB, GRANULE, GRANULE, 0, NEED(cuArray3DCreate), take_array3d_v1,
	 give_array},
	{"array-3d", 32 * MIB, GRANULE, GRANULE, 0, NEED(cuArray3DCreate_v2), take_array3d,
	 give_array},
	{"array-small", 65536, 65536, GRANULE, 0, NEED(cuArrayCreate_v2), take_small_array,
	 give_array},
	{"mipmap", 32 * MIB, MIB / 2, GRANULE, 0, NEED(cuMipmappedArrayCreate), take_mipmap,
	 give_mipmap},
	{"sparse", 32 * MIB, GRANULE, GRANULE, 0, NEED(cuMemMapArrayAsync), take_sparse,
	 give_array},
	{"graph", 16 * MIB, GRANULE, POOL, 0, NEED(cuGraphLaunch), take_graph, give_graph, NULL,
	 stream_create, graph_trim},
	{"graph-upload", 16 * MIB, GRANULE, POOL, 0, NEED(cuGraphUpload), take_graph_upload,
	 give_graph, NULL, stream_create, graph_trim},
	{"graph-instantiate", 16 * MIB, GRANULE, POOL, 0, NEED(cuGraphInstantiateWithParams),
	 take_graph_instantiate, give_graph, NULL, stream_create, graph_trim},
	{"captured", 16 * MIB, GRANULE, POOL, 0, NEED(cuStreamBeginCapture_v2), take_captured,
	 give_graph, NULL, stream_create, graph_trim},
	{"context", 1, 1, 22 * MIB, 0, NEED(cuCtxCreate_v2), take_context, give_context},
	{"context-v1", 1, 1, 22 * MIB, 0, NEED(cuCtxCreate), take_context_v1, give_context_v1},
	{"context-v3", 1, 1, 22 * MIB, 0, NEED(cuCtxCreate_v3), take_context_v3, give_context},
	{"context-v4", 1, 1, 22 * MIB, 0, NEED(cuCtxCreate_v4), take_context_v4, give_context},
	{"green", 1, 1, 8 * MIB, 0, NEED(cuGreenCtxCreate), take_green, give_green, NULL, NULL,
	 green_end},
	{"stack", 1, 1, 6 * MIB, 0, NEED(cuCtxSetLimit), take_stack, give_stack},
	{"module", 8 * MIB, GRANULE, GRANULE, 8 * MIB, NEED(cuModuleLoadData), take_module,
	 give_module, eager},
	{"module-ex", 8 * MIB, GRANULE, GRANULE, 8 * MIB, NEED(cuModuleLoadDataEx), take_module_ex,
	 give_module, eager},
	{"fatbin", 8 * MIB, GRANULE, GRANULE, 8 * MIB, NEED(cuModuleLoadFatBinary), take_fatbin,
	 give_module, eager},
	{"library", 8 * MIB, GRANULE, GRANULE, 8 * MIB, NEED(cuLibraryLoadData), take_library,
	 give_library, eager},
};

static struct held held[MAX_HELD];

static void fill(const struct family *f)
{
	unsigned int n = 0;
	CUresult e;

	for (uint64_t bytes = f->first;; bytes /= 2) {
		if (bytes < f->least)
			bytes = f->least;
		while (n < MAX_HELD && !(e = f->take(bytes, &held[n])))
			n++;
		GIVES(CUDA_ERROR_OUT_OF_MEMORY, e);
		if (bytes == f->least)
			break;
	}
	CHECK(n < MAX_HELD);
	tell(NOTE_FULL, 0, f->granule, "full");
	/* From both ends, so that neither order is special. */
	for (unsigned int i = 0; i < n; i++)
		OK(f->give(&held[i % 2 ? n - 1 - i / 2 : i / 2]));
	if (f->end)
		f->end();
	tell(NOTE_FREED, 0, 0, "freed");
}

int fill_family(const char *name)
{
	for (size_t i = 0; i < sizeof(families) / sizeof(families[0]); i++) {
		const struct family *f = &families[i];
		void *there;

		if (strcmp(f->name, name))
			continue;
		memcpy(&there, f->need, sizeof(there));
		if (!there)
			break;
		guest_slack = f->slack;
		if (f->begin)
			f->begin();
		guest_context(0);
		if (f->start)
			f->start();
		fill(f);
		return 0;
	}
	fprintf(stderr, "no way to family %s\n", name);
	return 2;
}
