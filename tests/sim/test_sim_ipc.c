/* SPDX-License-Identifier: Apache-2.0 */
/* Memory between processes by legacy handle, by external memory and by pool. */
#include "tests/sim/sim_test.h"

struct offer {
	CUipcMemHandle large, small;
	CUmemPoolPtrExportData pointer;
};

static void importer(int socket)
{
	CUDA_EXTERNAL_MEMORY_HANDLE_DESC ext = {.type = CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD,
						.size = 4 * MIB};
	CUDA_EXTERNAL_MEMORY_BUFFER_DESC buffer = {.offset = 4096, .size = 100};
	CUexternalMemory memory;
	CUmemoryPool pool;
	CUdeviceptr a, again, b, c, d;
	struct offer offer;
	char byte;
	int fd;

	sim_receive(socket, &offer, sizeof(offer));
	fd = sim_receive(socket, &byte, 1);
	ext.handle.fd = sim_receive(socket, &byte, 1);
	sim_context(0);

	OK(cuIpcOpenMemHandle_v2(&a, offer.large, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
	OK(cuIpcOpenMemHandle_v2(&again, offer.large, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
	CHECK_EQ(a, again);
	OK(cuIpcOpenMemHandle_v2(&b, offer.small, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
	CHECK_EQ(*(volatile int *)(a + 2 * MIB), 11);
	CHECK_EQ(*(volatile int *)b, 12);
	*(volatile int *)b = 13;
	OK(cuIpcCloseMemHandle(a));
	CHECK_EQ(*(volatile int *)(a + 2 * MIB), 11);
	OK(cuIpcCloseMemHandle(a));
	GIVES(CUDA_ERROR_INVALID_VALUE, cuIpcCloseMemHandle(a));

	OK(cuMemPoolImportFromShareableHandle(&pool, (void *)(uintptr_t)fd, 1, 0));
	close(fd);
	GIVES(CUDA_ERROR_INVALID_VALUE, cuMemAllocFromPoolAsync(&c, 512, pool, NULL));
	OK(cuMemPoolImportPointer(&c, pool, &offer.pointer));
	CHECK_EQ(*(volatile int *)c, 14);
	*(volatile int *)c = 15;

	OK(cuImportExternalMemory(&memory, &ext));
	OK(cuExternalMemoryGetMappedBuffer(&d, memory, &buffer));
	CHECK_EQ(*(volatile int *)d, 16);
	OK(cuDestroyExternalMemory(memory));
	*(volatile int *)d = 17; /* the buffer outlives what it came from */
	CHECK_EQ(sim_truth_process(truth, getpid(), 0), 64 * MIB);

	sim_tell(socket);
	sim_wait(socket); /* the exporter has freed the small one and waits for nothing else */
	CHECK_EQ(*(volatile int *)b, 13);
	CHECK_EQ(sim_truth_process(truth, getpid(), 0), 66 * MIB);
	OK(cuIpcCloseMemHandle(b));
	OK(cuMemFree_v2(c));
	OK(cuMemFree_v2(d));
	CHECK_EQ(sim_truth_process(truth, getpid(), 0), 64 * MIB);
}

int main(void)
{
	CUmemPoolProps props = {
		.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
		.handleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
		.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE},
	};
	CUmemAllocationProp prop = {
		.type = CU_MEM_ALLOCATION_TYPE_PINNED,
		.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
		.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE},
	};
	CUmemAccessDesc rw = {.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE},
			      .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
	CUdeviceptr large, small, other, piece, va;
	CUmemGenericAllocationHandle h;
	struct offer offer;
	CUmemoryPool pool;
	uint64_t before;
	int socket, fd, ext;
	pid_t pid;

	sim_begin("1", "512MiB");
	pid = sim_child(importer, &socket);
	sim_context(0);
	before = used(0);
	OK(cuMemAlloc_v2(&large, 3 * MIB));
	OK(cuMemAlloc_v2(&other, 100));
	OK(cuMemAlloc_v2(&small, 100));
	*(volatile int *)(large + 2 * MIB) = 11;
	*(volatile int *)small = 12;
	*(volatile int *)other = 1;
	OK(cuIpcGetMemHandle(&offer.large, large));
	OK(cuIpcGetMemHandle(&offer.small, small));
	/* Becoming shared moved the memory under its addresses: nobody can tell. */
	CHECK_EQ(*(volatile int *)(large + 2 * MIB), 11);
	CHECK_EQ(*(volatile int *)other, 1);
	GIVES(CUDA_ERROR_INVALID_CONTEXT, cuIpcOpenMemHandle_v2(&va, offer.large, 1));

	OK(cuMemPoolCreate(&pool, &props));
	OK(cuMemAllocFromPoolAsync(&piece, 1000, pool, NULL));
	OK(cuCtxSynchronize());
	*(volatile int *)piece = 14;
	OK(cuMemPoolExportToShareableHandle(&fd, pool, 1, 0));
	OK(cuMemPoolExportPointer(&offer.pointer, piece));

	OK(cuMemCreate(&h, 4 * MIB, &prop, 0));
	OK(cuMemAddressReserve(&va, 4 * MIB, 0, 0, 0));
	OK(cuMemMap(va, 4 * MIB, 0, h, 0));
	OK(cuMemSetAccess(va, 4 * MIB, &rw, 1));
	*(volatile int *)(va + 4096) = 16;
	OK(cuMemExportToShareableHandle(&ext, h, 1, 0));

	CHECK_EQ(used(0) - before, (4 + 2 + 32 + 4) * MIB);
	sim_send(socket, &offer, sizeof(offer), -1);
	sim_send(socket, "", 1, fd);
	sim_send(socket, "", 1, ext);
	close(fd);
	close(ext);
	sim_wait(socket);
	CHECK_EQ(used(0) - before, (4 + 2 + 32 + 4 + 64) * MIB);
	CHECK_EQ(*(volatile int *)small, 13);
	CHECK_EQ(*(volatile int *)piece, 15);
	CHECK_EQ(*(volatile int *)(va + 4096), 17);
	OK(cuMemFree_v2(small));
	OK(cuMemFree_v2(other));
	sim_tell(socket);
	sim_reap(pid);
	CHECK_EQ(used(0) - before, (4 + 32 + 4) * MIB);
	OK(cuMemFree_v2(large));
	OK(cuMemFree_v2(piece));
	OK(cuMemPoolDestroy(pool));
	OK(cuMemUnmap(va, 4 * MIB));
	OK(cuMemRelease(h));
	CHECK_EQ(used(0), before);
	return 0;
}
