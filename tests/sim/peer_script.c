/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One script, once through ROCm's own library as it is installed and once through ours:
 * `peer_script hsakmt|allot DEVICE`, devices from 0 on. peer_trace.py compares what the driver is
 * asked.
 */
#include <string.h>

#include "allot/peer.h"
#include "tests/sim/hsakmt.h"

#define SIZE (UINT64_C(16) << 20)
#define HUGE (UINT64_C(1) << 36) /* more than there is */

static void run_hsakmt(uint32_t node)
{
	struct system_properties properties = {0};
	uint32_t flags = NON_PAGED | HOST_ACCESS;
	uint64_t address;
	void *memory;

	hsakmt_load();
	CHECK_EQ(hsakmt.open(), 0);
	CHECK_EQ(hsakmt.acquire(&properties), 0);
	CHECK(hsakmt.alloc(node, HUGE, flags, &memory) != 0);
	CHECK_EQ(hsakmt.alloc(node, SIZE, flags, &memory), 0);
	CHECK_EQ(hsakmt.map(memory, SIZE, &address), 0);
	CHECK_EQ(hsakmt.unmap(memory), 0);
	CHECK_EQ(hsakmt.map_nodes(memory, SIZE, &address, 0, 1, &node), 0);
	CHECK_EQ(hsakmt.unmap(memory), 0);
	CHECK_EQ(hsakmt.free(memory, SIZE), 0);
	CHECK_EQ(hsakmt.alloc(node, 4096, NON_PAGED, &memory), 0);
	CHECK_EQ(hsakmt.free(memory, 4096), 0);
	CHECK_EQ(hsakmt.release(), 0);
	CHECK_EQ(hsakmt.close(), 0);
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
	if (!strcmp(argv[1], "allot"))
		run_allot(device);
	else
		run_hsakmt(device + 1); /* the CPU is node 0 */
	return 0;
}
