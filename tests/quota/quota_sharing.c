/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory that two processes hold. The child exports and the parent imports, unless a scenario says
 * otherwise.
 */
#include "tests/quota/quota_guest.h"

#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ledger/layout.h"

#define FD CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR

static CUmemGenericAllocationHandle sharing_create(uint64_t bytes)
{
	CUmemAllocationProp prop = {
		.type = CU_MEM_ALLOCATION_TYPE_PINNED,
		.requestedHandleTypes = FD,
		.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0},
	};
	CUmemGenericAllocationHandle handle;

	MUST(cuMemCreate(&handle, bytes, &prop, 0));
	return handle;
}

static int sharing_export(CUmemGenericAllocationHandle handle)
{
	int fd;

	MUST(cuMemExportToShareableHandle(&fd, handle, FD, 0));
	return fd;
}

static void sharing_send(const struct peer *peer, CUmemGenericAllocationHandle handle)
{
	int fd = sharing_export(handle);

	peer_send(peer, "", 1, fd);
	close(fd);
}

static int sharing_receive(const struct peer *peer)
{
	char c;

	return peer_receive(peer, &c, 1);
}

static CUresult sharing_try_import(int fd, CUmemGenericAllocationHandle *ret_handle)
{
	CUresult e = cuMemImportFromShareableHandle(ret_handle, (void *)(intptr_t)fd, FD);

	close(fd);
	return e;
}

static CUmemGenericAllocationHandle sharing_import(int fd)
{
	CUmemGenericAllocationHandle handle;

	MUST(sharing_try_import(fd, &handle));
	return handle;
}

/* All but the last of the others are released again. That one is as large as the first. */
static void sharing_export_descriptor(struct peer *parent, int others)
{
	CUmemGenericAllocationHandle handle;

	guest_begin();
	handle = sharing_create(600 * MIB);
	sharing_send(parent, handle);
	MUST(cuMemRelease(handle));
	for (int i = 1; i < others; i++) {
		handle = sharing_create(2 * MIB);
		close(sharing_export(handle));
		MUST(cuMemRelease(handle));
	}
	close(sharing_export(sharing_create(600 * MIB)));
	peer_tell(parent);
	peer_await(parent);
	guest_fill(16, 300);
	peer_tell(parent);
	peer_await(parent);
}

/*
 *	exporter  exports 600 MiB, releases them ── exports `others` more ── fills the quota
 *	importer                                                   imports the 600 MiB
 */
void sharing_descriptor_on_way(int others)
{
	struct peer exporter = peer_fork(sharing_export_descriptor, others);
	CUmemGenericAllocationHandle handle;
	int fd;

	guest_begin();
	fd = sharing_receive(&exporter);
	peer_await(&exporter);
	handle = sharing_import(fd);
	peer_tell(&exporter);
	peer_await(&exporter);
	guest_quiet();
	MUST(cuMemRelease(handle));
	guest_quiet();
	peer_tell(&exporter);
	peer_end(&exporter);
}

/* The same where the descriptor is good no more: it may not lead to one of the others. */
void sharing_descriptor_too_late(int others)
{
	struct peer exporter = peer_fork(sharing_export_descriptor, others);
	CUmemGenericAllocationHandle handle;
	int fd;

	guest_begin();
	fd = sharing_receive(&exporter);
	peer_await(&exporter);
	if (!sharing_try_import(fd, &handle))
		guest_complain("a descriptor of released memory was imported");
	peer_tell(&exporter);
	peer_await(&exporter);
	guest_quiet();
	peer_tell(&exporter);
	peer_end(&exporter);
}

static void sharing_export_released(struct peer *parent, int mib)
{
	CUmemGenericAllocationHandle handle;

	guest_begin();
	handle = sharing_create((uint64_t)mib * MIB);
	sharing_send(parent, handle);
	peer_await(parent);
	MUST(cuMemRelease(handle));
	peer_tell(parent);
	peer_await(parent);
}

/* The exporter has released what the importer holds, and the importer fills the quota. */
void sharing_released(int mib)
{
	struct peer exporter = peer_fork(sharing_export_released, mib);

	guest_begin();
	sharing_import(sharing_receive(&exporter));
	peer_tell(&exporter);
	peer_await(&exporter);
	guest_fill(16, 800);
	guest_quiet();
	peer_tell(&exporter);
	peer_end(&exporter);
}

/* Opens the ledger, which this process has mapped. -1: it has none. */
static int sharing_open_ledger(void)
{
	FILE *maps = fopen("/proc/self/maps", "re");
	char line[4096];
	int fd = -1;

	while (maps && fd < 0 && fgets(line, sizeof(line), maps)) {
		char *path = strchr(line, '/');

		line[strcspn(line, "\n")] = '\0';
		if (path && !strcmp(strrchr(path, '/') + 1, "ledger"))
			fd = open(path, O_RDWR | O_CLOEXEC);
	}
	if (maps)
		fclose(maps);
	return fd;
}

/*
 * Nobody else gets the tenant's lock until the descriptor is closed: as when a process stops that
 * has it.
 */
static int sharing_hold_lock(void)
{
	struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET,
			     .l_start = LEDGER_LOCK_QUOTA, .l_len = 1};
	int fd = sharing_open_ledger();

	if (fd < 0 || fcntl(fd, F_OFD_SETLK, &lock))
		abort();
	return fd;
}

/* Meanwhile nobody can be recorded as a holder. */
void sharing_locked(int mib)
{
	struct peer exporter = peer_fork(sharing_export_released, mib);
	CUmemGenericAllocationHandle handle;
	int fd, lock;

	guest_begin();
	fd = sharing_receive(&exporter);
	lock = sharing_hold_lock();
	handle = sharing_import(fd);
	close(lock);
	peer_tell(&exporter);
	peer_await(&exporter);
	guest_fill(16, 800);
	guest_quiet();
	MUST(cuMemRelease(handle));
	guest_fill(16, 500);
	guest_quiet();
	peer_tell(&exporter);
	peer_end(&exporter);
}

static CUexternalMemory sharing_import_external(int fd, uint64_t bytes)
{
	CUDA_EXTERNAL_MEMORY_HANDLE_DESC desc = {.type = CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD,
						 .handle.fd = fd, .size = bytes};
	CUexternalMemory external;

	MUST(cuImportExternalMemory(&external, &desc));
	return external;
}

/* The importer says 2 MiB of memory that is larger, and holds all of it. */
void sharing_external_part(int mib)
{
	struct peer exporter = peer_fork(sharing_export_released, mib);
	CUDA_EXTERNAL_MEMORY_BUFFER_DESC buffer = {.size = 2 * MIB};
	CUexternalMemory external;
	CUdeviceptr at;

	guest_begin();
	external = sharing_import_external(sharing_receive(&exporter), 2 * MIB);
	peer_tell(&exporter);
	peer_await(&exporter);
	guest_fill(16, 800);
	guest_quiet();
	MUST(cuExternalMemoryGetMappedBuffer(&at, external, &buffer));
	MUST(cuDestroyExternalMemory(external));
	guest_fill(16, 0);
	guest_quiet();
	MUST(cuMemFree_v2(at));
	guest_quiet();
	peer_tell(&exporter);
	peer_end(&exporter);
}

static void sharing_hold_mapped(int mib, bool locked)
{
	uint64_t bytes = (uint64_t)mib * MIB;
	CUDA_EXTERNAL_MEMORY_BUFFER_DESC buffer = {.size = bytes};
	CUmemGenericAllocationHandle handle;
	CUexternalMemory external;
	CUdeviceptr at;
	int lock;

	guest_begin();
	handle = sharing_create(bytes);
	external = sharing_import_external(sharing_export(handle), bytes);
	MUST(cuExternalMemoryGetMappedBuffer(&at, external, &buffer));
	MUST(cuMemRelease(handle));
	lock = locked ? sharing_hold_lock() : -1;
	MUST(cuDestroyExternalMemory(external));
	if (locked)
		close(lock);
	guest_fill(16, 1400);
	guest_quiet();
	MUST(cuMemFree_v2(at));
	guest_fill(16, 500);
	guest_quiet();
}

/* A mapped buffer holds the memory when the handle and the external memory are gone. */
void sharing_external_mapped(int mib)
{
	sharing_hold_mapped(mib, false);
}

/* The same where that cannot be recorded when the handle goes. */
void sharing_external_locked(int mib)
{
	sharing_hold_mapped(mib, true);
}

static CUmemoryPool sharing_pool_make(void)
{
	CUmemPoolProps props = {
		.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
		.handleTypes = FD,
		.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0},
	};
	CUmemoryPool pool;

	MUST(cuMemPoolCreate(&pool, &props));
	return pool;
}

/* Allocates from the pool, and sends the pool and the pointer. */
static CUdeviceptr sharing_pool_send(const struct peer *peer, CUmemoryPool pool, uint64_t bytes)
{
	CUmemPoolPtrExportData data;
	CUdeviceptr at;
	int fd;

	MUST(cuMemAllocFromPoolAsync(&at, bytes, pool, NULL));
	MUST(cuCtxSynchronize());
	MUST(cuMemPoolExportToShareableHandle(&fd, pool, FD, 0));
	MUST(cuMemPoolExportPointer(&data, at));
	peer_send(peer, &data, sizeof(data), fd);
	close(fd);
	peer_await(peer);
	return at;
}

static CUdeviceptr sharing_pool_import(const struct peer *peer, CUmemoryPool *ret_pool)
{
	CUmemPoolPtrExportData data;
	CUdeviceptr at;
	int fd = peer_receive(peer, &data, sizeof(data));

	MUST(cuMemPoolImportFromShareableHandle(ret_pool, (void *)(intptr_t)fd, FD, 0));
	close(fd);
	MUST(cuMemPoolImportPointer(&at, *ret_pool, &data));
	peer_tell(peer);
	return at;
}

#define POOLS 64

static void sharing_export_pools(struct peer *parent, int n)
{
	CUmemoryPool pool[POOLS];
	CUdeviceptr at[POOLS];

	guest_begin();
	for (int i = 0; i < n; i++) {
		pool[i] = sharing_pool_make();
		at[i] = sharing_pool_send(parent, pool[i], 2 * MIB);
	}
	for (int i = 0; i < n; i++) {
		MUST(cuMemFreeAsync(at[i], NULL));
		MUST(cuCtxSynchronize());
		MUST(cuMemPoolDestroy(pool[i]));
	}
	guest_fill(16, 400);
	peer_tell(parent);
	peer_await(parent);
}

/*
 * Of each pool the importer keeps the segment of 32 MiB that its 2 MiB lie in. It destroys none
 * before it has freed the pointer.
 */
void sharing_many_pools(int n)
{
	struct peer exporter = peer_fork(sharing_export_pools, n);
	CUmemoryPool pool[POOLS];
	CUdeviceptr at[POOLS];

	guest_begin();
	for (int i = 0; i < n; i++)
		at[i] = sharing_pool_import(&exporter, &pool[i]);
	peer_await(&exporter);
	guest_quiet();
	for (int i = 0; i < n; i++) {
		if (cuMemPoolDestroy(pool[i]) != CUDA_ERROR_INVALID_VALUE)
			guest_complain("pool %d destroyed with a pointer out", i);
		MUST(i % 2 ? cuMemFree_v2(at[i]) : cuMemFreeAsync(at[i], NULL));
		MUST(cuMemPoolDestroy(pool[i]));
	}
	guest_quiet();
	peer_tell(&exporter);
	peer_end(&exporter);
}

enum pool_end { POOL_DESTROYED, POOL_EXPORTER_KILLED, POOL_TRIMMED };

static void sharing_export_pool(struct peer *parent, int how)
{
	CUmemoryPool pool;
	CUdeviceptr at;

	guest_begin();
	pool = sharing_pool_make();
	at = sharing_pool_send(parent, pool, 300 * MIB);
	if (how == POOL_EXPORTER_KILLED)
		kill(getpid(), SIGKILL);
	MUST(cuMemFreeAsync(at, NULL));
	MUST(cuCtxSynchronize());
	if (how == POOL_DESTROYED)
		MUST(cuMemPoolDestroy(pool));
	else
		MUST(cuMemPoolTrimTo(pool, 0));
	guest_fill(16, 1100);
	peer_tell(parent);
	peer_await(parent);
}

/* The exporter lets go of the memory. The importer has it until it destroys the imported pool. */
void sharing_pool(int how)
{
	struct peer exporter = peer_fork(sharing_export_pool, how);
	CUmemoryPool pool;
	CUdeviceptr at;

	guest_begin();
	at = sharing_pool_import(&exporter, &pool);
	if (how == POOL_EXPORTER_KILLED) {
		peer_reap(&exporter);
		guest_fill(16, 1600);
	} else {
		peer_await(&exporter);
	}
	guest_quiet();
	MUST(cuMemFreeAsync(at, NULL));
	MUST(cuCtxSynchronize());
	guest_quiet();
	MUST(cuMemPoolDestroy(pool));
	guest_quiet();
	if (how == POOL_EXPORTER_KILLED)
		return;
	peer_tell(&exporter);
	peer_end(&exporter);
}

/* The importer frees the pointer behind work of `ms`, and destroys the pool without waiting. */
void sharing_pool_left(int ms)
{
	struct peer exporter = peer_fork(sharing_export_pool, POOL_DESTROYED);
	CUmemoryPool pool;
	CUdeviceptr at;
	CUstream stream;

	guest_begin();
	at = sharing_pool_import(&exporter, &pool);
	peer_await(&exporter);
	MUST(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	if (ms)
		guest_busy_ms(stream, ms);
	MUST(cuMemFreeAsync(at, stream));
	MUST(cuMemPoolDestroy(pool));
	if (cuMemPoolDestroy(pool) != CUDA_ERROR_INVALID_VALUE)
		guest_complain("the pool is destroyed twice");
	guest_fill(16, 0);
	guest_quiet();
	guest_sleep_ms(ms ? ms + 300 : 0);
	guest_fill(16, ms ? 280 : 0);
	guest_quiet();
	peer_tell(&exporter);
	peer_end(&exporter);
}

static CUdeviceptr sharing_ipc_allocate(uint64_t bytes)
{
	CUdeviceptr at;

	MUST(cuMemAlloc_v2(&at, bytes));
	return at;
}

static void sharing_ipc_send(const struct peer *peer, CUdeviceptr at)
{
	CUipcMemHandle handle;

	MUST(cuIpcGetMemHandle(&handle, at));
	peer_send(peer, &handle, sizeof(handle), -1);
	peer_await(peer);
}

static CUdeviceptr sharing_ipc_open(const struct peer *peer)
{
	CUipcMemHandle handle;
	CUdeviceptr at;

	peer_receive(peer, &handle, sizeof(handle));
	MUST(cuIpcOpenMemHandle_v2(&at, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
	peer_tell(peer);
	return at;
}

static void sharing_export_ipc_and_end(struct peer *parent, int killed)
{
	guest_begin();
	sharing_ipc_send(parent, sharing_ipc_allocate(300 * MIB));
	if (killed)
		kill(getpid(), SIGKILL);
}

/* The memory stays where it is open. All else of the exporter can be had at once. */
void sharing_ipc_exporter_gone(int killed)
{
	struct peer exporter = peer_fork(sharing_export_ipc_and_end, killed);
	CUdeviceptr at;

	guest_begin();
	at = sharing_ipc_open(&exporter);
	peer_reap(&exporter);
	guest_fill(16, (unsigned int)guest_scenario->quota_mib - 520 - 300 - 32);
	guest_quiet();
	MUST(cuIpcCloseMemHandle(at));
	guest_quiet();
}

static void sharing_export_ipc_inside(struct peer *parent, int mib)
{
	CUdeviceptr at;

	guest_begin();
	at = sharing_ipc_allocate(mib ? (uint64_t)mib * MIB : 4096);
	sharing_ipc_send(parent, mib ? at + 2 * MIB : at);
	peer_await(parent);
}

/* The handle of an address inside an allocation, or (0) of one that shares its granule. */
void sharing_ipc_inside(int mib)
{
	struct peer exporter = peer_fork(sharing_export_ipc_inside, mib);
	CUdeviceptr at;

	guest_begin();
	at = sharing_ipc_open(&exporter);
	guest_quiet();
	guest_fill(16, 1100);
	guest_quiet();
	MUST(cuIpcCloseMemHandle(at));
	guest_quiet();
	peer_tell(&exporter);
	peer_end(&exporter);
}

static void sharing_export_ipc_again(struct peer *parent, int mib)
{
	CUdeviceptr first, second;

	guest_begin();
	first = sharing_ipc_allocate((uint64_t)mib * MIB);
	sharing_ipc_send(parent, first);
	MUST(cuMemFree_v2(first));
	second = sharing_ipc_allocate((uint64_t)mib * MIB);
	guest_say("%s address", first == second ? "the same" : "another");
	sharing_ipc_send(parent, second);
	MUST(cuMemFree_v2(second));
	guest_fill(16, 800);
	peer_tell(parent);
	peer_await(parent);
}

/* A later allocation at an address that another process has open as an earlier one. */
void sharing_ipc_again(int mib)
{
	struct peer exporter = peer_fork(sharing_export_ipc_again, mib);
	CUdeviceptr first, second;

	guest_begin();
	first = sharing_ipc_open(&exporter);
	second = sharing_ipc_open(&exporter);
	peer_await(&exporter);
	guest_quiet();
	MUST(cuIpcCloseMemHandle(first));
	guest_quiet();
	MUST(cuIpcCloseMemHandle(second));
	guest_quiet();
	peer_tell(&exporter);
	peer_end(&exporter);
}

static void sharing_export_ipc_and_free(struct peer *parent, int mib)
{
	CUdeviceptr at;

	guest_begin();
	at = sharing_ipc_allocate((uint64_t)mib * MIB);
	sharing_ipc_send(parent, at);
	MUST(cuMemFree_v2(at));
	peer_tell(parent);
	peer_await(parent);
}

static void sharing_ipc_load_code(int mib)
{
	guest_sleep_ms(20);
	guest_load((uint64_t)mib * MIB, "");
	guest_sleep_ms(20);
}

/*
 * The importer's figure has the memory once the exporter has freed it. Code of the same size shows
 * in the figure alike.
 */
void sharing_ipc_code(int mib)
{
	struct peer exporter = peer_fork(sharing_export_ipc_and_free, mib);

	guest_begin();
	sharing_ipc_open(&exporter);
	peer_await(&exporter);
	sharing_ipc_load_code(mib);
	sharing_ipc_load_code(mib);
	guest_fill(8, 500);
	guest_quiet();
	peer_tell(&exporter);
	peer_end(&exporter);
}

static void sharing_export_ipc_and_keep(struct peer *parent, int mib)
{
	guest_begin();
	sharing_ipc_send(parent, sharing_ipc_allocate((uint64_t)mib * MIB));
	peer_await(parent);
}

/* Contexts that are larger than it come to the importer's figure, near the limit. */
void sharing_ipc_contexts(int mib)
{
	struct peer exporter = peer_fork(sharing_export_ipc_and_keep, mib);

	guest_begin();
	sharing_ipc_open(&exporter);
	guest_make_contexts(2);
	guest_fill(16, 0);
	guest_quiet();
	guest_fill(16, 0);
	guest_quiet();
	peer_tell(&exporter);
	peer_end(&exporter);
}

/* The exporter frees when both have opened. */
static void sharing_export_ipc_to_two(struct peer *parent, int mib)
{
	CUipcMemHandle handle;
	CUdeviceptr at;

	guest_begin();
	at = sharing_ipc_allocate((uint64_t)mib * MIB);
	MUST(cuIpcGetMemHandle(&handle, at));
	peer_send(parent, &handle, sizeof(handle), -1);
	peer_await(parent);
	MUST(cuMemFree_v2(at));
	peer_tell(parent);
	peer_await(parent);
}

static void sharing_ipc_import_second(struct peer *parent, int mib)
{
	guest_begin();
	sharing_ipc_open(parent);
	peer_await(parent);
	sharing_ipc_load_code(mib);
	guest_fill(8, 100);
	guest_quiet();
	peer_tell(parent);
	peer_await(parent);
}

/* One of two importers has the memory in its figure, and both load code of that size. */
void sharing_ipc_two_importers(int mib)
{
	struct peer exporter = peer_fork(sharing_export_ipc_to_two, mib);
	struct peer second = peer_fork(sharing_ipc_import_second, mib);
	CUipcMemHandle handle;
	CUdeviceptr at;

	peer_receive(&exporter, &handle, sizeof(handle));
	peer_send(&second, &handle, sizeof(handle), -1);
	guest_begin();
	MUST(cuIpcOpenMemHandle_v2(&at, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
	peer_await(&second);
	peer_tell(&exporter);
	peer_await(&exporter);
	sharing_ipc_load_code(mib);
	peer_tell(&second);
	peer_await(&second);
	guest_quiet();
	peer_tell(&second);
	peer_end(&second);
	peer_tell(&exporter);
	peer_end(&exporter);
}
