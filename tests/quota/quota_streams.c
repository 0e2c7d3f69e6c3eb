/* SPDX-License-Identifier: Apache-2.0 */
/* Memory that is freed in the order of a stream, pools, sparse arrays, managed memory. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <unistd.h>

#include "tests/quota/quota_guest.h"

#define CHURN_BYTES (64 * MIB)
#define FILLS	    64

static CUmemLocation streams_device(void)
{
	return (CUmemLocation){.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0};
}

static CUmemoryPool streams_pool(bool exports)
{
	CUmemPoolProps props = {
		.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
		.handleTypes = exports ? CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR
				       : CU_MEM_HANDLE_TYPE_NONE,
		.location = streams_device(),
	};
	CUmemoryPool pool;

	MUST(cuMemPoolCreate(&pool, &props));
	return pool;
}

static CUstream streams_new(void)
{
	CUstream stream;

	MUST(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	return stream;
}

/* The second pool is freed in the stream and destroyed, and the program waits for neither. */
void streams_pool_gone(int mib)
{
	CUmemoryPool kept, gone;
	CUdeviceptr at;
	CUstream stream;

	guest_begin();
	stream = streams_new();
	kept = streams_pool(false);
	MUST(cuMemAllocFromPoolAsync(&at, (size_t)mib * MIB, kept, stream));
	gone = streams_pool(false);
	MUST(cuMemAllocFromPoolAsync(&at, 2 * MIB, gone, stream));
	MUST(cuMemFreeAsync(at, stream));
	MUST(cuMemPoolDestroy(gone));
	guest_make_contexts(3);
	guest_quiet();
}

/* 2 MiB are freed behind work of 1.5 s. Beside them `mib` MiB stay. */
static void streams_free_late(int mib)
{
	CUdeviceptr at;
	CUstream stream = streams_new();

	MUST(cuMemAlloc_v2(&at, (size_t)mib * MIB));
	MUST(cuMemAlloc_v2(&at, 2 * MIB));
	guest_busy_ms(stream, 1500);
	MUST(cuMemFreeAsync(at, stream));
}

void streams_linear_late(int mib)
{
	guest_begin();
	streams_free_late(mib);
	guest_make_contexts(3);
	guest_quiet();
}

static void streams_first_context(struct peer *parent, int n)
{
	CUcontext context;

	peer_await(parent);
	MUST(cuInit(0));
	guest_say("second process: error %d", cuDevicePrimaryCtxRetain(&context, 0));
	peer_tell(parent);
	peer_await(parent);
}

/* The first process takes most of the quota, and then another one begins. */
void streams_linear_late_two(int mib)
{
	struct peer child = peer_fork(streams_first_context, 0);
	CUdeviceptr at;

	guest_begin();
	streams_free_late(mib);
	MUST(cuMemAlloc_v2(&at, 1500 * MIB));
	peer_tell(&child);
	peer_await(&child);
	guest_quiet();
	peer_tell(&child);
	peer_end(&child);
}

/*
 * Memory of the primary context is freed in a stream of another one, behind work of 0.7 s. Then
 * the stream (1) or its context (2) is destroyed.
 */
void streams_other_context(int end)
{
	CUcontext primary = guest_begin(), other;
	CUdeviceptr at;
	CUstream stream;

	MUST(cuMemAlloc_v2(&at, 800 * MIB));
	MUST(cuCtxCreate_v2(&other, 0, 0));
	stream = streams_new();
	guest_busy_ms(stream, 700);
	MUST(cuMemFreeAsync(at, stream));
	if (end == 1)
		MUST(cuStreamDestroy_v2(stream));
	MUST(cuCtxSetCurrent(primary));
	if (end == 2)
		MUST(cuCtxDestroy_v2(other));
	guest_fill(16, 700);
	guest_sleep_ms(1000);
	guest_fill(16, 0);
	guest_quiet();
}

#define STANDING 16

struct churn {
	CUcontext context;
	int descriptor; /* of an exported pool */
	long until_ms;
	_Atomic int next;
};

/* Destroyed while the stream may still use it. */
static int streams_churn_pool(struct churn *churn, CUstream stream)
{
	CUmemoryPool pool = streams_pool(false);
	CUdeviceptr at;
	CUresult e = cuMemAllocFromPoolAsync(&at, CHURN_BYTES, pool, stream);

	if (!e) {
		guest_busy_ms(stream, 1);
		MUST(cuMemFreeAsync(at, stream));
	} else if (e != CUDA_ERROR_OUT_OF_MEMORY) {
		MUST(e);
	}
	MUST(cuMemPoolDestroy(pool));
	return 1;
}

/* The next pool may well have its handle. */
static int streams_churn_import(struct churn *churn, CUstream stream)
{
	CUmemoryPool pool;

	MUST(cuMemPoolImportFromShareableHandle(&pool, (void *)(intptr_t)churn->descriptor,
						CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
	guest_sleep_ms(1);
	MUST(cuMemPoolDestroy(pool));
	return 1 + streams_churn_pool(churn, stream);
}

/* Takes what is left, so that the account looks for what has been given back. */
static int streams_churn_fill(struct churn *churn, CUstream stream)
{
	CUdeviceptr at[FILLS];
	int n = 0;

	while (n < FILLS && !cuMemAlloc_v2(&at[n], CHURN_BYTES))
		n++;
	for (int i = 0; i < n; i++)
		MUST(cuMemFree_v2(at[i]));
	return 1;
}

static int streams_churn_pools(void *arg)
{
	static int (*const steps[])(struct churn *churn, CUstream stream) = {
		streams_churn_pool, streams_churn_import, streams_churn_pool, streams_churn_fill,
	};
	struct churn *churn = arg;
	int next = churn->next++, n = 0;
	CUstream stream;

	MUST(cuCtxSetCurrent(churn->context));
	stream = streams_new();
	while (guest_now_ms() < churn->until_ms)
		n += steps[next++ % 4](churn, stream);
	MUST(cuStreamSynchronize(stream));
	return n;
}

/* Each thread takes the steps in turn, and begins with another one. */
void streams_pools_churn(int ms)
{
	struct churn churn = {.context = guest_begin()};
	CUdeviceptr at;

	/* With so many pools a list of them is old before its last one is looked at. */
	for (int i = 0; i < STANDING; i++)
		MUST(cuMemAllocFromPoolAsync(&at, MIB, streams_pool(false), NULL));
	MUST(cuMemPoolExportToShareableHandle(&churn.descriptor, streams_pool(true),
					      CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
	churn.until_ms = guest_now_ms() + ms;
	guest_say("%d rounds", guest_threads(4, streams_churn_pools, &churn));
	guest_quiet();
}

static CUarray streams_churn_sparse_array(void)
{
	CUDA_ARRAY3D_DESCRIPTOR desc = {.Width = 4096, .Height = 4096,
					.Format = CU_AD_FORMAT_FLOAT, .NumChannels = 1,
					.Flags = CUDA_ARRAY3D_SPARSE};
	CUarray array;

	MUST(cuArray3DCreate_v2(&array, &desc));
	return array;
}

static void streams_churn_map_tiles(CUarray array, CUmemGenericAllocationHandle handle,
				    CUstream stream)
{
	for (unsigned int i = 0; i < 8; i++) {
		CUarrayMapInfo map = {
			.resourceType = CU_RESOURCE_TYPE_ARRAY,
			.resource.array = array,
			.subresourceType = CU_ARRAY_SPARSE_SUBRESOURCE_TYPE_SPARSE_LEVEL,
			.subresource.sparseLevel = {.offsetX = 128 * i, .extentWidth = 128,
						    .extentHeight = 128, .extentDepth = 1},
			.memOperationType = CU_MEM_OPERATION_TYPE_MAP,
			.memHandleType = CU_MEM_HANDLE_TYPE_GENERIC,
			.memHandle.memHandle = handle,
			.offset = 65536 * i,
			.deviceBitMask = 1,
		};

		MUST(cuMemMapArrayAsync(&map, 1, stream));
	}
}

/* The array keeps its tiles after the handle was released. */
static int streams_churn_array(CUstream stream)
{
	CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
				    .location = streams_device(),
				    .allocFlags.usage = 1 /* TILE_POOL */};
	CUmemGenericAllocationHandle handle;
	CUarray array = streams_churn_sparse_array();

	MUST(cuMemCreate(&handle, CHURN_BYTES, &prop, 0));
	streams_churn_map_tiles(array, handle, stream);
	MUST(cuMemRelease(handle));
	MUST(cuArrayDestroy(array));
	return 1;
}

static int streams_churn_arrays(void *arg)
{
	struct churn *churn = arg;
	int n = 0;
	CUstream stream;

	MUST(cuCtxSetCurrent(churn->context));
	stream = streams_new();
	while (guest_now_ms() < churn->until_ms)
		n += streams_churn_array(stream);
	return n;
}

/* The driver gives the handle of a destroyed array to the next one. */
void streams_arrays_churn(int ms)
{
	struct churn churn = {.context = guest_begin(), .until_ms = guest_now_ms() + ms};

	guest_say("%d arrays", guest_threads(6, streams_churn_arrays, &churn));
	guest_quiet();
}

/* The driver's figure has no managed memory. */
void streams_managed(int step_mib)
{
	CUdeviceptr at;
	int n = 0;

	guest_begin();
	while (n < 8000 && !cuMemAllocManaged(&at, (size_t)step_mib * MIB, CU_MEM_ATTACH_GLOBAL))
		n += step_mib;
	guest_say("%d MiB of managed memory", n);
	if (n < 2000)
		guest_complain("managed memory refused after %d MiB, 2000 MiB are free", n);
	guest_quiet();
}

struct cancelled {
	CUcontext context;
	size_t bytes;
	atomic_bool returned;
};

static void *streams_be_cancelled(void *arg)
{
	struct cancelled *cancelled = arg;
	CUdeviceptr at;

	MUST(cuCtxSetCurrent(cancelled->context));
	pthread_cancel(pthread_self());
	if (cuMemAlloc_v2(&at, cancelled->bytes) != CUDA_ERROR_OUT_OF_MEMORY)
		guest_complain("more than the quota was had");
	atomic_store(&cancelled->returned, true);
	pthread_testcancel();
	return NULL;
}

/* A thread that is to be cancelled is refused `mib`. It comes back from the call, and leaves no lock. */
void streams_cancelled(int mib)
{
	struct cancelled cancelled = {.context = guest_begin(), .bytes = (size_t)mib * MIB};
	pthread_t thread;
	void *value;

	pthread_create(&thread, NULL, streams_be_cancelled, &cancelled);
	pthread_join(thread, &value);
	if (value != PTHREAD_CANCELED || !atomic_load(&cancelled.returned))
		guest_complain("it was cancelled within the call");
	guest_fill(100, 1500);
	guest_quiet();
}
