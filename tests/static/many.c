/* SPDX-License-Identifier: Apache-2.0 */
/*
 * More of what the guest looks through than fits into one of its lists: all pools are trimmed
 * before a refusal, and all that streams have freed is given back at a synchronisation.
 */
#include <pthread.h>

#include "guest/account/granule.h"
#include "guest/core/hook.h"
#include "sim/cuda/api.h"
#include "tests/unit/tenant_fixture.h"

#define OK(call) CHECK_EQ(call, CUDA_SUCCESS)
#define LIMIT	 (4 * GIB)
#define POOLS	 96
#define FREES	 100

static struct guest_device *device;

static uint64_t held(enum category category)
{
	struct guest *guest = guest_get();
	struct quota_row row;

	CHECK_EQ(quota_process(guest->ledger, slot_index(guest->claimed), device->ledger, &row), 0);
	return row.used[category];
}

/* Each keeps what it grew by, though nothing is allocated from it. */
static void pools(void)
{
	CUmemPoolProps props = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
				.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0}};
	cuuint64_t all = UINT64_MAX;
	CUmemoryPool pool[POOLS];
	CUdeviceptr ptr;

	for (int i = 0; i < POOLS; i++) {
		OK(cuMemPoolCreate(&pool[i], &props));
		OK(cuMemPoolSetAttribute(pool[i], CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &all));
		OK(cuMemAllocFromPoolAsync(&ptr, 1, pool[i], NULL));
		OK(cuMemFreeAsync(ptr, NULL));
	}
	OK(cuStreamSynchronize(NULL));
	CHECK_EQ(held(CAT_POOL), POOLS * POOL_BYTES);
	/* There is room for it, and a context, only if all pools give back what they keep. */
	OK(cuMemAlloc_v2(&ptr, LIMIT - GIB / 2 - POOL_BYTES));
	CHECK_EQ(held(CAT_POOL), 0);
	OK(cuMemFree_v2(ptr));
	for (int i = 0; i < POOLS; i++)
		OK(cuMemPoolDestroy(pool[i]));
}

static void frees(void)
{
	CUdeviceptr ptr[FREES];

	for (int i = 0; i < FREES; i++)
		OK(cuMemAlloc_v2(&ptr[i], 2 * MIB));
	for (int i = 0; i < FREES; i++)
		OK(cuMemFreeAsync(ptr[i], NULL));
	OK(cuStreamSynchronize(NULL));
	CHECK_EQ(held(CAT_DATA), 0);
}

/* A range that nobody could map is refused by the driver, and not looked through for hours. */
static void absurd_range(void)
{
	CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
				    .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0}};
	CUmemGenericAllocationHandle handle;
	CUdeviceptr at;

	OK(cuMemCreate(&handle, 4 * MIB, &prop, 0));
	OK(cuMemAddressReserve(&at, 4 * MIB, 0, 0, 0));
	OK(cuMemMap(at, 4 * MIB, 0, handle, 0));
	OK(cuMemRelease(handle));
	CHECK(cuMemUnmap(2 * MIB, UINT64_C(1) << 62) != CUDA_SUCCESS);
	CHECK(cuMemUnmap(0, UINT64_MAX) != CUDA_SUCCESS);
	CHECK(cuMemUnmap(at, UINT64_C(1) << 62) != CUDA_SUCCESS);
	CHECK_EQ(held(CAT_DATA), 4 * MIB);
	OK(cuMemUnmap(at, 4 * MIB));
	CHECK_EQ(held(CAT_DATA), 0);
	OK(cuMemAddressFree(at, 4 * MIB));
}

static CUcontext context;

static void *set_limits(void *arg)
{
	OK(cuCtxSetCurrent(context));
	for (int i = 0; i < 20000; i++)
		OK(cuda_real.cuCtxSetLimit(CU_LIMIT_MALLOC_HEAP_SIZE, (size_t)(16 + i % 64) * MIB));
	return NULL;
}

/* The simulated device keeps count of heaps that threads change at once. */
static void limits(void)
{
	size_t before, after, total, heap;
	pthread_t thread[4];

	OK(cuCtxGetLimit(&heap, CU_LIMIT_MALLOC_HEAP_SIZE));
	OK(cuda_real.cuMemGetInfo_v2(&before, &total));
	for (int i = 0; i < 4; i++)
		CHECK_EQ(pthread_create(&thread[i], NULL, set_limits, NULL), 0);
	for (int i = 0; i < 4; i++)
		CHECK_EQ(pthread_join(thread[i], NULL), 0);
	OK(cuda_real.cuCtxSetLimit(CU_LIMIT_MALLOC_HEAP_SIZE, heap));
	OK(cuda_real.cuMemGetInfo_v2(&after, &total));
	CHECK_EQ(after, before);
}

int main(void)
{
	struct policy policy = fixture_policy(LIMIT);
	char tenant[PATH_MAX], sim[PATH_MAX + 8];

	CHECK_EQ(tenant_create(fixture_runtime_dir(), "many", &policy, tenant, sizeof(tenant)), 0);
	snprintf(sim, sizeof(sim), "%s/sim", fixture_runtime_dir());
	setenv("ALLOT_TENANT_DIR", tenant, 1);
	setenv("ALLOT_SIM_DIR", sim, 1);
	setenv("ALLOT_SIM_MEMORY", "8GiB", 1);
	setenv("ALLOT_SIM_CONTEXT", "8MiB", 1);
	OK(cuInit(0));
	OK(cuDevicePrimaryCtxRetain(&context, 0));
	OK(cuCtxSetCurrent(context));
	device = guest_device(guest_get(), 0);
	CHECK(device);

	frees();
	pools();
	absurd_range();
	limits();
	return 0;
}
