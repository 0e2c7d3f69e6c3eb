/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One script, once through ROCm's own library as it is installed and once through ours:
 * `peer_script hsakmt|allot DEVICE`, devices from 0 on. peer_trace.py compares what the driver is
 * asked.
 */
#include <dlfcn.h>
#include <stdint.h>
#include <string.h>

#include "allot/peer.h"
#include "tests/check.h"

#define SIZE (UINT64_C(16) << 20)
#define HUGE (UINT64_C(1) << 36) /* more than there is */

/* hsakmt's interface, as far as it is used here. */
#define NON_PAGED   (1u << 0)
#define HOST_ACCESS (1u << 6)

static void *library;

#define HSAKMT(name, ...)                                                                          \
	({                                                                                         \
		int (*function_)(__VA_ARGS__) = (int (*)(__VA_ARGS__))dlsym(library, #name);       \
		CHECK(function_);                                                                  \
		function_;                                                                         \
	})

static void run_hsakmt(uint32_t node)
{
	uint32_t properties[16] = {0}, flags = NON_PAGED | HOST_ACCESS;
	int (*alloc)(uint32_t, uint64_t, uint32_t, void **) =
		HSAKMT(hsaKmtAllocMemory, uint32_t, uint64_t, uint32_t, void **);
	int (*map)(void *, uint64_t, uint64_t *) =
		HSAKMT(hsaKmtMapMemoryToGPU, void *, uint64_t, uint64_t *);
	int (*map_nodes)(void *, uint64_t, uint64_t *, uint32_t, uint64_t, uint32_t *) =
		HSAKMT(hsaKmtMapMemoryToGPUNodes, void *, uint64_t, uint64_t *, uint32_t, uint64_t,
		       uint32_t *);
	int (*unmap)(void *) = HSAKMT(hsaKmtUnmapMemoryToGPU, void *);
	int (*free_memory)(void *, uint64_t) = HSAKMT(hsaKmtFreeMemory, void *, uint64_t);
	uint64_t address;
	void *memory;

	CHECK_EQ(HSAKMT(hsaKmtOpenKFD, void)(), 0);
	CHECK_EQ(HSAKMT(hsaKmtAcquireSystemProperties, uint32_t *)(properties), 0);
	CHECK(alloc(node, HUGE, flags, &memory) != 0);
	CHECK_EQ(alloc(node, SIZE, flags, &memory), 0);
	CHECK_EQ(map(memory, SIZE, &address), 0);
	CHECK_EQ(unmap(memory), 0);
	CHECK_EQ(map_nodes(memory, SIZE, &address, 0, 1, &node), 0);
	CHECK_EQ(unmap(memory), 0);
	CHECK_EQ(free_memory(memory, SIZE), 0);
	CHECK_EQ(alloc(node, 4096, NON_PAGED, &memory), 0);
	CHECK_EQ(free_memory(memory, 4096), 0);
	CHECK_EQ(HSAKMT(hsaKmtCloseKFD, void)(), 0);
}

static void run_allot(uint32_t device)
{
	struct allot_peer_request what = {
		.device = device, .bytes = HUGE, .flags = ALLOT_PEER_HOST};
	struct allot_peer *peer;
	uint64_t a;

	CHECK_EQ(allot_peer_open(ALLOT_PEER_AMD, &peer), 0);
	CHECK(allot_peer_alloc(peer, &what, &a) < 0);
	what.bytes = SIZE;
	CHECK_EQ(allot_peer_alloc(peer, &what, &a), 0);
	CHECK_EQ(allot_peer_map(peer, a, ALLOT_PEER_ALL), 0);
	CHECK_EQ(allot_peer_unmap(peer, a, ALLOT_PEER_ALL), 0);
	CHECK_EQ(allot_peer_map(peer, a, UINT64_C(1) << device), 0);
	CHECK_EQ(allot_peer_unmap(peer, a, ALLOT_PEER_ALL), 0);
	CHECK_EQ(allot_peer_free(peer, a), 0);
	what.bytes = 4096;
	what.flags = 0;
	CHECK_EQ(allot_peer_alloc(peer, &what, &a), 0);
	CHECK_EQ(allot_peer_free(peer, a), 0);
	allot_peer_close(peer);
}

int main(int argc, char **argv)
{
	uint32_t device;

	CHECK_EQ(argc, 3);
	device = (uint32_t)atoi(argv[2]);
	if (!strcmp(argv[1], "allot")) {
		run_allot(device);
		return 0;
	}
	library = dlopen("libhsakmt.so.1", RTLD_NOW);
	if (!library)
		SKIP("libhsakmt.so.1 is not installed (Debian: libhsakmt1)");
	run_hsakmt(device + 1); /* the CPU is node 0 */
	return 0;
}
