/* SPDX-License-Identifier: Apache-2.0 */
/* Stories of pools, which keep what was freed. */
#include <stdint.h>

#include "families_steps.h"

static CUmemoryPool new_pool(void)
{
	CUmemPoolProps props = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
				.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
	CUmemoryPool pool;

	OK(cu.cuMemPoolCreate(&pool, &props));
	return pool;
}

void idle_pools_go_first(void)
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
	OK(cu.cuMemAllocFromPoolAsync(&q, 160 * MIB, own, NULL));
	OK(cu.cuMemFreeAsync(q, NULL));
	OK(cu.cuStreamSynchronize(NULL));
	p = alloc_async(160 * MIB, NULL);
	tell(NOTE_USED, 0, 160 * MIB, "trimmed for another pool");
	OK(cu.cuMemFreeAsync(p, NULL));
	OK(cu.cuStreamSynchronize(NULL));
	create(160 * MIB);
	tell(NOTE_USED, 0, 160 * MIB, "trimmed for a handle");
}

/* Each time after the one before was used twice, so that it is well known. */
void pools_exchanged(void)
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

void pools_in_pieces(void)
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
	GIVES(CUDA_ERROR_OUT_OF_MEMORY, cu.cuMemAllocAsync(&big, 24 * MIB, NULL));
	tell(NOTE_USED, 0, 160 * MIB, "too big for any piece");
	for (n = 0; n < 20; n += 2)
		piece[n] = alloc_async(8 * MIB, NULL);
	tell(NOTE_USED, 0, 160 * MIB, "pieces are used again");
	for (n = 0; n < 20; n++)
		OK(cu.cuMemFree_v2(piece[n]));
	OK(cu.cuMemPoolTrimTo(standard, 0));
	tell(NOTE_FREED, 0, 0, "all freed");
}

void pool_destroyed_early(void)
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

void pool_threshold(void)
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

/* All of it may come to the device. */
void managed_pool(void)
{
	CUmemPoolProps props = {.allocType = CU_MEM_ALLOCATION_TYPE_MANAGED,
				.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
	CUmemoryPool pool;
	CUdeviceptr p, q;
	size_t free, total;

	guest_context(0);
	OK(cu.cuMemPoolCreate(&pool, &props));
	OK(cu.cuMemAllocFromPoolAsync(&p, 60 * MIB, pool, NULL));
	tell(NOTE_USED, 0, 64 * MIB, "managed");
	/* The driver's figure leaves it out, and is looked at. */
	usleep(6000);
	OK(cu.cuMemGetInfo_v2(&free, &total));
	q = alloc(2 * MIB);
	tell(NOTE_USED, 0, 66 * MIB, "and something else");
	OK(cu.cuMemFree_v2(q));
	GIVES(CUDA_ERROR_OUT_OF_MEMORY, cu.cuMemAllocFromPoolAsync(&q, 130 * MIB, pool, NULL));
	OK(cu.cuMemFreeAsync(p, NULL));
	OK(cu.cuStreamSynchronize(NULL));
	tell(NOTE_FREED, 0, 0, "freed");
	OK(cu.cuMemPoolDestroy(pool));
	OK(cu.cuMemPoolCreate(&pool, &props));
	OK(cu.cuMemAllocFromPoolAsync(&p, 20 * MIB, pool, NULL));
	OK(cu.cuMemPoolDestroy(pool));
	tell(NOTE_USED, 0, 32 * MIB, "destroyed, and in use");
	fill_rest();
}
