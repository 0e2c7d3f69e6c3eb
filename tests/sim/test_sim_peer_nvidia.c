/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Peer memory behind the same interface on NVIDIA's side: run by `allot sim --gpus 2 --memory
 * 64MiB`. What the simulated driver itself says of a device's access is asked beside it.
 */
#include <dlfcn.h>
#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "nvidia/abi/cuda.h"
#include "tests/sim/peer_program.h"

#define GPUS 2
#define MIB  (UINT64_C(1) << 20)
#define UNIT (2 * MIB)

static CUresult (*get_access)(unsigned long long *flags, const CUmemLocation *location,
			      CUdeviceptr address);

static uint64_t alloc(uint32_t device, uint64_t bytes)
{
	uint64_t address = 0;

	CHECK_EQ(alloc_as((struct allot_peer_request){.device = device,
						      .bytes = bytes,
						      .flags = ALLOT_PEER_HOST},
			  &address),
		 0);
	return address;
}

/* The simulated driver has one set of page tables: whether anybody may. */
static bool driver_maps(uint64_t address)
{
	CUmemLocation where = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0};
	unsigned long long flags = 0;

	CHECK_EQ(get_access(&flags, &where, address), 0);
	return flags != CU_MEM_ACCESS_FLAGS_PROT_NONE;
}

static void test_devices(void)
{
	struct allot_peer_device d, e;
	struct allot_peer_link link;
	uint64_t set;

	CHECK_EQ(allot_peer_device_count(peer), GPUS);
	CHECK_EQ(allot_peer_device(peer, 0, &d), 0);
	CHECK_EQ(allot_peer_device(peer, 1, &e), 0);
	CHECK(*d.name && strcmp(d.pci, e.pci) && d.id == 0 && e.id == 1 && !d.gpu_id);
	CHECK_EQ(d.memory_bytes, 64 * MIB);
	CHECK_EQ(allot_peer_reachable(peer, 1, &set), 0);
	CHECK_EQ(set, 3);
	CHECK_EQ(allot_peer_link(peer, 0, 1, &link), 0);
	CHECK(!strcmp(link.type, "NVLink") && link.max_mb_per_s);
}

static void test_requests(void)
{
	uint64_t a;

	CHECK_EQ(alloc_as((struct allot_peer_request){.bytes = MIB}, &a), -EINVAL);
	CHECK_EQ(alloc_as((struct allot_peer_request){.bytes = 66 * MIB}, &a), -ENOMEM);
	CHECK(strstr(allot_peer_error(), "CUDA_ERROR_OUT_OF_MEMORY"));
	CHECK(strstr(allot_peer_error(), "nvidia0 ("));
	CHECK_EQ(
		alloc_as((struct allot_peer_request){.bytes = UNIT, .kind = ALLOT_PEER_SYSTEM}, &a),
		-ENOTSUP);
	CHECK_EQ(alloc_as((struct allot_peer_request){.bytes = UNIT,
						      .kind = ALLOT_PEER_USER,
						      .address = UNIT},
			  &a),
		 -ENOTSUP);
	CHECK_EQ(alloc_as((struct allot_peer_request){.bytes = UNIT, .alignment = MIB}, &a),
		 -EINVAL);
	CHECK_EQ(alloc_as((struct allot_peer_request){.bytes = UINT64_C(1) << 62}, &a), -ERANGE);
	CHECK_EQ(alloc_as((struct allot_peer_request){.bytes = UNIT, .device = 2}, &a), -EINVAL);
	CHECK_EQ(allot_peer_next(peer, 0, &(struct allot_peer_object){0}), -ENOENT);
}

static void test_mapping(void)
{
	uint64_t a = alloc(0, 2 * UNIT);

	CHECK(!driver_maps(a));
	CHECK_EQ(allot_peer_map(peer, a, ALLOT_PEER_ALL), 0);
	CHECK_EQ(find(a).devices, 3);
	CHECK(driver_maps(a));
	CHECK_EQ(allot_peer_free(peer, a), -EBUSY);
	CHECK_EQ(allot_peer_unmap(peer, a, 1), 0);
	CHECK_EQ(find(a).devices, 2);
	CHECK(driver_maps(a));
	CHECK_EQ(allot_peer_map(peer, a, 4), -EINVAL);
	CHECK_EQ(allot_peer_unmap(peer, a, ALLOT_PEER_ALL), 0);
	CHECK(!driver_maps(a));
	CHECK_EQ(allot_peer_free(peer, a), 0);
	CHECK_EQ(allot_peer_free(peer, a), -ENOENT);
}

/* Whoever maps it, and nobody: as before afterwards. */
static void test_content(void)
{
	uint64_t a = alloc(1, UNIT), hidden;
	char text[16] = "";

	CHECK_EQ(allot_peer_write(peer, a + UNIT - 8, "content", 8), 0);
	CHECK(!driver_maps(a));
	CHECK_EQ(allot_peer_map(peer, a, 1), 0);
	CHECK_EQ(allot_peer_read(peer, a + UNIT - 8, text, 8), 0);
	CHECK(!strcmp(text, "content"));
	CHECK(driver_maps(a) && find(a).devices == 1);
	CHECK_EQ(allot_peer_read(peer, a + UNIT - 8, text, 9), -ERANGE);
	CHECK_EQ(allot_peer_unmap(peer, a, 1), 0);
	CHECK_EQ(allot_peer_free(peer, a), 0);
	CHECK_EQ(alloc_as((struct allot_peer_request){.bytes = UNIT}, &hidden), 0);
	CHECK_EQ(allot_peer_read(peer, hidden, text, 1), -EACCES);
	CHECK_EQ(allot_peer_free(peer, hidden), 0);
}

static void test_addresses(void)
{
	uint64_t a = alloc(0, UNIT), b = alloc(0, UNIT), at;

	/* More than a page, each way, is nobody's. */
	CHECK((a > b ? a - b : b - a) >= 2 * UNIT);
	CHECK_EQ(alloc_as((struct allot_peer_request){.bytes = UNIT, .address = a}, &at), -EEXIST);
	CHECK_EQ(allot_peer_free(peer, a), 0);
	CHECK_EQ(alloc_as((struct allot_peer_request){.bytes = UNIT, .address = a}, &at), 0);
	CHECK_EQ(at, a);
	CHECK_EQ(allot_peer_free(peer, a), 0);
	CHECK_EQ(alloc_as((struct allot_peer_request){.bytes = UNIT, .alignment = 16 * MIB}, &at),
		 0);
	CHECK_EQ(at % (16 * MIB), 0);
	CHECK_EQ(allot_peer_free(peer, at), 0);
	CHECK_EQ(allot_peer_free(peer, b), 0);
	CHECK_EQ(alloc_as((struct allot_peer_request){.kind = ALLOT_PEER_ADDRESS,
						      .bytes = UINT64_C(1) << 36,
						      .flags = ALLOT_PEER_HOST},
			  &at),
		 0);
	CHECK_EQ(allot_peer_map(peer, at, ALLOT_PEER_ALL), -EINVAL);
	CHECK_EQ(allot_peer_read(peer, at, &(char){0}, 1), -EACCES);
	CHECK_EQ(allot_peer_write(peer, at, "", 1), -EACCES);
	CHECK_EQ(allot_peer_free(peer, at), 0);
}

/* Unlike AMD's, the driver is of no use to a child; the parent loses nothing by it. */
static void test_fork(void)
{
	uint64_t a = alloc(0, UNIT);
	char text[8] = "";
	pid_t child = fork();
	int status;

	CHECK(child >= 0);
	if (!child) {
		struct allot_peer *own = NULL;

		CHECK_EQ(allot_peer_read(peer, a, text, 1), -EBADF);
		CHECK_EQ(allot_peer_device_count(peer), GPUS);
		allot_peer_close(peer);
		CHECK_EQ(allot_peer_open(ALLOT_PEER_NVIDIA, &own), -ENOTSUP);
		CHECK(!own && strstr(allot_peer_error(), "forked"));
		_exit(0);
	}
	CHECK_EQ(waitpid(child, &status, 0), child);
	CHECK_EQ(status, 0);
	CHECK_EQ(allot_peer_write(peer, a, "parent", 7), 0);
	CHECK_EQ(allot_peer_read(peer, a, text, 7), 0);
	CHECK(!strcmp(text, "parent"));
	CHECK_EQ(allot_peer_free(peer, a), 0);
}

int main(void)
{
	uint64_t a;

	if (allot_peer_open(ALLOT_PEER_NVIDIA, &peer) < 0) {
		fprintf(stderr, "%s\n", allot_peer_error());
		return 1;
	}
	get_access = (CUresult(*)(unsigned long long *, const CUmemLocation *, CUdeviceptr))dlsym(
		dlopen("libcuda.so.1", RTLD_NOW), "cuMemGetAccess");
	CHECK(get_access);
	test_devices();
	test_requests();
	test_mapping();
	test_content();
	test_addresses();
	test_fork();
	/* What is left is given back. */
	CHECK_EQ(allot_peer_map(peer, alloc(0, 48 * MIB), ALLOT_PEER_ALL), 0);
	allot_peer_close(peer);
	CHECK_EQ(allot_peer_open(ALLOT_PEER_NVIDIA, &peer), 0);
	a = alloc(0, 48 * MIB);
	CHECK_EQ(allot_peer_free(peer, a), 0);
	allot_peer_close(peer);
	return 0;
}
