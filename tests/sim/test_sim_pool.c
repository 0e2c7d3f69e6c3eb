/* SPDX-License-Identifier: Apache-2.0 */
/* Pools: what they reserve, reuse and give back. */
#include "tests/sim/sim_test.h"

static uint64_t figure(CUmemoryPool pool, CUmemPool_attribute attr)
{
	cuuint64_t v;

	OK(cuMemPoolGetAttribute(pool, attr, &v));
	return v;
}

static void test_default(void)
{
	uint64_t before = used(0);
	CUmemoryPool pool;
	CUdeviceptr p, q;

	OK(cuDeviceGetDefaultMemPool(&pool, 0));
	CHECK_EQ(used(0), before);
	OK(cuMemAllocAsync(&p, 1000, NULL));
	CHECK_EQ(used(0) - before, 32 * MIB);
	CHECK_EQ(figure(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT), 1024);
	OK(cuMemAllocAsync(&q, 20 * MIB, NULL));
	CHECK_EQ(used(0) - before, 32 * MIB);
	*(volatile char *)(q + 20 * MIB - 1) = 1;
	OK(cuMemFreeAsync(q, NULL));
	OK(cuMemAllocAsync(&q, 33 * MIB, NULL));
	CHECK_EQ(used(0) - before, 96 * MIB);
	CHECK_EQ(figure(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT), 96 * MIB);
	OK(cuMemFreeAsync(p, NULL));
	GIVES(CUDA_ERROR_INVALID_VALUE, cuMemFreeAsync(p, NULL));
	OK(cuMemFreeAsync(q, NULL));
	/* The threshold is 0: a synchronization gives all of it back. */
	OK(cuCtxSynchronize());
	CHECK_EQ(used(0), before);
	CHECK_EQ(figure(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH), 96 * MIB);
}

static void test_threshold(void)
{
	uint64_t before = used(0);
	cuuint64_t keep = 40 * MIB, zero = 0;
	CUmemoryPool pool;
	CUdeviceptr p, q;

	OK(cuDeviceGetDefaultMemPool(&pool, 0));
	OK(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &keep));
	OK(cuMemAllocAsync(&p, 32 * MIB, NULL));
	OK(cuMemAllocAsync(&q, 32 * MIB, NULL));
	OK(cuMemFreeAsync(p, NULL));
	OK(cuMemFreeAsync(q, NULL));
	OK(cuCtxSynchronize());
	CHECK(used(0) - before == 32 * MIB || used(0) - before == 64 * MIB);
	OK(cuMemPoolTrimTo(pool, 1));
	CHECK_EQ(used(0) - before, 32 * MIB);
	OK(cuMemPoolTrimTo(pool, 0));
	CHECK_EQ(used(0), before);
	OK(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &zero));
}

static void test_custom(void)
{
	CUmemPoolProps props = {
		.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
		.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 1},
		.maxSize = 64 * MIB,
	};
	cuuint64_t keep = UINT64_MAX;
	CUmemoryPool pool, current;
	CUdeviceptr p, q;

	OK(cuMemPoolCreate(&pool, &props));
	OK(cuMemAllocFromPoolAsync(&p, 10, pool, NULL));
	CHECK_EQ(used(1), 32 * MIB); /* on the pool's device, not the stream's */
	GIVES(CUDA_ERROR_OUT_OF_MEMORY, cuMemAllocFromPoolAsync(&q, 33 * MIB, pool, NULL));
	OK(cuMemFree_v2(p));
	CHECK_EQ(used(1), 0);
	OK(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &keep));
	OK(cuMemAllocFromPoolAsync(&p, 10, pool, NULL));
	OK(cuDeviceSetMemPool(1, pool));
	OK(cuMemPoolDestroy(pool));
	GIVES(CUDA_ERROR_INVALID_VALUE, cuMemPoolTrimTo(pool, 0));
	OK(cuDeviceGetMemPool(&current, 1));
	CHECK(current != pool);
	CHECK_EQ(used(1), 32 * MIB); /* until its last allocation goes */
	OK(cuMemFreeAsync(p, NULL));
	OK(cuCtxSynchronize());
	CHECK_EQ(used(1), 0);
}

/* Managed memory is on the device, and in no process's figure; the pool says what it has of it. */
static void test_managed(void)
{
	CUmemPoolProps props = {
		.allocType = CU_MEM_ALLOCATION_TYPE_MANAGED,
		.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE},
	};
	uint64_t before = used(0), figure_before = sim_truth_figure(truth, getpid(), 0);
	cuuint64_t keep = UINT64_MAX;
	CUmemoryPool pool;
	CUdeviceptr p;
	bool managed;

	OK(cuMemPoolCreate(&pool, &props));
	OK(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &keep));
	OK(cuMemAllocFromPoolAsync(&p, 40 * MIB, pool, NULL));
	OK(cuCtxSynchronize());
	CHECK_EQ(used(0) - before, 64 * MIB);
	CHECK_EQ(sim_truth_figure(truth, getpid(), 0), figure_before);
	CHECK_EQ(figure(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT), 64 * MIB);
	CHECK_EQ(figure(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT), 40 * MIB);
	OK(cuPointerGetAttribute(&managed, CU_POINTER_ATTRIBUTE_IS_MANAGED, p));
	CHECK(managed);
	*(volatile int *)p = 1;
	OK(cuMemFreeAsync(p, NULL));
	OK(cuCtxSynchronize());
	CHECK_EQ(used(0) - before, 64 * MIB);
	CHECK_EQ(sim_truth_figure(truth, getpid(), 0), figure_before);
	OK(cuMemPoolTrimTo(pool, 0));
	CHECK_EQ(figure(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT), 0);
	CHECK_EQ(used(0), before);
	CHECK_EQ(sim_truth_figure(truth, getpid(), 0), figure_before);
	OK(cuMemPoolDestroy(pool));
	props.handleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
	GIVES(CUDA_ERROR_NOT_SUPPORTED, cuMemPoolCreate(&pool, &props));
}

/* Frees in every legal combination; a full device takes back what pools do not use. */
static void test_cross(void)
{
	uint64_t before = used(0);
	cuuint64_t keep = UINT64_MAX, zero = 0;
	CUmemoryPool pool;
	CUdeviceptr p, q;

	OK(cuMemAllocAsync(&p, 1000, NULL));
	OK(cuMemFree_v2(p));
	CHECK_EQ(used(0), before);
	OK(cuMemAlloc_v2(&p, 4 * MIB));
	OK(cuMemFreeAsync(p, NULL));
	OK(cuMemAlloc_v2(&q, 40));
	OK(cuMemFreeAsync(q, NULL));
	OK(cuCtxSynchronize());
	CHECK_EQ(used(0), before);
	GIVES(CUDA_ERROR_INVALID_VALUE, cuMemFreeAsync(p, NULL));

	OK(cuDeviceGetDefaultMemPool(&pool, 0));
	OK(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &keep));
	OK(cuMemAllocAsync(&p, 320 * MIB, NULL));
	OK(cuMemFreeAsync(p, NULL));
	OK(cuCtxSynchronize());
	CHECK_EQ(used(0) - before, 320 * MIB);
	OK(cuMemAlloc_v2(&q, 400 * MIB));
	CHECK_EQ(used(0) - before, 400 * MIB);
	OK(cuMemFree_v2(q));
	OK(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &zero));
	GIVES(CUDA_ERROR_OUT_OF_MEMORY, cuMemAllocAsync(&p, 449 * MIB, NULL));
	CHECK_EQ(used(0), before);
}

static void test_random(void)
{
	static struct {
		CUdeviceptr p;
		size_t n;
		unsigned char mark;
	} live[200];
	uint64_t before = used(0);

	srand(7);
	for (int i = 0; i < 20000; i++) {
		int k = rand() % 200;

		if (live[k].p) {
			CHECK_EQ(*(unsigned char *)live[k].p, live[k].mark);
			CHECK_EQ(((unsigned char *)live[k].p)[live[k].n - 1], live[k].mark);
			OK(cuMemFreeAsync(live[k].p, NULL));
			live[k].p = 0;
			continue;
		}
		live[k].n = 1 + (size_t)rand() % (1 << rand() % 20);
		live[k].mark = (unsigned char)i;
		OK(cuMemAllocAsync(&live[k].p, live[k].n, NULL));
		*(unsigned char *)live[k].p = live[k].mark;
		((unsigned char *)live[k].p)[live[k].n - 1] = live[k].mark;
		if (!(i % 1000))
			OK(cuCtxSynchronize());
	}
	for (int k = 0; k < 200; k++)
		if (live[k].p)
			OK(cuMemFreeAsync(live[k].p, NULL));
	OK(cuCtxSynchronize());
	CHECK_EQ(used(0), before);
}

int main(void)
{
	sim_begin("2", "512MiB");
	sim_context(0);
	test_default();
	test_threshold();
	test_custom();
	test_managed();
	test_cross();
	test_random();
	CHECK_EQ(used(0), 64 * MIB);
	return 0;
}
