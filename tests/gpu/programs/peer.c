/* SPDX-License-Identifier: Apache-2.0 */
/*
 * peer: memory of device 0 through allot/peer.h, written by device 1 and by a second process that
 * got a descriptor of it, and read by device 1 as fast as it can.
 */
#include <sys/wait.h>

#include "allot/peer.h"
#include "child.h"
#include "tests/sim/message.h"

#define BYTES (256 * MIB)
#define HALF  (BYTES / 2)
#define TIMES 20

static struct allot_peer *peer;

static void must_peer(int r)
{
	if (r >= 0)
		return;
	printf("{\"stage\": \"error\", \"what\": \"%s\", \"code\": %d}\n", allot_peer_error(), r);
	exit(1);
}

/* Device 1 does it. */
static void fill(uint64_t address, uint64_t bytes, unsigned char value)
{
	child_context(1);
	MUST(cu.cuMemsetD8_v2(address, value, bytes));
	MUST(cu.cuCtxSynchronize());
}

static uint64_t wrong_bytes(uint64_t address, uint64_t bytes, unsigned char value)
{
	unsigned char *content = malloc(bytes);
	uint64_t wrong = 0;

	if (!content)
		exit(1);
	must_peer(allot_peer_read(peer, address, content, bytes));
	for (uint64_t i = 0; i < bytes; i++)
		wrong += content[i] != value;
	free(content);
	return wrong;
}

/* The second process: finds what device 1 wrote for the first, and writes the other half. */
static int import(int from)
{
	struct allot_peer_request as = {.device = 0, .bytes = BYTES, .flags = ALLOT_PEER_HOST};
	uint64_t at, wrong;
	char byte;
	int fd;

	if (message_receive(from, &byte, 1, &fd) != 1 || fd < 0)
		return 1; /* the first has no use for it */
	child_begin(120);
	must_peer(allot_peer_open(ALLOT_PEER_NVIDIA, &peer));
	must_peer(allot_peer_import(peer, fd, &as, &at));
	close(fd);
	must_peer(allot_peer_map(peer, at, ALLOT_PEER_ALL));
	wrong = wrong_bytes(at, HALF, 0x5a);
	fill(at + HALF, HALF, 0xa5);
	printf("{\"stage\": \"imported\", \"wrong\": %" PRIu64 "}\n", wrong);
	allot_peer_close(peer);
	return 0;
}

/* Device 1 copies from device 0's memory to its own: 10^9 bytes a second. */
static double read_rate(uint64_t address)
{
	CUdeviceptr own;
	CUevent begin, end;
	float ms = 0;

	child_context(1);
	MUST(cu.cuMemAlloc_v2(&own, BYTES));
	MUST(cu.cuEventCreate(&begin, 0));
	MUST(cu.cuEventCreate(&end, 0));
	MUST(cu.cuMemcpyDtoDAsync_v2(own, address, BYTES, NULL));
	MUST(cu.cuEventRecord(begin, NULL));
	for (int i = 0; i < TIMES; i++)
		MUST(cu.cuMemcpyDtoDAsync_v2(own, address, BYTES, NULL));
	MUST(cu.cuEventRecord(end, NULL));
	MUST(cu.cuEventSynchronize(end));
	MUST(cu.cuEventElapsedTime(&ms, begin, end));
	MUST(cu.cuMemFree_v2(own));
	return ms > 0 ? (double)BYTES * TIMES / 1e6 / (double)ms : 0;
}

static void show_link(void)
{
	struct allot_peer_link link = {.type = ""};
	uint64_t reachable = 0;

	must_peer(allot_peer_reachable(peer, 0, &reachable));
	if (reachable & 2)
		must_peer(allot_peer_link(peer, 1, 0, &link));
	printf("{\"stage\": \"link\", \"reaches\": %s, \"type\": \"%s\", \"mb_per_s\": %u}\n",
	       reachable & 2 ? "true" : "false", link.type, link.max_mb_per_s);
	if (!(reachable & 2))
		exit(0);
}

int main(void)
{
	struct allot_peer_request what = {.device = 0, .bytes = BYTES, .flags = ALLOT_PEER_HOST};
	uint64_t at, offset, by_device, by_importer;
	int ends[2], fd, status = 0;
	pid_t child;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends))
		return 1;
	child = fork(); /* before there is a driver in it */
	if (!child) {
		close(ends[0]);
		return import(ends[1]);
	}
	close(ends[1]);
	child_begin(120);
	must_peer(allot_peer_open(ALLOT_PEER_NVIDIA, &peer));
	show_link();
	must_peer(allot_peer_alloc(peer, &what, &at));
	must_peer(allot_peer_map(peer, at, ALLOT_PEER_ALL));
	fill(at, HALF, 0x5a);
	by_device = wrong_bytes(at, HALF, 0x5a);
	must_peer(allot_peer_export(peer, at, BYTES, &fd, &offset));
	if (message_send(ends[0], "", 1, fd) != 1)
		return 1;
	close(fd);
	if (waitpid(child, &status, 0) != child || status)
		return 1;
	by_importer = wrong_bytes(at + HALF, HALF, 0xa5);
	printf("{\"stage\": \"exported\", \"wrong\": %" PRIu64 ", \"wrong_of_importer\": %" PRIu64
	       ", \"gb_per_s\": %.1f}\n",
	       by_device, by_importer, read_rate(at));
	must_peer(allot_peer_unmap(peer, at, ALLOT_PEER_ALL));
	must_peer(allot_peer_free(peer, at));
	allot_peer_close(peer);
	return 0;
}
