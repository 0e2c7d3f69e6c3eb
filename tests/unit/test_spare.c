/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What stays of freed memory for the next allocation: which calls of the driver that saves, what is
 * charged for it, and when it goes. Before a driver that the test plays.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

#include "guest/memory/memory.h"
#include "guest/movable/backing.h"
#include "guest/movable/linear.h"
#include "guest/movable/pieces.h"
#include "guest/movable/state.h"
#include "ledger/spare.h"
#include "ledger/swap.h"
#include "tests/unit/guest_fixture.h"

#define QUOTA	(160 * MIB)
#define BASE	(UINT64_C(1) << 40)
#define CONTEXT UINT64_C(0x1000)
#define THREADS 4
#define ROUNDS	20000

static struct guest guest;
static struct guest_device *device = &guest.device[0];

/* --- The driver ------------------------------------------------------------------------------ */

static _Atomic uint32_t creates, maps, accesses, unmaps, releases;
static _Atomic uint64_t reached; /* by which devices, of what was said last */
static _Atomic uint64_t physical_bytes, room_bytes = UINT64_MAX;
static _Atomic bool access_fails;

static CUresult driver_reserve(CUdeviceptr *ret, size_t size, size_t alignment, CUdeviceptr at,
			       unsigned long long flags)
{
	*ret = BASE;
	return CUDA_SUCCESS;
}

static CUresult driver_attribute(int *ret, CUdevice_attribute attribute, CUdevice dev)
{
	*ret = 1;
	return CUDA_SUCCESS;
}

static CUresult driver_create(CUmemGenericAllocationHandle *ret, size_t size,
			      const CUmemAllocationProp *prop, unsigned long long flags)
{
	if (atomic_fetch_add(&physical_bytes, size) + size > atomic_load(&room_bytes)) {
		atomic_fetch_sub(&physical_bytes, size);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	atomic_fetch_add(&creates, 1);
	*ret = size;
	return CUDA_SUCCESS;
}

static CUresult driver_map(CUdeviceptr at, size_t size, size_t offset,
			   CUmemGenericAllocationHandle handle, unsigned long long flags)
{
	atomic_fetch_add(&maps, 1);
	return CUDA_SUCCESS;
}

static CUresult driver_access(CUdeviceptr at, size_t size, const CUmemAccessDesc *desc, size_t n)
{
	atomic_fetch_add(&accesses, 1);
	if (atomic_load(&access_fails))
		return CUDA_ERROR_OUT_OF_MEMORY;
	for (size_t i = 0; i < n; i++)
		if (desc[i].flags)
			atomic_fetch_or(&reached, UINT64_C(1) << desc[i].location.id);
		else
			atomic_fetch_and(&reached, ~(UINT64_C(1) << desc[i].location.id));
	return CUDA_SUCCESS;
}

static CUresult driver_unmap(CUdeviceptr at, size_t size)
{
	atomic_fetch_add(&unmaps, 1);
	return CUDA_SUCCESS;
}

static CUresult driver_release(CUmemGenericAllocationHandle handle)
{
	atomic_fetch_add(&releases, 1);
	atomic_fetch_sub(&physical_bytes, handle);
	return CUDA_SUCCESS;
}

static CUresult driver_context(CUcontext *ret)
{
	*ret = (CUcontext)(uintptr_t)CONTEXT;
	return CUDA_SUCCESS;
}

static CUresult driver_synchronize(void)
{
	return CUDA_SUCCESS;
}

static CUresult driver_exchange(CUstreamCaptureMode *mode)
{
	return CUDA_SUCCESS;
}

static struct fixture_symbol exported[] = {
	{"cuMemAddressReserve", (void *)driver_reserve},
	{"cuDeviceGetAttribute", (void *)driver_attribute},
	{"cuMemCreate", (void *)driver_create},
	{"cuMemMap", (void *)driver_map},
	{"cuMemSetAccess", (void *)driver_access},
	{"cuMemUnmap", (void *)driver_unmap},
	{"cuMemRelease", (void *)driver_release},
	{"cuCtxGetCurrent", (void *)driver_context},
	{"cuCtxSynchronize", (void *)driver_synchronize},
	{"cuThreadExchangeStreamCaptureMode", (void *)driver_exchange},
	{NULL, NULL},
};

/* --- The guest ------------------------------------------------------------------------------- */

/* As the swap thread does that is woken. */
static void *answer(void *arg)
{
	struct answer answer = {0};

	for (;; usleep(100))
		linear_answer_spare(&guest, &answer);
	return NULL;
}

static void begin(void)
{
	pthread_t thread;

	cuda_driver_bind(exported, fixture_symbol);
	fixture_guest(&guest, "spare", QUOTA);
	guest.swappable = true;
	movable_choose_allocator(&guest);
	guest.movable->yields = true;
	guest.claimed = atomic_load(&guest.slot);
	CHECK_EQ(pthread_create(&thread, NULL, answer, NULL), 0);
}

static uint64_t charged(void)
{
	return quota_used(guest.ledger, 0);
}

static CUdeviceptr alloc(uint64_t bytes)
{
	CUdeviceptr p = 0;

	CHECK_EQ(linear_alloc(&guest, device, bytes, &p), CUDA_SUCCESS);
	return p;
}

static void give(CUdeviceptr p)
{
	CHECK_EQ(guest.allocator->free(&guest, p), CUDA_SUCCESS);
}

static void check_has(bool spare, uint64_t bytes)
{
	CHECK_EQ(backing_has_spare(&guest, device), spare);
	CHECK_EQ(charged(), bytes);
	CHECK_EQ(atomic_load(&physical_bytes), bytes);
}

static void check_nothing_left(void)
{
	linear_end_spare(&guest, device);
	check_has(false, 0);
	CHECK_EQ(object_count(guest.objects, OBJECT_GRANULE), 0);
	CHECK_EQ(object_count(guest.objects, OBJECT_MEMORY), 0);
	CHECK_EQ(atomic_load(&unmaps), atomic_load(&maps));
	CHECK_EQ(atomic_load(&releases), atomic_load(&creates));
}

/* --- The table ------------------------------------------------------------------------------- */

static void check_table(void)
{
	struct backing *backing = pieces_map(10);
	uint32_t one, other, two, three, unmapped, old = 0;
	CUdeviceptr at;

	CHECK(backing);
	one = pieces_take(backing, 1);
	other = pieces_take(backing, 1);
	two = pieces_take(backing, 2);
	three = pieces_take(backing, 3);
	unmapped = pieces_take(backing, 1);
	for (uint32_t page = 0; page < backing->pages; page++)
		backing->piece[page].mapped = page != unmapped;
	CHECK_EQ(pieces_take_spare(backing, PIECES_ONE), UINT32_MAX);
	CHECK_EQ(pieces_take_fit(backing, 1), UINT32_MAX);
	CHECK(!pieces_spare(backing, unmapped, &old));
	CHECK(pieces_link(backing, one) && pieces_cut(backing, 1000, &at));
	CHECK(pieces_leave(backing, one, at - pieces_address(backing, one)));
	CHECK(pieces_spare(backing, other, &old));
	CHECK_EQ(old, UINT32_MAX);
	CHECK(pieces_spare(backing, one, &old));
	CHECK_EQ(old, other);
	backing->piece[other].marked = true;
	CHECK(!pieces_spare(backing, other, &old));
	/* Nobody finds it, and nobody gets its page. */
	CHECK_EQ(pieces_find_from(backing, 0), UINT32_MAX);
	CHECK(!pieces_cut(backing, 1000, &at));
	/* Of several pages one has room beside it, and goes to who wants just so many. */
	CHECK_EQ(pieces_take_fit(backing, 2), UINT32_MAX);
	CHECK(pieces_spare(backing, two, &old));
	CHECK_EQ(old, UINT32_MAX);
	CHECK(pieces_spare(backing, three, &old));
	CHECK_EQ(old, two);
	CHECK_EQ(pieces_take_fit(backing, 2), UINT32_MAX);
	CHECK_EQ(pieces_take_fit(backing, 4), UINT32_MAX);
	CHECK_EQ(pieces_take_fit(backing, 3), three);
	CHECK_EQ(pieces_take_fit(backing, 3), UINT32_MAX);
	CHECK(pieces_spare(backing, two, &old));
	CHECK_EQ(pieces_take_spare(backing, PIECES_SEVERAL), two);
	CHECK_EQ(pieces_take_fit(backing, 1), one);
	CHECK_EQ(backing->piece[one].cut, 0);
	CHECK_EQ(pieces_take_spare(backing, PIECES_ONE), UINT32_MAX);
	CHECK(pieces_link(backing, one) && pieces_cut(backing, 1000, &at));
	pieces_unmap(backing);
}

/* --- Pairs ----------------------------------------------------------------------------------- */

/* Each of the sizes needs `held` bytes. */
static void check_pairs_of(uint64_t held, const uint64_t *sizes, int n)
{
	CUdeviceptr first = alloc(held);

	give(first);
	check_has(true, held);
	for (int i = 0; i < n; i++) {
		CHECK_EQ(alloc(sizes[i]), first);
		check_has(false, held);
		give(first);
		check_has(true, held);
	}
	CHECK_EQ(atomic_load(&creates), 1);
	CHECK_EQ(atomic_load(&maps), 1);
	CHECK_EQ(atomic_load(&accesses), 1);
	CHECK_EQ(atomic_load(&unmaps), 0);
	CHECK_EQ(atomic_load(&releases), 0);
	check_nothing_left();
	atomic_store(&creates, 0);
	atomic_store(&maps, 0);
	atomic_store(&accesses, 0);
	atomic_store(&unmaps, 0);
	atomic_store(&releases, 0);
}

static void check_pairs(void)
{
	static const uint64_t small[] = {2 * MIB, MIB, 1, MIB + 1, 2 * MIB, 500};
	static const uint64_t large[] = {64 * MIB, 62 * MIB + 1, 63 * MIB};

	check_pairs_of(2 * MIB, small, sizeof(small) / sizeof(small[0]));
	check_pairs_of(64 * MIB, large, sizeof(large) / sizeof(large[0]));
	give(alloc(64 * MIB + 1));
	check_has(false, 0);
}

/* Of those that share a granule the last one leaves it; of two granules the last is kept. */
static void check_one(void)
{
	CUdeviceptr small[2] = {alloc(1000), alloc(1000)}, p = alloc(2 * MIB);

	give(small[0]);
	check_has(false, 4 * MIB);
	give(p);
	check_has(true, 4 * MIB);
	give(small[1]);
	check_has(true, 2 * MIB);
	CHECK_EQ(alloc(1000), small[0]);
	/* One of several that share it frees no granule. */
	small[1] = alloc(1000);
	give(p = alloc(2 * MIB));
	give(small[1]);
	CHECK_EQ(alloc(2 * MIB), p);
	give(p);
	give(small[0]);
	check_nothing_left();
}

/* Of several granules the last that was freed stays, beside one of a single granule. */
static void check_several(void)
{
	CUdeviceptr four = alloc(4 * MIB), six = alloc(6 * MIB), p;

	give(alloc(1000));
	check_has(true, 12 * MIB);
	give(four);
	check_has(true, 12 * MIB);
	give(six);
	check_has(true, 8 * MIB);
	p = alloc(4 * MIB);
	check_has(true, 12 * MIB);
	CHECK_EQ(alloc(6 * MIB), six);
	check_has(true, 12 * MIB);
	give(six);
	give(p);
	check_has(true, 6 * MIB);
	p = alloc(2 * MIB);
	check_has(true, 6 * MIB);
	give(p);
	check_nothing_left();
}

/* --- When it goes ---------------------------------------------------------------------------- */

static void check_refusals(void)
{
	CUdeviceptr p;

	give(alloc(2 * MIB));
	p = alloc(QUOTA); /* all that there may be */
	check_has(false, QUOTA);
	give(p);
	give(alloc(1000));
	atomic_store(&room_bytes, 4 * MIB); /* all that there is */
	p = alloc(4 * MIB);
	check_has(false, 4 * MIB);
	CHECK_EQ(linear_alloc(&guest, device, 2 * MIB, &p), CUDA_ERROR_OUT_OF_MEMORY);
	atomic_store(&room_bytes, UINT64_MAX);
	check_has(false, 4 * MIB);
	give(p);
	check_nothing_left();
}

static void check_context(void)
{
	CUdeviceptr p = alloc(1000);

	give(alloc(2 * MIB));
	check_has(true, 4 * MIB);
	memory_forget_context(&guest, (CUcontext)(uintptr_t)CONTEXT);
	CHECK(!object_count(guest.objects, OBJECT_MEMORY));
	check_has(false, 0);
	CHECK(!backing_start(&guest, p));
	check_nothing_left();
}

/* What has a name elsewhere is no other allocation's. */
static void check_exported(void)
{
	struct object export = {.kind = OBJECT_EXPORT};
	CUdeviceptr p = alloc(2 * MIB);

	export.key = p;
	CHECK_EQ(object_put(guest.objects, &export), 0);
	give(p);
	check_has(false, 0);
	CHECK_EQ(object_count(guest.objects, OBJECT_EXPORT), 0);
	check_nothing_left();
}

/* What an allocation goes into is charged already; but nobody gets it who is above the quota. */
static void check_full(void)
{
	CUdeviceptr p = alloc(QUOTA - 64 * MIB), q = alloc(64 * MIB);
	uint32_t made = atomic_load(&creates);

	give(q);
	CHECK_EQ(alloc(64 * MIB), q);
	CHECK_EQ(atomic_load(&creates), made);
	check_has(false, QUOTA);
	give(q);
	check_has(true, QUOTA);
	atomic_store(&device->limit, QUOTA - 1);
	CHECK_EQ(linear_alloc(&guest, device, 64 * MIB, &q), CUDA_ERROR_OUT_OF_MEMORY);
	atomic_store(&device->limit, QUOTA);
	check_has(false, QUOTA - 64 * MIB);
	give(p);
	check_nothing_left();
}

/* An attribute that the program set is not to be another allocation's. */
static void check_marked(void)
{
	CUdeviceptr p = alloc(4 * MIB);

	backing_mark(&guest, p);
	give(p);
	check_has(false, 0);
	give(alloc(4 * MIB));
	check_has(true, 4 * MIB);
	check_nothing_left();
}

/* --- Others of the tenant -------------------------------------------------------------------- */

struct sibling {
	pid_t pid;
	int said, told;
};

/* Joins, and does its steps as it is told to: what is answered is said when one is done. */
static struct sibling sibling_begin(void (*const *steps)(struct slot *slot))
{
	int said[2], told[2];
	struct sibling sibling;
	char c;

	CHECK_EQ(pipe(said), 0);
	CHECK_EQ(pipe(told), 0);
	sibling.pid = fixture_fork();
	if (!sibling.pid) {
		struct slot *slot = fixture_join(guest.dir);

		for (;;) {
			CHECK_EQ(write(said[1], "y", 1), 1);
			CHECK_EQ(read(told[0], &c, 1), 1);
			(*steps++)(slot);
		}
	}
	close(said[1]);
	close(told[0]);
	sibling.said = said[0];
	sibling.told = told[1];
	CHECK_EQ(read(sibling.said, &c, 1), 1);
	return sibling;
}

static void sibling_end(struct sibling sibling)
{
	fixture_kill(sibling.pid);
	close(sibling.said);
	close(sibling.told);
}

static void sibling_step(struct sibling sibling)
{
	char c;

	CHECK_EQ(write(sibling.told, "y", 1), 1);
	CHECK_EQ(read(sibling.said, &c, 1), 1);
}

static void ask(struct slot *slot)
{
	spare_begin_ask(slot);
	spare_await(slot, swap_request(guest.policy_map));
	CHECK_EQ(quota_used(slot_ledger(slot), 0), 0);
}

static void ask_once_more(struct slot *slot)
{
	ask(slot);
	spare_end_ask(slot);
}

static void keep(struct slot *slot)
{
	spare_keep(slot);
}

/* It has it when it asks, and nothing is kept until it says that it does no more, or is dead. */
static void check_asked(void)
{
	static void (*const steps[])(struct slot *slot) = {ask, ask_once_more, spare_end_ask, ask};
	struct sibling sibling;

	give(alloc(1000));
	sibling = sibling_begin(steps);
	give(alloc(64 * MIB));
	check_has(true, 66 * MIB);
	sibling_step(sibling);
	check_has(false, 0);
	for (int i = 0; i < 2; i++) {
		give(alloc(2 * MIB));
		give(alloc(64 * MIB));
		check_has(false, 0);
		sibling_step(sibling);
	}
	give(alloc(64 * MIB));
	check_has(true, 64 * MIB);
	sibling_step(sibling);
	check_has(false, 0);
	sibling_end(sibling);
	give(alloc(64 * MIB));
	check_has(true, 64 * MIB);
	quota_reclaim(guest.ledger);
	check_nothing_left();
}

static void ask_here(void)
{
	struct slot *slot = guest.claimed;

	spare_begin_ask(slot);
	spare_await(slot, swap_request(guest.policy_map));
	spare_end_ask(slot);
}

/* Who has died with it is not waited for, nor for ever who does not answer. */
static void check_silent(void)
{
	static void (*const keeps[])(struct slot *slot) = {keep}, (*const asks[])(struct slot *slot) =
		{ask};
	struct sibling sibling = sibling_begin(keeps);

	sibling_step(sibling);
	ask_here();
	sibling_end(sibling);
	sibling = sibling_begin(asks); /* in the same slot, of which nothing is said */
	ask_here();
	sibling_step(sibling);
	sibling_end(sibling);
	quota_reclaim(guest.ledger);
}

/* Without a thread that would give it up nothing is kept. */
static void check_without(void)
{
	guest.movable->yields = false;
	give(alloc(1000));
	give(alloc(4 * MIB));
	check_has(false, 0);
	guest.movable->yields = true;
	check_nothing_left();
}

/* --- Whose work reaches it ------------------------------------------------------------------- */

static void check_peers(void)
{
	CUdeviceptr p;

	give(alloc(2 * MIB));
	CHECK_EQ(atomic_load(&reached), 1);
	CHECK_EQ(backing_share(&guest, device, 1, true), CUDA_SUCCESS);
	CHECK_EQ(atomic_load(&reached), 1);
	p = alloc(2 * MIB);
	CHECK_EQ(atomic_load(&reached), 3);
	give(p);
	CHECK_EQ(backing_share(&guest, device, 1, false), CUDA_SUCCESS);
	CHECK_EQ(atomic_load(&reached), 3);
	p = alloc(1000);
	CHECK_EQ(atomic_load(&reached), 1);
	give(p);
	check_has(true, 2 * MIB);
	/* It cannot be said: then it ends. */
	atomic_store(&access_fails, true);
	CHECK_EQ(linear_alloc(&guest, device, 1000, &p), CUDA_ERROR_OUT_OF_MEMORY);
	atomic_store(&access_fails, false);
	check_nothing_left();
}

/* --- Threads --------------------------------------------------------------------------------- */

static void *churn(void *arg)
{
	static const uint64_t sizes[] = {2 * MIB, 1000, 4 * MIB, 6 * MIB};
	uint64_t seed = 88172645463325252u + (uintptr_t)arg;
	CUdeviceptr p;

	for (int i = 0; i < ROUNDS; i++) {
		seed ^= seed << 13;
		seed ^= seed >> 7;
		seed ^= seed << 17;
		if (seed / 8 % 64 == 0)
			linear_end_spare(&guest, device);
		if (!linear_alloc(&guest, device, sizes[seed % 4], &p))
			give(p);
	}
	return NULL;
}

/* Each has room for what it wants, if nobody keeps anything for long: so none is ever refused. */
static void *crowd(void *arg)
{
	for (int i = 0; i < ROUNDS / 10; i++)
		give(alloc(i % 8 ? QUOTA / THREADS : QUOTA / THREADS - 2 * MIB));
	return NULL;
}

static void check_threads(void *(*what)(void *arg))
{
	pthread_t thread[THREADS];

	for (uintptr_t i = 0; i < THREADS; i++)
		CHECK_EQ(pthread_create(&thread[i], NULL, what, (void *)i), 0);
	for (int i = 0; i < THREADS; i++)
		CHECK_EQ(pthread_join(thread[i], NULL), 0);
	CHECK_EQ(charged(), atomic_load(&physical_bytes));
	check_nothing_left();
}

int main(void)
{
	check_table();
	begin();
	check_pairs();
	check_one();
	check_several();
	check_refusals();
	check_context();
	check_exported();
	check_full();
	check_marked();
	check_asked();
	check_silent();
	check_without();
	check_peers();
	check_threads(churn);
	check_threads(crowd);
	return 0;
}
