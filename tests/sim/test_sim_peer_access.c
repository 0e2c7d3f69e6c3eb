/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Peer memory, and where GPUs then reach it: engines of the emulated KFD copy to it and from it,
 * in this process and in another that got a descriptor. Run by `allot sim --amd 3 --memory 64MiB`
 * with links 1 <-> 2 and 2 -> 3. The library makes memory and mappings; queues and events are this
 * program's own.
 */
#include "allot/peer.h"
#include "tests/sim/kfd_queue.h"
#include "tests/sim/message.h"

#define SIZE (32 * MIB)

static struct allot_peer *peer;
static struct queue queues[GPUS];
static char *host;

static void begin(void)
{
	CHECK_EQ(allot_peer_open(ALLOT_PEER_AMD, &peer), 0);
	open_devices(); /* once more, for queues and events */
	for (int i = 0; i < GPUS; i++)
		make_queue(i, KFD_IOC_QUEUE_TYPE_SDMA, &queues[i]);
	host = host_memory(4096);
}

/* Whether a GPU can; the page where it could not is that of the memory. */
static bool gpu_write(int gpu, uint64_t to, const char *text)
{
	uint64_t fault;

	strcpy(host, text);
	put_copy(&queues[gpu], to, (uintptr_t)host, 16);
	fault = execute(gpu, &queues[gpu]);
	CHECK(!fault || fault == (to & ~UINT64_C(4095)));
	return !fault;
}

static bool gpu_reads(int gpu, uint64_t from, const char *text)
{
	uint64_t fault;

	memset(host, 0, 16);
	put_copy(&queues[gpu], (uintptr_t)host, from, 16);
	fault = execute(gpu, &queues[gpu]);
	CHECK(!fault || fault == (from & ~UINT64_C(4095)));
	CHECK(fault || !strcmp(host, text));
	return !fault;
}

static uint64_t alloc(uint32_t device, uint64_t bytes)
{
	struct allot_peer_request what = {
		.device = device, .bytes = bytes, .flags = ALLOT_PEER_HOST};
	uint64_t address;

	CHECK_EQ(allot_peer_alloc(peer, &what, &address), 0);
	return address;
}

/* Each GPU reaches it if, and only if, its bit is set. */
static void check_access(uint64_t address, uint64_t devices)
{
	char text[16], found[16];

	for (int i = 0; i < GPUS; i++) {
		snprintf(text, sizeof(text), "by GPU %d", i);
		CHECK_EQ(gpu_write(i, address + SIZE - 64, text), devices >> i & 1);
		if (!(devices >> i & 1))
			continue;
		CHECK_EQ(allot_peer_read(peer, address + SIZE - 64, found, sizeof(found)), 0);
		CHECK(!strcmp(found, text));
		CHECK_EQ(allot_peer_write(peer, address, "by the CPU", 11), 0);
		CHECK(gpu_reads(i, address, "by the CPU"));
	}
}

/* What is said to be mapped is reached, as far as links go, and nothing else is. */
static void test_access(void)
{
	static const uint64_t reachable[GPUS] = {1 | 2, 1 | 2, 2 | 4};

	for (uint32_t owner = 0; owner < GPUS; owner++) {
		uint64_t address = alloc(owner, SIZE), own = UINT64_C(1) << owner;

		check_access(address, 0);
		CHECK_EQ(allot_peer_map(peer, address, ALLOT_PEER_ALL), 0);
		check_access(address, reachable[owner]);
		CHECK_EQ(allot_peer_unmap(peer, address, own), 0);
		check_access(address, reachable[owner] & ~own);
		CHECK_EQ(allot_peer_map(peer, address, 7), -ENOLINK);
		check_access(address, reachable[owner] & ~own);
		CHECK_EQ(allot_peer_unmap(peer, address, ALLOT_PEER_ALL), 0);
		check_access(address, 0);
		CHECK_EQ(allot_peer_free(peer, address), 0);
	}
}

/* Nobody runs from one object into the next. */
static void test_guard(void)
{
	uint64_t a = alloc(0, MIB), b = alloc(0, MIB);

	CHECK_EQ(allot_peer_map(peer, a, ALLOT_PEER_ALL), 0);
	CHECK_EQ(allot_peer_map(peer, b, ALLOT_PEER_ALL), 0);
	CHECK(gpu_write(0, a + MIB - 16, "the last") && gpu_write(0, b, "the first"));
	CHECK(!gpu_write(0, a + MIB, "behind") && !gpu_write(0, b + MIB, "behind"));
	CHECK(!gpu_write(0, a - 4096, "before") && !gpu_write(0, b - 4096, "before"));
	for (int i = 0; i < 2; i++) {
		CHECK_EQ(allot_peer_unmap(peer, i ? b : a, ALLOT_PEER_ALL), 0);
		CHECK_EQ(allot_peer_free(peer, i ? b : a), 0);
	}
}

/* At an address of its own: a GPU sees what one of the other process wrote, and back. */
static void run_importer(int socket)
{
	struct allot_peer_request as = {.address = 0};
	uint64_t at;
	char byte;
	int fd;

	begin();
	CHECK_EQ(message_receive(socket, &byte, 1, &fd), 1);
	CHECK_EQ(allot_peer_import(peer, fd, &as, &at), 0);
	CHECK_EQ(close(fd), 0);
	CHECK(!gpu_reads(1, at, ""));
	CHECK_EQ(allot_peer_map(peer, at, ALLOT_PEER_ALL), 0);
	CHECK(gpu_reads(1, at, "of the exporter"));
	CHECK(gpu_write(1, at + MIB, "of the importer"));
	CHECK(!gpu_write(2, at, "of nobody")); /* no link to the owner, here either */
	say(socket);
	hear(socket);
	CHECK(gpu_reads(0, at, "of the exporter")); /* who is gone */
	CHECK_EQ(allot_peer_unmap(peer, at, ALLOT_PEER_ALL), 0);
	CHECK_EQ(allot_peer_free(peer, at), 0);
	allot_peer_close(peer);
}

static void test_processes(int socket, pid_t child)
{
	uint64_t address = alloc(0, SIZE), offset;
	int fd;

	CHECK_EQ(allot_peer_map(peer, address, ALLOT_PEER_ALL), 0);
	CHECK(gpu_write(0, address, "of the exporter"));
	CHECK_EQ(allot_peer_export(peer, address, SIZE, &fd, &offset), 0);
	CHECK_EQ(message_send(socket, "", 1, fd), 1);
	CHECK_EQ(close(fd), 0);
	hear(socket);
	CHECK(gpu_reads(0, address + MIB, "of the importer"));
	CHECK(gpu_reads(1, address + MIB, "of the importer"));
	CHECK_EQ(allot_peer_unmap(peer, address, ALLOT_PEER_ALL), 0);
	CHECK_EQ(allot_peer_free(peer, address), 0);
	CHECK_EQ(available(0), 32 * MIB); /* once, and still */
	say(socket);
	end(child, 0);
	CHECK_EQ(available(0), 64 * MIB);
}

int main(void)
{
	int socket;
	pid_t child = start(run_importer, &socket);

	begin();
	test_access();
	test_guard();
	test_processes(socket, child);
	allot_peer_close(peer);
	return 0;
}
