/* SPDX-License-Identifier: Apache-2.0 */
/* How long memory stays taken that came from elsewhere, and in whose figure: as on an H200. */
#include "tests/sim/sim_test.h"

#define PIECES 5
static const uint64_t piece_bytes[PIECES] = {2 * MIB, 40 * MIB, 20 * MIB, 2 * MIB, 2 * MIB};
static const uint64_t reserve_bytes[PIECES] = {64 * MIB, 64 * MIB, 64 * MIB, 64 * MIB, 96 * MIB};

struct offer {
	pid_t pid;
	CUmemPoolPtrExportData pointer[PIECES];
};

static uint64_t reserve(CUmemoryPool pool)
{
	cuuint64_t bytes;

	OK(cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, &bytes));
	return bytes;
}

static CUmemoryPool exported_pool(int *ret_fd)
{
	CUmemPoolProps props = {
		.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
		.handleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
		.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE},
	};
	cuuint64_t keep = UINT64_MAX;
	CUmemoryPool pool;

	OK(cuMemPoolCreate(&pool, &props));
	OK(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &keep));
	OK(cuMemPoolExportToShareableHandle(ret_fd, pool, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
					    0));
	return pool;
}

/* Two segments: one of 64 MiB by the first allocation, which is freed, and one of 32 MiB. */
static void pool_exporter(int socket)
{
	struct offer offer = {.pid = getpid()};
	CUdeviceptr p[PIECES], first;
	CUmemoryPool pool;
	int fd;

	sim_context(0);
	pool = exported_pool(&fd);
	OK(cuMemAllocFromPoolAsync(&first, 40 * MIB, pool, NULL));
	OK(cuMemFreeAsync(first, NULL));
	OK(cuCtxSynchronize());
	for (int i = 0; i < PIECES; i++) {
		OK(cuMemAllocFromPoolAsync(&p[i], piece_bytes[i], pool, NULL));
		OK(cuCtxSynchronize());
		CHECK_EQ(reserve(pool), reserve_bytes[i]);
		*(volatile int *)p[i] = 10 + i;
		OK(cuMemPoolExportPointer(&offer.pointer[i], p[i]));
	}
	sim_send(socket, &offer, sizeof(offer), fd);
	close(fd);
	sim_wait(socket);
	for (int i = 0; i < PIECES; i++)
		OK(cuMemFreeAsync(p[i], NULL));
	OK(cuCtxSynchronize());
	OK(cuMemPoolTrimTo(pool, 0));
	CHECK_EQ(reserve(pool), 0);
	CHECK_EQ(sim_truth_figure(truth, getpid(), 0), 64 * MIB);
	OK(cuMemPoolDestroy(pool));
	sim_tell(socket);
	sim_wait(socket);
}

static CUmemoryPool imported_pool(int fd)
{
	CUmemoryPool pool;

	OK(cuMemPoolImportFromShareableHandle(&pool, (void *)(uintptr_t)fd,
					      CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
	return pool;
}

static void test_pool(void)
{
	CUdeviceptr p[PIECES], base;
	CUmemoryPool pool, bare;
	struct offer offer;
	size_t size;
	int socket, fd;
	pid_t pid = sim_child(pool_exporter, &socket);

	sim_context(0);
	fd = sim_receive(socket, &offer, sizeof(offer));
	pool = imported_pool(fd);
	bare = imported_pool(fd);
	close(fd);
	for (int i = 0; i < PIECES; i++) {
		OK(cuMemPoolImportPointer(&p[i], pool, &offer.pointer[i]));
		OK(cuMemGetAddressRange_v2(&base, &size, p[i]));
		CHECK_EQ(base, p[i]);
		CHECK_EQ(size, piece_bytes[i]);
		CHECK_EQ(*(volatile int *)p[i], 10 + i);
	}
	CHECK_EQ(sim_truth_figure(truth, getpid(), 0), 64 * MIB);
	CHECK_EQ(sim_truth_figure(truth, offer.pid, 0), (64 + 96) * MIB);
	CHECK_EQ(used(0), (128 + 96) * MIB);
	sim_tell(socket);
	sim_wait(socket);

	/* The exporter has let go of all: the segments stay, and are in nobody's figure. */
	CHECK_EQ(sim_truth_figure(truth, offer.pid, 0), 64 * MIB);
	CHECK_EQ(sim_truth_figure(truth, getpid(), 0), 64 * MIB);
	CHECK_EQ(used(0), (128 + 96) * MIB);
	CHECK_EQ(*(volatile int *)p[1], 11);
	OK(cuMemPoolDestroy(bare));
	for (int i = 0; i < PIECES; i++) {
		OK(i % 2 ? cuMemFree_v2(p[i]) : cuMemFreeAsync(p[i], NULL));
		OK(cuCtxSynchronize());
		CHECK_EQ(used(0), (128 + 96) * MIB);
	}
	sim_tell(socket);
	sim_reap(pid);
	CHECK_EQ(used(0), (64 + 96) * MIB);
	CHECK_EQ(sim_truth_figure(truth, getpid(), 0), 64 * MIB);
	OK(cuMemPoolDestroy(pool));
	CHECK_EQ(used(0), 64 * MIB);
}

/*
 * An imported pool cannot be destroyed with a pointer out. Behind a free in a stream it can, and
 * keeps its segments until the process ends, unless a call has waited for that work.
 */
static void test_pool_destroyed(bool waits)
{
	struct offer offer;
	CUmemoryPool pool;
	CUdeviceptr p, q;
	CUevent event;
	int socket, fd;
	pid_t pid = sim_child(pool_exporter, &socket);

	sim_context(0);
	fd = sim_receive(socket, &offer, sizeof(offer));
	pool = imported_pool(fd);
	close(fd);
	OK(cuMemPoolImportPointer(&p, pool, &offer.pointer[4]));
	OK(cuMemPoolImportPointer(&q, pool, &offer.pointer[4]));
	sim_kill(pid, 0);
	CHECK_EQ(used(0), (64 + 32) * MIB); /* of the other segment nothing was imported */
	CHECK_EQ(sim_truth_figure(truth, getpid(), 0), 64 * MIB);
	OK(cuMemFree_v2(p));
	CHECK_EQ(cuMemPoolDestroy(pool), CUDA_ERROR_INVALID_VALUE);
	CHECK_EQ(*(volatile int *)q, 14);
	OK(cuMemFreeAsync(q, NULL));
	OK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
	OK(cuEventRecord(event, NULL));
	while (cuEventQuery(event) == CUDA_ERROR_NOT_READY)
		;
	if (waits)
		OK(cuEventSynchronize(event));
	OK(cuMemPoolDestroy(pool));
	OK(cuCtxSynchronize());
	CHECK_EQ(used(0), waits ? 64 * MIB : (64 + 32) * MIB);
}

static void test_pool_destroyed_behind(void)
{
	test_pool_destroyed(true);
}

static void test_pool_leaks(void)
{
	test_pool_destroyed(false);
}

/* A process may import of its own pools, too; its figure has what the pool has. */
static void test_pool_own(void)
{
	CUmemPoolPtrExportData pointer;
	CUmemoryPool pool, imported;
	CUdeviceptr p, q;
	int fd;

	sim_context(0);
	pool = exported_pool(&fd);
	imported = imported_pool(fd);
	close(fd);
	OK(cuMemAllocFromPoolAsync(&p, 2 * MIB, pool, NULL));
	OK(cuCtxSynchronize());
	OK(cuMemPoolExportPointer(&pointer, p));
	OK(cuMemPoolImportPointer(&q, imported, &pointer));
	CHECK_EQ(sim_truth_figure(truth, getpid(), 0), (64 + 32) * MIB);
	OK(cuMemFree_v2(p));
	OK(cuMemPoolDestroy(pool));
	CHECK_EQ(sim_truth_figure(truth, getpid(), 0), 64 * MIB);
	CHECK_EQ(used(0), (64 + 32) * MIB);
	OK(cuMemFree_v2(q));
	OK(cuMemPoolDestroy(imported));
	CHECK_EQ(used(0), 64 * MIB);
}

static CUmemGenericAllocationHandle exported_memory(uint64_t bytes, int *ret_fd)
{
	CUmemAllocationProp prop = {
		.type = CU_MEM_ALLOCATION_TYPE_PINNED,
		.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
		.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE},
	};
	CUmemGenericAllocationHandle h;

	OK(cuMemCreate(&h, bytes, &prop, 0));
	OK(cuMemExportToShareableHandle(ret_fd, h, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
	return h;
}

static CUexternalMemory imported_memory(uint64_t bytes, int fd)
{
	CUDA_EXTERNAL_MEMORY_HANDLE_DESC desc = {
		.type = CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD, .handle.fd = fd, .size = bytes};
	CUexternalMemory memory;

	OK(cuImportExternalMemory(&memory, &desc));
	return memory;
}

/* The context is 64 MiB of both. */
static void takes(uint64_t device, uint64_t figure)
{
	CHECK_EQ(used(0), 64 * MIB + device);
	CHECK_EQ(sim_truth_figure(truth, getpid(), 0), 64 * MIB + figure);
}

static void test_buffer(void)
{
	CUDA_EXTERNAL_MEMORY_BUFFER_DESC desc = {.size = 40 * MIB};
	CUmemGenericAllocationHandle h;
	CUexternalMemory memory;
	CUdeviceptr p, q;
	int fd;

	sim_context(0);
	h = exported_memory(40 * MIB, &fd);
	memory = imported_memory(40 * MIB, fd);
	OK(cuExternalMemoryGetMappedBuffer(&p, memory, &desc));
	OK(cuExternalMemoryGetMappedBuffer(&q, memory, &desc));
	takes(40 * MIB, 40 * MIB);
	OK(cuMemRelease(h));
	takes(40 * MIB, 40 * MIB);
	*(volatile int *)p = 7;
	OK(cuDestroyExternalMemory(memory));
	takes(40 * MIB, 0);
	CHECK_EQ(*(volatile int *)q, 7);
	OK(cuMemFree_v2(p));
	takes(40 * MIB, 0);
	OK(cuMemFree_v2(q));
	takes(0, 0);
}

static void handle_owner(int socket)
{
	CUmemGenericAllocationHandle h;
	int fd;

	sim_context(0);
	h = exported_memory(40 * MIB, &fd);
	sim_send(socket, "", 1, fd);
	close(fd);
	sim_wait(socket);
	OK(cuMemRelease(h));
	sim_tell(socket);
	sim_wait(socket);
}

/*
 * Another process's external memory stands in the importer's figure once its owner has let go of it;
 * the same memory by handle never does.
 */
static void test_foreign(void)
{
	CUmemGenericAllocationHandle h;
	CUexternalMemory memory;
	int socket, fd;
	pid_t pid = sim_child(handle_owner, &socket);
	char c;

	sim_context(0);
	fd = sim_receive(socket, &c, 1);
	OK(cuMemImportFromShareableHandle(&h, (void *)(uintptr_t)fd,
					  CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
	memory = imported_memory(40 * MIB, fd);
	takes((64 + 40) * MIB, 0);
	sim_tell(socket);
	sim_wait(socket);
	takes((64 + 40) * MIB, 40 * MIB);
	OK(cuDestroyExternalMemory(memory));
	takes((64 + 40) * MIB, 0);
	OK(cuMemRelease(h));
	takes(64 * MIB, 0);
	sim_tell(socket);
	sim_reap(pid);
}

static void test_mipmap(void)
{
	CUDA_EXTERNAL_MEMORY_MIPMAPPED_ARRAY_DESC desc = {
		.arrayDesc = {.Width = 1024, .Height = 512, .Format = CU_AD_FORMAT_FLOAT,
			      .NumChannels = 4},
		.numLevels = 1,
	};
	CUmemGenericAllocationHandle h;
	CUexternalMemory memory;
	CUmipmappedArray mipmap;
	int fd;

	sim_context(0);
	h = exported_memory(10 * MIB, &fd);
	memory = imported_memory(10 * MIB, fd);
	OK(cuExternalMemoryGetMappedMipmappedArray(&mipmap, memory, &desc));
	OK(cuDestroyExternalMemory(memory));
	takes(10 * MIB, 10 * MIB);
	OK(cuMemRelease(h));
	takes(10 * MIB, 0);
	OK(cuMipmappedArrayDestroy(mipmap));
	takes(0, 0);
}

/* Handles of two allocations, each asked for inside it. */
static void handle_exporter(int socket)
{
	CUipcMemHandle h[2], again;
	CUdeviceptr large, small, neighbour, next;

	sim_context(0);
	OK(cuMemAlloc_v2(&large, 40 * MIB));
	OK(cuMemAlloc_v2(&neighbour, 1000));
	OK(cuMemAlloc_v2(&small, 1000));
	*(volatile int *)large = 21;
	*(volatile int *)small = 22;
	OK(cuIpcGetMemHandle(&h[0], large + 2 * MIB));
	OK(cuIpcGetMemHandle(&h[1], small + 500));
	OK(cuIpcGetMemHandle(&again, large));
	CHECK(!memcmp(&h[0], &again, sizeof(again)));
	OK(cuIpcGetMemHandle(&again, small));
	CHECK(!memcmp(&h[1], &again, sizeof(again)));
	sim_send(socket, h, sizeof(h), -1);
	sim_wait(socket);

	/* The next allocation there is another one, also within a granule that others are in. */
	OK(cuMemFree_v2(small));
	OK(cuMemAlloc_v2(&next, 1000));
	CHECK_EQ(next, small);
	OK(cuIpcGetMemHandle(&again, next));
	CHECK(memcmp(&h[1], &again, sizeof(again)));
	sim_send(socket, &again, sizeof(again), -1);
	sim_wait(socket);
}

static void test_handles(void)
{
	CUipcMemHandle h[2], next;
	CUdeviceptr large, small, again, other;
	int socket;
	pid_t pid = sim_child(handle_exporter, &socket);

	sim_context(0);
	sim_receive(socket, h, sizeof(h));
	OK(cuIpcOpenMemHandle_v2(&large, h[0], CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
	OK(cuIpcOpenMemHandle_v2(&small, h[1], CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
	CHECK_EQ(*(volatile int *)large, 21);
	CHECK_EQ(*(volatile int *)small, 22);
	sim_tell(socket);
	sim_receive(socket, &next, sizeof(next));
	OK(cuIpcOpenMemHandle_v2(&again, h[1], CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
	CHECK_EQ(again, small);
	OK(cuIpcOpenMemHandle_v2(&other, next, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
	CHECK(other != small);
	sim_tell(socket);
	sim_reap(pid);
	/* Only the importer has it now, so it is in its figure. */
	takes(42 * MIB, 42 * MIB);
	OK(cuIpcCloseMemHandle(large));
	takes(2 * MIB, 2 * MIB);
	OK(cuIpcCloseMemHandle(small));
	OK(cuIpcCloseMemHandle(small));
	OK(cuIpcCloseMemHandle(other));
	takes(0, 0);
}

static void (*const stories[])(void) = {test_pool,	 test_pool_destroyed_behind,
					test_pool_leaks, test_pool_own,
					test_buffer,	 test_foreign,
					test_mipmap,	 test_handles};

/* Each story is a process of its own: children are made before it initialises. */
int main(void)
{
	sim_begin("1", "512MiB");
	for (size_t i = 0; i < sizeof(stories) / sizeof(*stories); i++) {
		pid_t pid;

		fflush(NULL);
		pid = fork();
		CHECK(pid >= 0);
		if (!pid) {
			sim_truth_close(truth);
			CHECK_EQ(sim_truth_open(sim_dir, &truth), 0);
			stories[i]();
			exit(0);
		}
		sim_reap(pid);
		CHECK_EQ(used(0), 0);
	}
	return 0;
}
