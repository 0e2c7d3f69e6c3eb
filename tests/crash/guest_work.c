/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/crash/guest_work.h"

#include <string.h>
#include <unistd.h>

#include "base/now.h"
#include "tests/check.h"

#define KIB (UINT64_C(1) << 10)
#define MIB (UINT64_C(1) << 20)
#define OK(call) CHECK_EQ(call, CUDA_SUCCESS)

static unsigned int pick(struct work *w, unsigned int n)
{
	return (unsigned int)rand_r(&w->seed) % n;
}

bool work_begin(struct work *w)
{
	CUresult e;

	OK(cuInit(0));
	e = cuDevicePrimaryCtxRetain(&w->context, 0);
	if (e == CUDA_ERROR_OUT_OF_MEMORY)
		return false;
	CHECK_EQ(e, CUDA_SUCCESS);
	OK(cuCtxSetCurrent(w->context));
	OK(cuStreamCreate(&w->stream, CU_STREAM_NON_BLOCKING));
	return true;
}

/* Its first and its last word: nobody else may have been given the place. */
static void mark(struct work *w, struct work_block *b)
{
	b->word = (unsigned int)rand_r(&w->seed);
	OK(cuMemsetD32_v2(b->ptr, b->word, 1));
	OK(cuMemsetD32_v2(b->ptr + b->bytes - 4, b->word, 1));
}

static void look(struct work *w, const struct work_block *b)
{
	unsigned int first = 0, last = 0;

	OK(cuMemcpyDtoH_v2(&first, b->ptr, 4));
	OK(cuMemcpyDtoH_v2(&last, b->ptr + b->bytes - 4, 4));
	w->wrong += (first != b->word) + (last != b->word);
}

static CUresult vmm_take(struct work *w, struct work_block *b)
{
	CUmemAllocationProp prop = {
		.type = CU_MEM_ALLOCATION_TYPE_PINNED,
		.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
		.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0},
	};
	CUmemAccessDesc access = {.location = prop.location,
				  .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
	CUmemGenericAllocationHandle handle;
	CUresult e;
	int fd;

	b->bytes = (b->bytes + 2 * MIB - 1) / (2 * MIB) * (2 * MIB);
	e = cuMemCreate(&handle, b->bytes, &prop, 0);
	if (e)
		return e;
	OK(cuMemAddressReserve(&b->ptr, b->bytes, 0, 0, 0));
	OK(cuMemMap(b->ptr, b->bytes, 0, handle, 0));
	OK(cuMemSetAccess(b->ptr, b->bytes, &access, 1));
	b->handle = handle;
	if (pick(w, 4) == 0) {
		OK(cuMemExportToShareableHandle(&fd, handle,
						CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
		close(fd);
	}
	if (pick(w, 2)) {
		OK(cuMemRelease(handle)); /* the mapping keeps it */
		b->handle = 0;
	}
	return CUDA_SUCCESS;
}

static void vmm_give(struct work_block *b)
{
	OK(cuMemUnmap(b->ptr, b->bytes));
	OK(cuMemAddressFree(b->ptr, b->bytes));
	if (b->handle)
		OK(cuMemRelease(b->handle));
}

static CUresult graph_take(struct work *w, struct work_block *b)
{
	CUDA_MEM_ALLOC_NODE_PARAMS params = {
		.poolProps = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
			      .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0}},
		.bytesize = b->bytes,
	};
	CUgraphNode node, end;
	CUgraphExec exec;
	CUgraph graph;
	CUresult e;

	OK(cuGraphCreate(&graph, 0));
	OK(cuGraphAddMemAllocNode(&node, graph, NULL, 0, &params));
	OK(cuGraphAddMemFreeNode(&end, graph, &node, 1, params.dptr));
	e = cuGraphInstantiateWithFlags(&exec, graph, 0);
	if (!e) {
		e = cuGraphLaunch(exec, w->stream);
		OK(cuStreamSynchronize(w->stream));
		if (e)
			OK(cuGraphExecDestroy(exec));
	}
	OK(cuGraphDestroy(graph));
	b->peer = e ? NULL : exec;
	return e;
}

static CUresult array_take(struct work *w, struct work_block *b)
{
	CUDA_ARRAY_DESCRIPTOR desc = {.Width = 1024, .Height = b->bytes / 4096,
				      .Format = CU_AD_FORMAT_FLOAT, .NumChannels = 1};
	CUarray array;
	CUresult e = cuArrayCreate_v2(&array, &desc);

	b->peer = e ? NULL : array;
	return e;
}

static CUresult context_take(struct work *w, struct work_block *b)
{
	CUcontext context;
	CUresult e = cuCtxCreate_v2(&context, 0, 0);

	if (e)
		return e;
	OK(cuCtxPopCurrent_v2(&context));
	b->peer = context;
	return e;
}

static CUresult take(struct work *w, struct work_block *b)
{
	size_t pitch;
	CUresult e;

	switch (b->family) {
	case WORK_LARGE:
	case WORK_MIXED:
		return cuMemAlloc_v2(&b->ptr, b->bytes);
	case WORK_MANAGED:
		return cuMemAllocManaged(&b->ptr, b->bytes, CU_MEM_ATTACH_GLOBAL);
	case WORK_SMALL:
		b->bytes = 512 + pick(w, 512 * KIB) / 4 * 4;
		return cuMemAlloc_v2(&b->ptr, b->bytes);
	case WORK_PITCH:
		e = cuMemAllocPitch_v2(&b->ptr, &pitch, 5000, b->bytes / 8192, 4);
		b->bytes = e ? 0 : pitch * (b->bytes / 8192);
		return e;
	case WORK_ASYNC:
		e = cuMemAllocAsync(&b->ptr, b->bytes, w->stream);
		OK(cuStreamSynchronize(w->stream));
		return e;
	case WORK_VMM:
		return vmm_take(w, b);
	case WORK_ARRAY:
		return array_take(w, b);
	case WORK_GRAPH:
		return graph_take(w, b);
	default:
		return context_take(w, b);
	}
}

static void give(struct work *w, struct work_block *b)
{
	switch (b->family) {
	case WORK_ASYNC:
	case WORK_MIXED:
		OK(cuMemFreeAsync(b->ptr, w->stream));
		if (pick(w, 2))
			OK(cuStreamSynchronize(w->stream));
		break;
	case WORK_VMM:
		vmm_give(b);
		break;
	case WORK_ARRAY:
		OK(cuArrayDestroy(b->peer));
		break;
	case WORK_GRAPH:
		OK(cuGraphExecDestroy(b->peer));
		OK(cuDeviceGraphMemTrim(0));
		break;
	case WORK_CONTEXT:
		OK(cuCtxDestroy_v2(b->peer));
		break;
	default:
		OK(cuMemFree_v2(b->ptr));
		break;
	}
}

static void toggle(struct work *w, struct work_block *b)
{
	CUresult e;

	if (b->family) {
		if (b->ptr)
			look(w, b);
		give(w, b);
		memset(b, 0, sizeof(*b));
		return;
	}
	b->family = (enum work_family)(1 + pick(w, WORK_FAMILIES - 1));
	b->bytes = (uint64_t)(1 + pick(w, 6)) * 2 * MIB - pick(w, 2) * MIB;
	e = take(w, b);
	if (!e && b->ptr)
		mark(w, b);
	if (!e)
		return;
	if (e != CUDA_ERROR_OUT_OF_MEMORY)
		fprintf(stderr, "family %d: error %d\n", b->family, e);
	CHECK_EQ(e, CUDA_ERROR_OUT_OF_MEMORY);
	w->refused++;
	memset(b, 0, sizeof(*b));
}

void work_step(struct work *w)
{
	uint64_t start = now_monotonic_ns(), ns;

	toggle(w, &w->block[pick(w, WORK_BLOCKS)]);
	ns = now_monotonic_ns() - start;
	if (ns > w->longest_ns)
		w->longest_ns = ns;
	w->steps++;
}

void work_clear(struct work *w)
{
	CUmemoryPool pool;

	for (int i = 0; i < WORK_BLOCKS; i++)
		if (w->block[i].family)
			toggle(w, &w->block[i]);
	OK(cuStreamSynchronize(w->stream));
	OK(cuDeviceGetDefaultMemPool(&pool, 0));
	OK(cuMemPoolTrimTo(pool, 0));
}
