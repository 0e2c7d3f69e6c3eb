/* SPDX-License-Identifier: Apache-2.0 */
/*
 * families_crowd <device> <seed> <rounds> <kinds, a bit each>: threads that take and give memory of
 * many families at random, as hard as they can, with a note after each round, when all hold still.
 */
#include <pthread.h>
#include <stdint.h>

#include "families_guest.h"

#define THREADS 2
#define HELD 24
#define STEPS 250

enum { NOTHING, PLAIN, ASYNC, FROM_POOL, HANDLE, MAPPED, ARRAY, MIPMAP, GRAPH, KINDS };

struct held {
	int kind;
	uint64_t a, b, c;
};

static int device;
static CUcontext ctx;
static CUmemoryPool pool;
static pthread_barrier_t still;
static unsigned int rounds;
static unsigned long kinds;

struct worker {
	pthread_t thread;
	uint64_t seed;
	CUstream stream;
	struct held held[HELD];
};

static uint64_t draw(struct worker *w, uint64_t below)
{
	w->seed ^= w->seed << 13;
	w->seed ^= w->seed >> 7;
	w->seed ^= w->seed << 17;
	return w->seed % below;
}

static CUmemAllocationProp prop(void)
{
	return (CUmemAllocationProp){
		.type = CU_MEM_ALLOCATION_TYPE_PINNED,
		.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device}};
}

static CUresult take_graph(struct worker *w, uint64_t bytes, struct held *h)
{
	CUDA_MEM_ALLOC_NODE_PARAMS node = {.poolProps = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
							 .location = prop().location},
					   .bytesize = bytes};
	CUgraphNode n;
	CUgraph graph;
	CUresult e;

	OK(cu.cuGraphCreate(&graph, 0));
	OK(cu.cuGraphAddMemAllocNode(&n, graph, NULL, 0, &node));
	OK(cu.cuGraphInstantiateWithFlags((CUgraphExec *)&h->b, graph, 0));
	OK(cu.cuGraphDestroy(graph));
	e = cu.cuGraphLaunch((CUgraphExec)h->b, w->stream);
	h->a = node.dptr;
	if (e)
		OK(cu.cuGraphExecDestroy((CUgraphExec)h->b));
	return e;
}

static CUresult take(struct worker *w, int kind, uint64_t bytes, struct held *h)
{
	CUDA_ARRAY3D_DESCRIPTOR d = {256, 1 + bytes / 4096, 0, CU_AD_FORMAT_FLOAT, 4, 0};
	CUmemAllocationProp p = prop();
	CUresult e;

	h->c = (bytes + 2 * MIB - 1) / (2 * MIB) * 2 * MIB;
	switch (kind) {
	case PLAIN:
		return cu.cuMemAlloc_v2((CUdeviceptr *)&h->a, bytes);
	case ASYNC:
		return cu.cuMemAllocAsync((CUdeviceptr *)&h->a, bytes, w->stream);
	case FROM_POOL:
		return cu.cuMemAllocFromPoolAsync((CUdeviceptr *)&h->a, bytes, pool, w->stream);
	case HANDLE:
		return cu.cuMemCreate((CUmemGenericAllocationHandle *)&h->a, h->c, &p, 0);
	case MAPPED:
		e = cu.cuMemCreate((CUmemGenericAllocationHandle *)&h->a, h->c, &p, 0);
		if (e)
			return e;
		OK(cu.cuMemAddressReserve((CUdeviceptr *)&h->b, h->c, 0, 0, 0));
		OK(cu.cuMemMap(h->b, h->c, 0, h->a, 0));
		OK(cu.cuMemRelease(h->a));
		return e;
	case ARRAY:
		return cu.cuArray3DCreate_v2((CUarray *)&h->a, &d);
	case MIPMAP:
		return cu.cuMipmappedArrayCreate((CUmipmappedArray *)&h->a, &d, 4);
	default:
		return take_graph(w, bytes, h);
	}
}

static void give(struct worker *w, struct held *h)
{
	switch (h->kind) {
	case PLAIN:
		if (draw(w, 4))
			OK(cu.cuMemFree_v2(h->a));
		else
			OK(cu.cuMemFreeAsync(h->a, w->stream));
		break;
	case ASYNC:
	case FROM_POOL:
		if (draw(w, 8))
			OK(cu.cuMemFreeAsync(h->a, w->stream));
		else
			OK(cu.cuMemFree_v2(h->a));
		break;
	case HANDLE:
		OK(cu.cuMemRelease(h->a));
		break;
	case MAPPED:
		OK(cu.cuMemUnmap(h->b, h->c));
		OK(cu.cuMemAddressFree(h->b, h->c));
		break;
	case ARRAY:
		OK(cu.cuArrayDestroy((CUarray)h->a));
		break;
	case MIPMAP:
		OK(cu.cuMipmappedArrayDestroy((CUmipmappedArray)h->a));
		break;
	case GRAPH:
		OK(cu.cuMemFreeAsync(h->a, w->stream));
		OK(cu.cuGraphExecDestroy((CUgraphExec)h->b));
		break;
	default:
		break;
	}
	h->kind = NOTHING;
}

static void step(struct worker *w)
{
	struct held *h = &w->held[draw(w, HELD)];
	uint64_t bytes = draw(w, 3) ? 1 + draw(w, 12 * MIB) : 1 + draw(w, MIB);
	int kind = 1 + (int)draw(w, KINDS - 1);
	size_t free, total;
	CUresult e;

	if (h->kind) {
		give(w, h);
		return;
	}
	if (!(kinds >> kind & 1))
		kind = PLAIN;
	e = take(w, kind, bytes, h);
	if (e)
		GIVES(CUDA_ERROR_OUT_OF_MEMORY, e);
	else
		h->kind = kind;
	if (!draw(w, 16)) {
		OK(cu.cuMemGetInfo_v2(&free, &total));
		CHECK(free <= total);
	}
	if (!draw(w, 16))
		OK(cu.cuStreamSynchronize(w->stream));
}

static void *work(void *arg)
{
	struct worker *w = arg;

	OK(cu.cuCtxSetCurrent(ctx));
	OK(cu.cuStreamCreate(&w->stream, CU_STREAM_NON_BLOCKING));
	for (unsigned int round = 0; round < rounds; round++) {
		for (int i = 0; i < STEPS; i++)
			step(w);
		for (int i = 0; round % 2 && i < HELD; i++)
			give(w, &w->held[i]);
		OK(cu.cuStreamSynchronize(w->stream));
		pthread_barrier_wait(&still);
		pthread_barrier_wait(&still);
	}
	return NULL;
}

int main(int argc, char **argv)
{
	static struct worker workers[THREADS];
	CUmemPoolProps props;
	char text[32];
	CUresult e;

	if (argc < 5)
		return 2;
	kinds = strtoul(argv[4], NULL, 0);
	/* Room in a pool may be in pieces: what it grows by is undone, but was there. */
	guest_slack = kinds & (1 << ASYNC | 1 << FROM_POOL) ? 64 * MIB : 0;
	guest_label = argv[2];
	device = atoi(argv[1]);
	rounds = (unsigned int)atoi(argv[3]);
	guest_bind();
	OK(cu.cuInit(0));
	/* The others may have taken all, and hold still with it. */
	for (int i = 0;
	     (e = cu.cuDevicePrimaryCtxRetain(&ctx, device)) == CUDA_ERROR_OUT_OF_MEMORY; i++) {
		if (i == 100)
			return 0;
		usleep(1000);
	}
	OK(e);
	OK(cu.cuCtxSetCurrent(ctx));
	/* What a context takes nobody knows before there was one. */
	tell(NOTE_LEDGER, device, 0, "context");
	props = (CUmemPoolProps){.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
				 .location = prop().location};
	OK(cu.cuMemPoolCreate(&pool, &props));
	pthread_barrier_init(&still, NULL, THREADS + 1);
	for (uint64_t i = 0; i < THREADS; i++) {
		workers[i].seed = strtoull(argv[2], NULL, 10) * 1000003 + i * 7919 + 1;
		CHECK(!pthread_create(&workers[i].thread, NULL, work, &workers[i]));
	}
	for (unsigned int round = 0; round < rounds; round++) {
		size_t free, total;

		pthread_barrier_wait(&still);
		/* Asking also looks at what streams have freed. */
		OK(cu.cuMemGetInfo_v2(&free, &total));
		snprintf(text, sizeof(text), "round %u", round);
		tell(NOTE_LEDGER, device, 0, text);
		pthread_barrier_wait(&still);
	}
	for (int i = 0; i < THREADS; i++)
		CHECK(!pthread_join(workers[i].thread, NULL));
	return 0;
}
