/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Peer memory on the emulated KFD, by the installed interface alone: run by `allot sim --amd 3
 * --memory 64MiB` with links 1 <-> 2 and 2 -> 3, where devices are numbered from 0. An argument
 * says which links there are instead: "none", or "all".
 */
#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/sim/peer_program.h"

#define GPUS 3
#define MIB  (UINT64_C(1) << 20)
#define PAGE UINT64_C(4096)

static uint64_t alloc(uint32_t device, uint64_t bytes, uint32_t flags)
{
	struct allot_peer_request what = {.device = device, .bytes = bytes, .flags = flags};
	uint64_t address = 0;

	CHECK_EQ(allot_peer_alloc(peer, &what, &address), 0);
	CHECK(address);
	return address;
}

static bool said(const char *what)
{
	return strstr(allot_peer_error(), what);
}

/* Whose memory is mapped to whom when all who can are to map it. */
static void test_reach(const uint64_t expected[GPUS])
{
	for (uint32_t owner = 0; owner < GPUS; owner++) {
		uint64_t address = alloc(owner, MIB, 0), reachable;

		CHECK_EQ(allot_peer_reachable(peer, owner, &reachable), 0);
		CHECK_EQ(reachable, expected[owner]);
		CHECK_EQ(allot_peer_map(peer, address, ALLOT_PEER_ALL), 0);
		CHECK_EQ(find(address).devices, expected[owner]);
		CHECK_EQ(allot_peer_unmap(peer, address, ALLOT_PEER_ALL), 0);
		for (uint32_t i = 0; i < GPUS; i++) {
			bool reaches = expected[owner] >> i & 1;

			CHECK_EQ(allot_peer_map(peer, address, UINT64_C(1) << i),
				 reaches ? 0 : -ENOLINK);
		}
		CHECK_EQ(find(address).devices, expected[owner]);
		/* One that cannot is refused together with those that can, before any maps it. */
		CHECK_EQ(allot_peer_unmap(peer, address, ALLOT_PEER_ALL), 0);
		if (expected[owner] != 7) {
			CHECK_EQ(allot_peer_map(peer, address, 7), -ENOLINK);
			CHECK_EQ(find(address).devices, 0);
		}
		CHECK_EQ(allot_peer_free(peer, address), 0);
	}
}

/* The refusal names both, and in which direction there is nothing. */
static void test_refusal(void)
{
	uint64_t address = alloc(2, MIB, 0);

	CHECK_EQ(allot_peer_map(peer, address, 1), -ENOLINK);
	CHECK(said("amd1 (0000:"));
	CHECK(said("has no link to amd3 (0000:"));
	CHECK_EQ(allot_peer_free(peer, address), 0);
}

static void test_devices(void)
{
	struct allot_peer_device d, e;
	struct allot_peer_link link;
	uint64_t set;

	CHECK_EQ(allot_peer_device_count(peer), GPUS);
	CHECK_EQ(allot_peer_device(peer, 0, &d), 0);
	CHECK_EQ(allot_peer_device(peer, 1, &e), 0);
	CHECK(!strcmp(d.name, "gfx90a") && d.id == 1 && e.id == 2);
	CHECK(d.gpu_id && d.gpu_id != e.gpu_id && strcmp(d.pci, e.pci));
	CHECK_EQ(d.memory_bytes, 72 * MIB);
	CHECK_EQ(allot_peer_device(peer, GPUS, &d), -EINVAL);
	CHECK_EQ(allot_peer_reachable(peer, GPUS, &set), -EINVAL);
	CHECK_EQ(allot_peer_link(peer, 0, 1, &link), 0);
	CHECK(!strcmp(link.type, "xGMI") && link.weight == 15 && link.max_mb_per_s == 50000);
	CHECK_EQ(allot_peer_link(peer, 1, 2, &link), 0);
	CHECK(!strcmp(link.type, "PCIe"));
	CHECK_EQ(allot_peer_link(peer, 2, 1, &link), -ENOLINK);
	CHECK_EQ(allot_peer_link(peer, 1, 1, &link), -EINVAL);
	CHECK_EQ(allot_peer_link(peer, 1, 9, &link), -EINVAL);
}

/* GPUs of whose memory the CPU reaches a part: none that it could look at, and why. */
static void test_small_bar(void)
{
	const struct allot_peer_request shown = {.bytes = MIB, .flags = ALLOT_PEER_HOST};
	uint64_t a;

	CHECK_EQ(alloc_as(shown, &a), -ENOTSUP);
	CHECK(said("amd1 (0000:") && said("ALLOT_PEER_SYSTEM"));
	a = alloc(0, MIB, 0);
	CHECK_EQ(allot_peer_map(peer, a, ALLOT_PEER_ALL), 0);
	CHECK_EQ(alloc_as((struct allot_peer_request){.kind = ALLOT_PEER_SYSTEM,
						      .bytes = MIB,
						      .flags = ALLOT_PEER_HOST},
			  &a),
		 0);
}

static void test_requests(void)
{
	uint64_t a;

	CHECK_EQ(alloc_as((struct allot_peer_request){.bytes = 0}, &a), -EINVAL);
	CHECK_EQ(alloc_as((struct allot_peer_request){.bytes = 100}, &a), -EINVAL);
	CHECK_EQ(alloc_as((struct allot_peer_request){.bytes = MIB, .device = GPUS}, &a), -EINVAL);
	CHECK_EQ(alloc_as((struct allot_peer_request){.bytes = MIB, .kind = 5}, &a), -EINVAL);
	CHECK_EQ(alloc_as((struct allot_peer_request){.bytes = MIB, .flags = 4}, &a), -EINVAL);
	CHECK_EQ(alloc_as((struct allot_peer_request){.bytes = MIB, .alignment = 3 * PAGE}, &a),
		 -EINVAL);
	CHECK(said("alloc: ") && said("power of two"));
	CHECK_EQ(alloc_as((struct allot_peer_request){.bytes = MIB, .alignment = 16}, &a), -EINVAL);
	CHECK_EQ(alloc_as((struct allot_peer_request){.bytes = MIB, .address = 1}, &a), -EINVAL);
	CHECK_EQ(alloc_as((struct allot_peer_request){.bytes = 64 * MIB + PAGE}, &a), -ENOMEM);
	CHECK(said("amd1 (0000:"));
	CHECK_EQ(alloc_as((struct allot_peer_request){.bytes = UINT64_C(1) << 62}, &a), -ERANGE);
	CHECK_EQ(alloc_as((struct allot_peer_request){.bytes = -PAGE}, &a), -ERANGE);
	CHECK_EQ(alloc_as((struct allot_peer_request){.bytes = MIB, .kind = ALLOT_PEER_USER}, &a),
		 -EINVAL);
	/* Below what GPUs see, in the hole, and where they all end. */
	CHECK_EQ(alloc_as((struct allot_peer_request){.bytes = PAGE, .address = PAGE}, &a),
		 -ERANGE);
	CHECK_EQ(alloc_as((struct allot_peer_request){.bytes = PAGE, .address = UINT64_C(1) << 47},
			  &a),
		 -ERANGE);
	CHECK_EQ(alloc_as((struct allot_peer_request){.bytes = 2 * PAGE,
						      .address = (UINT64_C(1) << 47) - PAGE},
			  &a),
		 -ERANGE);
	CHECK_EQ(allot_peer_open(7, &peer), -EINVAL);
	CHECK_EQ(allot_peer_next(peer, 0, &(struct allot_peer_object){0}), -ENOENT);
}

static void test_addresses(void)
{
	uint64_t big = alloc(0, 4 * MIB, 0), small = alloc(0, PAGE, 0), there, a;
	char *taken = mmap(NULL, MIB, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	CHECK_EQ(big % (2 * MIB), 0);
	CHECK_EQ(small % PAGE, 0);
	/* No memory next to it: not of ours, not of anybody's. */
	CHECK(mmap((void *)(uintptr_t)(big + 4 * MIB), PAGE, PROT_READ,
		   MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0) == MAP_FAILED);
	CHECK(mmap((void *)(uintptr_t)(big - PAGE), PAGE, PROT_READ,
		   MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0) == MAP_FAILED);
	CHECK_EQ(alloc_as((struct allot_peer_request){.bytes = PAGE, .address = big + MIB}, &a),
		 -EEXIST);
	CHECK_EQ(alloc_as((struct allot_peer_request){.bytes = PAGE, .address = (uintptr_t)taken},
			  &a),
		 -EEXIST);
	CHECK(said("alloc: "));
	/* What was freed can be had again, at that address. */
	there = big;
	CHECK_EQ(allot_peer_free(peer, big), 0);
	CHECK_EQ(alloc_as((struct allot_peer_request){.bytes = MIB, .address = there}, &a), 0);
	CHECK_EQ(a, there);
	CHECK_EQ(find(there + MIB - 1).address, there);
	CHECK_EQ(allot_peer_free(peer, there + PAGE), -ENOENT);
	CHECK(said("free: no object begins at"));
	CHECK_EQ(allot_peer_map(peer, there + PAGE, 1), -ENOENT);
	CHECK(said("map: no object begins at"));
	CHECK_EQ(allot_peer_free(peer, there), 0);
	CHECK_EQ(allot_peer_free(peer, there), -ENOENT);
	CHECK_EQ(alloc_as((struct allot_peer_request){.bytes = PAGE, .alignment = 16 * MIB}, &a),
		 0);
	CHECK_EQ(a % (16 * MIB), 0);
	CHECK_EQ(allot_peer_free(peer, a), 0);
	CHECK_EQ(allot_peer_free(peer, small), 0);
	CHECK_EQ(munmap(taken, MIB), 0);
}

/* Each kind: what it takes, who may map it, whether it has content. */
static void test_kinds(void)
{
	struct allot_peer_object o;
	char *pages = mmap(NULL, MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	char text[8] = "";
	uint64_t a;

	/* Memory of the machine is everybody's to map, links or not. */
	CHECK_EQ(alloc_as((struct allot_peer_request){.kind = ALLOT_PEER_SYSTEM,
						      .device = 2,
						      .bytes = MIB,
						      .flags = ALLOT_PEER_HOST},
			  &a),
		 0);
	CHECK_EQ(allot_peer_map(peer, a, ALLOT_PEER_ALL), 0);
	o = find(a);
	CHECK(o.devices == 7 && o.charged_bytes == 0 && o.kind == ALLOT_PEER_SYSTEM);
	CHECK_EQ(allot_peer_write(peer, a, "system", 7), 0);
	CHECK_EQ(allot_peer_read(peer, a, text, 7), 0);
	CHECK(!strcmp(text, "system"));
	CHECK_EQ(allot_peer_unmap(peer, a, ALLOT_PEER_ALL), 0);
	CHECK_EQ(allot_peer_free(peer, a), 0);

	CHECK(pages != MAP_FAILED);
	strcpy(pages, "user");
	CHECK_EQ(alloc_as((struct allot_peer_request){.kind = ALLOT_PEER_USER,
						      .address = (uintptr_t)pages,
						      .bytes = MIB,
						      .flags = ALLOT_PEER_HOST},
			  &a),
		 0);
	CHECK_EQ(a, (uintptr_t)pages);
	CHECK_EQ(alloc_as((struct allot_peer_request){.kind = ALLOT_PEER_USER,
						      .address = (uintptr_t)pages + PAGE,
						      .bytes = PAGE},
			  &a),
		 -EEXIST);
	CHECK_EQ(allot_peer_map(peer, a, ALLOT_PEER_ALL), 0);
	CHECK_EQ(allot_peer_read(peer, a, text, 5), 0);
	CHECK(!strcmp(text, "user"));
	CHECK_EQ(allot_peer_export(peer, a, PAGE, &(int){0}, &(uint64_t){0}), -EINVAL);
	CHECK_EQ(allot_peer_unmap(peer, a, ALLOT_PEER_ALL), 0);
	CHECK_EQ(allot_peer_free(peer, a), 0);
	CHECK(!strcmp(pages, "user")); /* the program's, as before */
	CHECK_EQ(munmap(pages, MIB), 0);

	CHECK_EQ(alloc_as((struct allot_peer_request){.kind = ALLOT_PEER_ADDRESS,
						      .bytes = UINT64_C(1) << 40,
						      .flags = ALLOT_PEER_HOST},
			  &a),
		 0);
	CHECK_EQ(allot_peer_map(peer, a, ALLOT_PEER_ALL), -EINVAL);
	CHECK_EQ(allot_peer_read(peer, a, text, 1), -EACCES);
	CHECK(said("without memory"));
	CHECK_EQ(find(a).charged_bytes, 0);
	CHECK_EQ(allot_peer_free(peer, a), 0);

	CHECK_EQ(alloc_as((struct allot_peer_request){.kind = ALLOT_PEER_HANDLE,
						      .bytes = MIB,
						      .flags = ALLOT_PEER_HOST},
			  &a),
		 0);
	CHECK_EQ(allot_peer_write(peer, a, text, 1), -EACCES);
	CHECK(a > UINT64_C(0x7fffffffffff));
	CHECK_EQ(find(a).charged_bytes, MIB);
	CHECK_EQ(allot_peer_map(peer, a, ALLOT_PEER_ALL), -EINVAL);
	CHECK_EQ(allot_peer_free(peer, a), 0);
}

static void test_content(void)
{
	uint64_t a = alloc(1, MIB, ALLOT_PEER_HOST), hidden = alloc(1, MIB, 0);
	char text[16] = "";

	CHECK_EQ(allot_peer_write(peer, a + MIB - 8, "content", 8), 0);
	CHECK_EQ(allot_peer_read(peer, a + MIB - 8, text, 8), 0);
	CHECK(!strcmp(text, "content"));
	/* At the same address for the CPU. */
	CHECK(!strcmp((char *)(uintptr_t)(a + MIB - 8), "content"));
	CHECK_EQ(allot_peer_read(peer, a + MIB - 8, text, 9), -ERANGE);
	CHECK_EQ(allot_peer_read(peer, a + MIB - 8, text, SIZE_MAX), -ERANGE);
	CHECK_EQ(allot_peer_read(peer, hidden, text, 1), -EACCES);
	CHECK_EQ(allot_peer_write(peer, hidden, text, 1), -EACCES);
	CHECK_EQ(allot_peer_read(peer, 8, text, 1), -ENOENT);
	CHECK(said("read: no object"));
	CHECK_EQ(allot_peer_free(peer, a), 0);
	CHECK_EQ(allot_peer_free(peer, hidden), 0);
}

/* All objects in the order of their addresses; what is mapped cannot be freed. */
static void test_objects(void)
{
	struct allot_peer_object o = {0};
	uint64_t at[8], next = 0;

	for (uint32_t i = 0; i < 8; i++)
		at[i] = alloc(i % GPUS, (i + 1) * PAGE, 0);
	for (uint32_t i = 0; i < 8; i++) {
		CHECK_EQ(allot_peer_next(peer, next, &o), 0);
		CHECK(o.address >= next);
		next = o.address + 1;
	}
	CHECK_EQ(allot_peer_next(peer, next, &o), -ENOENT);
	for (uint32_t i = 0; i < 8; i++) {
		uint64_t owner = UINT64_C(1) << i % GPUS;

		CHECK_EQ(allot_peer_map(peer, at[i], owner), 0);
		CHECK_EQ(allot_peer_map(peer, at[i], owner), 0);
		CHECK_EQ(allot_peer_free(peer, at[i]), -EBUSY);
		CHECK_EQ(allot_peer_map(peer, at[i], UINT64_C(1) << GPUS), -EINVAL);
		CHECK_EQ(allot_peer_unmap(peer, at[i], UINT64_C(1) << GPUS), -EINVAL);
		CHECK(said("unmap: no such devices"));
		/* A set of none, which may be what is left of a larger, is not all. */
		CHECK_EQ(allot_peer_map(peer, at[i], 0), 0);
		CHECK_EQ(find(at[i]).devices, owner);
		CHECK_EQ(allot_peer_unmap(peer, at[i], 0), 0);
		CHECK_EQ(find(at[i]).devices, owner);
		CHECK_EQ(allot_peer_unmap(peer, at[i], 7), 0);
		CHECK_EQ(allot_peer_unmap(peer, at[i], 7), 0);
		CHECK_EQ(allot_peer_free(peer, at[i]), 0);
	}
}

/* Its own objects, and one that all of them map and unmap. */
static void *use(void *shared)
{
	for (uint32_t i = 0; i < 200; i++) {
		uint64_t own = alloc(1, (1 + i % 4) * PAGE, ALLOT_PEER_HOST), word = i, back = 0;

		CHECK_EQ(allot_peer_map(peer, own, ALLOT_PEER_ALL), 0);
		CHECK_EQ(allot_peer_map(peer, *(uint64_t *)shared, i & 1 ? 2 : 3), 0);
		CHECK_EQ(allot_peer_write(peer, own, &word, sizeof(word)), 0);
		CHECK_EQ(allot_peer_read(peer, own, &back, sizeof(back)), 0);
		CHECK_EQ(back, word);
		CHECK_EQ(allot_peer_unmap(peer, *(uint64_t *)shared, i & 1 ? 1 : 2), 0);
		CHECK_EQ(allot_peer_free(peer, own), -EBUSY);
		CHECK_EQ(allot_peer_unmap(peer, own, ALLOT_PEER_ALL), 0);
		CHECK_EQ(allot_peer_free(peer, own), 0);
	}
	return NULL;
}

static void test_threads(void)
{
	uint64_t shared = alloc(1, MIB, 0);
	pthread_t threads[4];

	for (int i = 0; i < 4; i++)
		CHECK_EQ(pthread_create(&threads[i], NULL, use, &shared), 0);
	for (int i = 0; i < 4; i++)
		CHECK_EQ(pthread_join(threads[i], NULL), 0);
	CHECK_EQ(allot_peer_unmap(peer, shared, ALLOT_PEER_ALL), 0);
	CHECK_EQ(allot_peer_free(peer, shared), 0);
}

/* A child has nothing of its parent's but can open its own; the parent loses nothing by it. */
static void test_fork(void)
{
	uint64_t a = alloc(0, MIB, ALLOT_PEER_HOST);
	struct allot_peer_object o;
	pid_t child;
	int status;

	CHECK_EQ(allot_peer_map(peer, a, ALLOT_PEER_ALL), 0);
	child = fork();
	CHECK(child >= 0);
	if (!child) {
		struct allot_peer *own;

		CHECK_EQ(allot_peer_find(peer, a, &o), -EBADF);
		CHECK_EQ(allot_peer_unmap(peer, a, ALLOT_PEER_ALL), -EBADF);
		CHECK(said("forked"));
		CHECK_EQ(allot_peer_device_count(peer), GPUS);
		allot_peer_close(peer);
		CHECK_EQ(allot_peer_open(ALLOT_PEER_AMD, &own), 0);
		peer = own;
		CHECK_EQ(allot_peer_map(peer, alloc(0, 63 * MIB, 0), ALLOT_PEER_ALL), 0);
		allot_peer_close(peer);
		_exit(0);
	}
	CHECK_EQ(waitpid(child, &status, 0), child);
	CHECK_EQ(status, 0);
	CHECK(find(a).devices);
	CHECK_EQ(allot_peer_unmap(peer, a, ALLOT_PEER_ALL), 0);
	CHECK_EQ(allot_peer_free(peer, a), 0);
}

/* Closing gives everything back, whatever it was; the devices can be opened again, and twice. */
static void test_close(void)
{
	struct allot_peer *other;
	uint64_t a;

	CHECK_EQ(allot_peer_map(peer, alloc(0, 64 * MIB, 0), ALLOT_PEER_ALL), 0);
	CHECK_EQ(allot_peer_open(ALLOT_PEER_AMD, &other), 0);
	CHECK_EQ(allot_peer_alloc(other, &(struct allot_peer_request){.bytes = MIB}, &a), -ENOMEM);
	allot_peer_close(peer);
	peer = other;
	CHECK_EQ(allot_peer_map(peer, alloc(0, 64 * MIB, 0), ALLOT_PEER_ALL), 0);
	allot_peer_close(peer);
	allot_peer_close(NULL);
	CHECK_EQ(allot_peer_unmap(NULL, 0, 0), -EBADF);
}

int main(int argc, char **argv)
{
	/* Bit i of the j-th: device i maps memory of device j. */
	static const uint64_t listed[GPUS] = {1 | 2, 2 | 1, 4 | 2}, none[GPUS] = {1, 2, 4},
			      all[GPUS] = {7, 7, 7};

	CHECK(!*allot_peer_error());
	if (allot_peer_open(ALLOT_PEER_AMD, &peer) < 0) {
		fprintf(stderr, "%s\n", allot_peer_error());
		return 1;
	}
	if (argc > 1 && !strcmp(argv[1], "bar")) {
		test_small_bar();
		allot_peer_close(peer);
		return 0;
	}
	if (argc > 1) {
		test_reach(strcmp(argv[1], "none") ? all : none);
		allot_peer_close(peer);
		return 0;
	}
	test_devices();
	test_reach(listed);
	test_refusal();
	test_requests();
	test_addresses();
	test_kinds();
	test_content();
	test_objects();
	test_threads();
	test_fork();
	test_close();
	return 0;
}
