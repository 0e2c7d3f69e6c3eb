/* SPDX-License-Identifier: Apache-2.0 */
/* cuMemCreate and its kin: memory lives until its last handle, mapping and descriptor is gone. */
#include "tests/sim/sim_test.h"

static CUmemAllocationProp prop = {
	.type = CU_MEM_ALLOCATION_TYPE_PINNED,
	.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE},
};
static CUmemAllocationProp shareable = {
	.type = CU_MEM_ALLOCATION_TYPE_PINNED,
	.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
	.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE},
};
static const CUmemAccessDesc access_rw = {
	.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE},
	.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE,
};

static void test_orders(void)
{
	uint64_t before = used(0);
	CUmemGenericAllocationHandle h, again;
	CUdeviceptr va, p;
	unsigned long long flags;

	GIVES(CUDA_ERROR_INVALID_VALUE, cuMemCreate(&h, 3 * MIB, &prop, 0));
	OK(cuMemAddressReserve(&va, 64 * MIB, 0, 0, 0));
	CHECK_EQ(used(0), before); /* addresses are free */

	/* released before it is unmapped */
	OK(cuMemCreate(&h, 8 * MIB, &prop, 0));
	CHECK_EQ(used(0) - before, 8 * MIB);
	OK(cuMemMap(va, 8 * MIB, 0, h, 0));
	OK(cuMemRelease(h));
	GIVES(CUDA_ERROR_INVALID_VALUE, cuMemRelease(h));
	OK(cuMemGetAccess(&flags, &access_rw.location, va));
	CHECK_EQ(flags, 0);
	OK(cuMemSetAccess(va, 8 * MIB, &access_rw, 1));
	*(volatile int *)(va + 4 * MIB) = 42;
	CHECK_EQ(used(0) - before, 8 * MIB);
	/* kept alive by a handle found through the address */
	OK(cuMemRetainAllocationHandle(&again, (void *)(va + 5 * MIB)));
	OK(cuMemUnmap(va, 8 * MIB));
	CHECK_EQ(used(0) - before, 8 * MIB);
	/* mapped twice, at another offset: the content is the same */
	OK(cuMemMap(va + 16 * MIB, 4 * MIB, 4 * MIB, again, 0));
	OK(cuMemMap(va + 32 * MIB, 8 * MIB, 0, again, 0));
	GIVES(CUDA_ERROR_INVALID_VALUE, cuMemMap(va + 38 * MIB, 8 * MIB, 0, again, 0));
	OK(cuMemSetAccess(va + 16 * MIB, 4 * MIB, &access_rw, 1));
	OK(cuMemSetAccess(va + 32 * MIB, 8 * MIB, &access_rw, 1));
	CHECK_EQ(*(volatile int *)(va + 16 * MIB), 42);
	*(volatile int *)(va + 16 * MIB) = 43;
	CHECK_EQ(*(volatile int *)(va + 36 * MIB), 43);
	OK(cuMemRelease(again));
	OK(cuMemUnmap(va + 32 * MIB, 8 * MIB));
	CHECK_EQ(used(0) - before, 8 * MIB);
	GIVES(CUDA_ERROR_INVALID_VALUE, cuMemAddressFree(va, 64 * MIB));
	OK(cuMemUnmap(va + 16 * MIB, 4 * MIB));
	CHECK_EQ(used(0), before);

	/* never mapped */
	OK(cuMemCreate(&h, 2 * MIB, &prop, 0));
	OK(cuMemRelease(h));
	CHECK_EQ(used(0), before);
	OK(cuMemAddressFree(va, 64 * MIB));
	OK(cuMemAddressReserve(&p, 64 * MIB, 0, va, 0)); /* the same addresses again */
	CHECK_EQ(p, va);
	OK(cuMemAddressFree(p, 64 * MIB));
}

static void test_device_of_handle(void)
{
	CUmemAllocationProp other = prop;
	CUmemGenericAllocationHandle h;
	uint64_t before = used(0);

	other.location.id = 1;
	OK(cuMemCreate(&h, 2 * MIB, &other, 0));
	CHECK_EQ(used(0), before);
	CHECK_EQ(used(1), 2 * MIB);
	OK(cuMemRelease(h));
	CHECK_EQ(used(1), 0);
	other.location.id = 7;
	GIVES(CUDA_ERROR_INVALID_VALUE, cuMemCreate(&h, 2 * MIB, &other, 0));
}

static void test_capacity(void)
{
	CUmemGenericAllocationHandle h[600];
	int n = 0;

	while (!cuMemCreate(&h[n], 2 * MIB, &prop, 0))
		n++;
	CHECK_EQ(used(0), 512 * MIB);
	while (n)
		OK(cuMemRelease(h[--n]));
}

/* A descriptor holds the memory while it is open anywhere, also when nobody has imported it. */
static void test_descriptor(void)
{
	uint64_t before = used(0);
	CUmemGenericAllocationHandle h;
	char c = 0;
	int fd, pair[2];

	OK(cuMemCreate(&h, 4 * MIB, &prop, 0));
	GIVES(CUDA_ERROR_INVALID_VALUE, cuMemExportToShareableHandle(&fd, h, 1, 0));
	OK(cuMemRelease(h));
	OK(cuMemCreate(&h, 4 * MIB, &shareable, 0));
	OK(cuMemExportToShareableHandle(&fd, h, 1, 0));
	OK(cuMemRelease(h));
	CHECK_EQ(used(0) - before, 4 * MIB);
	CHECK(!socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair));
	sim_send(pair[0], &c, 1, fd);
	close(fd);
	CHECK_EQ(used(0) - before, 4 * MIB); /* on its way */
	fd = sim_receive(pair[1], &c, 1);
	OK(cuMemImportFromShareableHandle(&h, (void *)(uintptr_t)fd, 1));
	close(fd);
	CHECK_EQ(used(0) - before, 4 * MIB);
	OK(cuMemRelease(h));
	CHECK_EQ(used(0), before);
	GIVES(CUDA_ERROR_INVALID_VALUE, cuMemImportFromShareableHandle(&h, (void *)0, 1));
	close(pair[0]);
	close(pair[1]);
}

static void importer(int socket)
{
	CUmemGenericAllocationHandle h;
	CUdeviceptr va;
	char c;
	int fd;

	fd = sim_receive(socket, &c, 1);
	sim_context(0);
	OK(cuMemImportFromShareableHandle(&h, (void *)(uintptr_t)fd, 1));
	close(fd);
	OK(cuMemAddressReserve(&va, 4 * MIB, 0, 0, 0));
	OK(cuMemMap(va, 4 * MIB, 0, h, 0));
	OK(cuMemSetAccess(va, 4 * MIB, &access_rw, 1));
	OK(cuMemRelease(h));
	CHECK_EQ(*(volatile int *)va, 7);
	*(volatile int *)va = 8;
	sim_tell(socket); /* 1: mapped and written */
	sim_wait(socket); /* 2: the exporter let go */
	CHECK_EQ(*(volatile int *)va, 9);
	CHECK_EQ(sim_truth_process(truth, getpid(), 0), 68 * MIB);
	OK(cuMemUnmap(va, 4 * MIB));
	CHECK_EQ(sim_truth_process(truth, getpid(), 0), 64 * MIB);
	sim_tell(socket);
}

static void test_processes(pid_t pid, int socket)
{
	uint64_t before = used(0);
	CUmemGenericAllocationHandle h;
	CUdeviceptr va;
	int fd;

	OK(cuMemCreate(&h, 4 * MIB, &shareable, 0));
	OK(cuMemAddressReserve(&va, 4 * MIB, 0, 0, 0));
	OK(cuMemMap(va, 4 * MIB, 0, h, 0));
	OK(cuMemSetAccess(va, 4 * MIB, &access_rw, 1));
	*(volatile int *)va = 7;
	OK(cuMemExportToShareableHandle(&fd, h, 1, 0));
	sim_send(socket, "", 1, fd);
	close(fd);
	sim_wait(socket); /* 1 */
	CHECK_EQ(*(volatile int *)va, 8);
	*(volatile int *)va = 9;
	CHECK_EQ(used(0) - before, 68 * MIB); /* its context, and the memory once */
	CHECK_EQ(sim_truth_process(truth, pid, 0), 64 * MIB);
	OK(cuMemRelease(h));
	OK(cuMemUnmap(va, 4 * MIB));
	CHECK_EQ(used(0) - before, 68 * MIB); /* it is the importer's now */
	sim_tell(socket);		      /* 2 */
	sim_wait(socket);
	sim_reap(pid);
	CHECK_EQ(used(0), before);
}

int main(void)
{
	int socket;
	pid_t pid;

	sim_begin("2", "512MiB");
	pid = sim_child(importer, &socket);
	sim_context(0);
	test_orders();
	test_device_of_handle();
	test_capacity();
	test_descriptor();
	test_processes(pid, socket);
	return 0;
}
