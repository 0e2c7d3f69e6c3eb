/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Handles that the driver gives to another thread as soon as it is done with them, while the hook of
 * the call that ended them has not returned. What is recorded for the new owner stays.
 */
#include <pthread.h>

#include "guest/core/hook.h"
#include "tests/unit/guest_fixture.h"

#define CONTEXT ((CUcontext)(uintptr_t)0x1000)
#define POOL	((CUmemoryPool)(uintptr_t)0x2000)
#define ARRAY	((CUarray)(uintptr_t)0x3000)
#define HANDLE	((CUmemGenericAllocationHandle)0x4000)
#define OTHER	((CUmemGenericAllocationHandle)0x5000)

static struct guest guest;
static struct guest_page page;

/* The other thread's action when the driver has ended something; once. */
static void *(*meanwhile)(void *arg);
static CUmemGenericAllocationHandle next_handle = HANDLE;
static CUresult array_error;

static CUresult driver_end(uint64_t what)
{
	void *(*then)(void *) = meanwhile;
	pthread_t thread;

	meanwhile = NULL;
	if (!then)
		return CUDA_SUCCESS;
	CHECK_EQ(pthread_create(&thread, NULL, then, NULL), 0);
	CHECK_EQ(pthread_join(thread, NULL), 0);
	return CUDA_SUCCESS;
}

static CUresult driver_array_end(CUarray array)
{
	return array_error ? array_error : driver_end(KEY(array));
}

static CUresult driver_context(CUcontext *ret)
{
	*ret = CONTEXT;
	return CUDA_SUCCESS;
}

static CUresult driver_device(CUdevice *ret)
{
	*ret = 0;
	return CUDA_SUCCESS;
}

static CUresult driver_default_pool(CUmemoryPool *ret, CUdevice device)
{
	*ret = (CUmemoryPool)(uintptr_t)0x2fff;
	return CUDA_SUCCESS;
}

static CUresult driver_pool_create(CUmemoryPool *ret, const CUmemPoolProps *props)
{
	*ret = POOL;
	return CUDA_SUCCESS;
}

static CUresult driver_pool_import(CUmemoryPool *ret, void *handle, CUmemAllocationHandleType type,
				   unsigned long long flags)
{
	*ret = POOL;
	return CUDA_SUCCESS;
}

static CUresult driver_pool_attribute(CUmemoryPool pool, CUmemPool_attribute which, void *value)
{
	*(uint64_t *)value = 0;
	return CUDA_SUCCESS;
}

static CUresult driver_array(CUarray *ret, const CUDA_ARRAY3D_DESCRIPTOR *descriptor)
{
	*ret = ARRAY;
	return CUDA_SUCCESS;
}

static CUresult driver_create(CUmemGenericAllocationHandle *ret, size_t size,
			      const CUmemAllocationProp *prop, unsigned long long flags)
{
	*ret = next_handle;
	return CUDA_SUCCESS;
}

static CUresult driver_release(CUmemGenericAllocationHandle handle)
{
	return CUDA_SUCCESS;
}

static CUresult driver_map_array(CUarrayMapInfo *list, unsigned int count, CUstream stream)
{
	return list->memOperationType == CU_MEM_OPERATION_TYPE_UNMAP ? driver_end(0) : CUDA_SUCCESS;
}

static struct fixture_symbol exported[] = {
	{"cuCtxGetCurrent", (void *)driver_context},
	{"cuCtxGetDevice", (void *)driver_device},
	{"cuDeviceGetDefaultMemPool", (void *)driver_default_pool},
	{"cuMemPoolCreate", (void *)driver_pool_create},
	{"cuMemPoolImportFromShareableHandle", (void *)driver_pool_import},
	{"cuMemPoolDestroy", (void *)driver_end},
	{"cuMemPoolGetAttribute", (void *)driver_pool_attribute},
	{"cuArray3DCreate_v2", (void *)driver_array},
	{"cuArrayDestroy", (void *)driver_array_end},
	{"cuMemCreate", (void *)driver_create},
	{"cuMemRelease", (void *)driver_release},
	{"cuMemMapArrayAsync", (void *)driver_map_array},
	{NULL, NULL},
};

static void *create_pool(void *arg)
{
	CUmemPoolProps props = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
				.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
	CUmemoryPool pool;

	CHECK_EQ(hook_cuMemPoolCreate(&pool, &props), CUDA_SUCCESS);
	return arg;
}

static void check_pool(void)
{
	struct object object;
	CUmemoryPool pool;

	CHECK_EQ(hook_cuMemPoolImportFromShareableHandle(&pool, NULL, CU_MEM_HANDLE_TYPE_NONE, 0),
		 CUDA_SUCCESS);
	meanwhile = create_pool;
	CHECK_EQ(hook_cuMemPoolDestroy(POOL), CUDA_SUCCESS);
	CHECK(object_get(guest.objects, OBJECT_POOL, KEY(POOL), &object));
	CHECK(!(object.flags & OBJECT_IMPORTED));
	CHECK(!object_count(guest.objects, OBJECT_VIEW) &&
	      !object_count(guest.objects, OBJECT_EXTERNAL));
}

static void create(CUmemGenericAllocationHandle handle, uint64_t bytes)
{
	CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
				    .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
	CUmemGenericAllocationHandle got;

	next_handle = handle;
	CHECK_EQ(hook_cuMemCreate(&got, bytes, &prop, 0), CUDA_SUCCESS);
}

static void make_array(void)
{
	CUDA_ARRAY3D_DESCRIPTOR d = {1024, 512, 0, CU_AD_FORMAT_FLOAT, 4, CUDA_ARRAY3D_SPARSE};
	CUarray array;

	CHECK_EQ(hook_cuArray3DCreate_v2(&array, &d), CUDA_SUCCESS);
}

static void map_tile(CUmemOperationType operation, CUmemGenericAllocationHandle handle)
{
	CUarrayMapInfo info = {.resourceType = CU_RESOURCE_TYPE_ARRAY, .resource.array = ARRAY,
			       .memOperationType = operation, .memHandle.memHandle = handle,
			       .memHandleType = CU_MEM_HANDLE_TYPE_GENERIC, .deviceBitMask = 1};

	CHECK_EQ(hook_cuMemMapArrayAsync(&info, 1, NULL), CUDA_SUCCESS);
}

static void *make_array_and_map(void *arg)
{
	make_array();
	map_tile(CU_MEM_OPERATION_TYPE_MAP, OTHER);
	CHECK_EQ(hook_cuMemRelease(OTHER), CUDA_SUCCESS);
	return arg;
}

static void check_array(void)
{
	create(HANDLE, 4 * MIB);
	create(OTHER, 6 * MIB);
	make_array();
	map_tile(CU_MEM_OPERATION_TYPE_MAP, HANDLE);
	CHECK_EQ(hook_cuMemRelease(HANDLE), CUDA_SUCCESS);
	/* The driver refuses: all is as it was. */
	array_error = CUDA_ERROR_INVALID_VALUE;
	CHECK_EQ(hook_cuArrayDestroy(ARRAY), array_error);
	array_error = CUDA_SUCCESS;
	CHECK_EQ(quota_used(guest.ledger, 0), 10 * MIB);
	/* The next array's tile keeps its memory. */
	meanwhile = make_array_and_map;
	CHECK_EQ(hook_cuArrayDestroy(ARRAY), CUDA_SUCCESS);
	CHECK_EQ(quota_used(guest.ledger, 0), 6 * MIB);
	CHECK_EQ(hook_cuArrayDestroy(ARRAY), CUDA_SUCCESS);
	CHECK_EQ(quota_used(guest.ledger, 0), 0);
}

static void *create_again(void *arg)
{
	create(HANDLE, 8 * MIB);
	return arg;
}

/* With its last tile a handle goes, and its number is another's. */
static void check_tile(void)
{
	create(HANDLE, 4 * MIB);
	make_array();
	map_tile(CU_MEM_OPERATION_TYPE_MAP, HANDLE);
	CHECK_EQ(hook_cuMemRelease(HANDLE), CUDA_SUCCESS);
	meanwhile = create_again;
	map_tile(CU_MEM_OPERATION_TYPE_UNMAP, 0);
	CHECK_EQ(quota_used(guest.ledger, 0), 8 * MIB);
	CHECK_EQ(hook_cuMemRelease(HANDLE), CUDA_SUCCESS);
	CHECK_EQ(quota_used(guest.ledger, 0), 0);
	/* Mapped over, and in the other order. */
	create(HANDLE, 4 * MIB);
	create(OTHER, 6 * MIB);
	map_tile(CU_MEM_OPERATION_TYPE_MAP, HANDLE);
	map_tile(CU_MEM_OPERATION_TYPE_MAP, OTHER);
	CHECK_EQ(hook_cuMemRelease(HANDLE), CUDA_SUCCESS);
	CHECK_EQ(hook_cuMemRelease(OTHER), CUDA_SUCCESS);
	CHECK_EQ(quota_used(guest.ledger, 0), 6 * MIB);
	CHECK_EQ(hook_cuArrayDestroy(ARRAY), CUDA_SUCCESS);
	CHECK_EQ(quota_used(guest.ledger, 0), 0);
	CHECK(!object_count(guest.objects, OBJECT_UNTILED) &&
	      !object_count(guest.objects, OBJECT_GONE));
}

int main(void)
{
	cuda_driver_bind(exported, fixture_symbol);
	fixture_guest(&guest, "handed-out", 20 * GIB);
	guest.claimed = atomic_load(&guest.slot);
	atomic_store(&page.guest, &guest);
	atomic_store(&guest_page, &page);
	check_pool();
	check_array();
	check_tile();
	return 0;
}
