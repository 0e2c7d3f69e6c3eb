/* SPDX-License-Identifier: Apache-2.0 */
/*
 * swap_guest WHAT [SEED]: a program whose memory leaves the device and comes back while it works.
 * Prints "ready" when it has begun, works or waits until it is sent a line, looks at all that it
 * holds, and prints "good" and how much it did.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "sim/cuda/api.h"
#include "tests/e2e/must.h"
#include "tests/e2e/swap/rest.h"

#define MIB (UINT64_C(1) << 20)

#define CHECK(what)                                                                    \
	do {                                                                           \
		if (!(what)) {                                                         \
			fprintf(stderr, "%s:%d: not %s\n", __FILE__, __LINE__, #what); \
			exit(1);                                                       \
		}                                                                      \
	} while (0)

static CUcontext context;
static CUfunction fill, check, spin;

/* Into the current context. */
static void load(void)
{
	CUmodule module;

	MUST(cuModuleLoadData(&module, "allot-sim-module\n"));
	MUST(cuModuleGetFunction(&fill, module, "sim_fill"));
	MUST(cuModuleGetFunction(&check, module, "sim_check"));
	MUST(cuModuleGetFunction(&spin, module, "sim_spin"));
}

static void begin(void)
{
	MUST(cuInit(0));
	MUST(cuDevicePrimaryCtxRetain(&context, 0));
	MUST(cuCtxSetCurrent(context));
	load();
}

static void launch_fill(CUdeviceptr at, uint64_t words, uint32_t seed, CUstream stream)
{
	void *params[] = {&at, &words, &seed};

	MUST(cuLaunchKernel(fill, 1, 1, 1, 1, 1, 1, 0, stream, params, NULL));
}

static void launch_check(CUdeviceptr at, uint64_t words, uint32_t seed, CUdeviceptr bad,
			 CUstream stream)
{
	void *params[] = {&at, &words, &seed, &bad};

	MUST(cuLaunchKernel(check, 1, 1, 1, 1, 1, 1, 0, stream, params, NULL));
}

static void said(const char *word)
{
	puts(word);
	fflush(stdout);
}

static void await_line(void)
{
	char c;

	said("ready");
	while (read(STDIN_FILENO, &c, 1) == 1 && c != '\n')
		;
}

/* --- Under load ----------------------------------------------------------------------------- */

#define THREADS 3
#define HELD	24

static atomic_bool over;

struct held {
	CUdeviceptr at;
	uint64_t bytes; /* 0: none */
	uint64_t mapped; /* by the program itself */
	CUmemoryPool pool; /* that it is from; the pool may be gone */
	uint32_t seed;
};

struct worker {
	pthread_t thread;
	uint64_t random;
	uint64_t steps;
	CUstream stream;
	bool pools; /* most is taken in the order of streams */
	CUstream second; /* in which some of that is freed */
	CUmemoryPool pool;
	CUdeviceptr bad; /* a word: how many words were not what they should be */
	struct held held[HELD];
	CUgraphExec graph; /* fills and checks a buffer of its own, at addresses of before */
	CUdeviceptr graphed;
};

static uint64_t pick(struct worker *w, uint64_t below)
{
	w->random ^= w->random << 13;
	w->random ^= w->random >> 7;
	w->random ^= w->random << 17;
	return w->random % below;
}

/* Small ones, which share granules, some of their own granules, and few large ones. */
static uint64_t pick_bytes(struct worker *w)
{
	switch (pick(w, 16)) {
	case 0:
		return 4 * (1 + pick(w, 5 * MIB));
	case 1:
	case 2:
	case 3:
	case 4:
		return 4 * (1 + pick(w, MIB / 2));
	default:
		return 4 * (1 + pick(w, 20000));
	}
}

/* The handle is given back at once, and the mapping keeps it. */
static void take_mapped(struct held *h, uint64_t bytes)
{
	const CUmemLocation location = {.type = CU_MEM_LOCATION_TYPE_DEVICE};
	const CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
					  .location = location};
	const CUmemAccessDesc access = {location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
	CUmemGenericAllocationHandle handle;

	h->mapped = (bytes + 2 * MIB - 1) / (2 * MIB) * (2 * MIB);
	MUST(cuMemCreate(&handle, h->mapped, &prop, 0));
	MUST(cuMemAddressReserve(&h->at, h->mapped, 0, 0, 0));
	MUST(cuMemMap(h->at, h->mapped, 0, handle, 0));
	MUST(cuMemSetAccess(h->at, h->mapped, &access, 1));
	MUST(cuMemRelease(handle));
}

static CUmemoryPool make_pool(CUmemAllocationHandleType types)
{
	const CUmemPoolProps props = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
				      .handleTypes = types,
				      .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
	CUmemoryPool pool;

	MUST(cuMemPoolCreate(&pool, &props));
	return pool;
}

/* Of the default pool, of one of the program's, or of one that it destroys at once. */
static void take_pooled(struct worker *w, struct held *h, uint64_t bytes)
{
	uint64_t way = pick(w, 16);

	if (way < 8) {
		MUST(cuDeviceGetDefaultMemPool(&h->pool, 0));
		MUST(cuMemAllocAsync(&h->at, bytes, w->stream));
		return;
	}
	h->pool = way < 15 ? w->pool : make_pool(CU_MEM_HANDLE_TYPE_NONE);
	MUST(cuMemAllocFromPoolAsync(&h->at, bytes, h->pool, w->stream));
	if (h->pool != w->pool)
		MUST(cuMemPoolDestroy(h->pool));
}

static void take(struct worker *w, struct held *h)
{
	uint64_t bytes = pick_bytes(w), way = pick(w, 6);
	size_t pitch;

	h->mapped = 0;
	h->pool = NULL;
	if (w->pools && pick(w, 8)) {
		take_pooled(w, h, bytes);
	} else if (way > 1) {
		MUST(cuMemAlloc_v2(&h->at, bytes));
	} else if (way) {
		take_mapped(h, bytes);
	} else {
		MUST(cuMemAllocPitch_v2(&h->at, &pitch, 1024, bytes / 1024 + 1, 4));
		CHECK(pitch == 1024);
	}
	h->bytes = bytes;
	h->seed = (uint32_t)pick(w, UINT32_MAX);
	launch_fill(h->at, bytes / 4, h->seed, w->stream);
}

/* Behind what was launched before, in a stream that may end at once. */
static void free_in_second(struct worker *w, CUdeviceptr at)
{
	CUevent event;

	MUST(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
	MUST(cuEventRecord(event, w->stream));
	MUST(cuStreamWaitEvent(w->second, event, 0));
	MUST(cuEventDestroy_v2(event));
	MUST(cuMemFreeAsync(at, w->second));
	if (!pick(w, 4)) {
		MUST(cuStreamDestroy_v2(w->second));
		MUST(cuStreamCreate(&w->second, CU_STREAM_NON_BLOCKING));
	}
}

/*
 * Nothing is waited for: who gets the memory next must not be in the way of what is still to come.
 */
static void give_pooled(struct worker *w, struct held *h)
{
	launch_check(h->at, h->bytes / 4, h->seed, w->bad, w->stream);
	switch (pick(w, 8)) {
	case 0:
		MUST(cuMemFree_v2(h->at));
		break;
	case 1:
	case 2:
		free_in_second(w, h->at);
		break;
	default:
		MUST(cuMemFreeAsync(h->at, w->stream));
	}
}

static void give(struct worker *w, struct held *h)
{
	if (h->pool) {
		give_pooled(w, h);
	} else if (h->mapped) {
		MUST(cuStreamSynchronize(w->stream));
		MUST(cuMemUnmap(h->at, h->mapped));
		MUST(cuMemAddressFree(h->at, h->mapped));
	} else if (pick(w, 3))
		MUST(cuMemFree_v2(h->at));
	else
		MUST(cuMemFreeAsync(h->at, w->stream));
	h->bytes = 0;
}

/* As of memory by cuMemAlloc, in the middle of it. */
static void ask(struct worker *w, const struct held *h)
{
	CUdeviceptr middle = h->at + pick(w, h->bytes), base;
	CUmemorytype type;
	uint64_t start;
	CUcontext of;
	size_t size;

	MUST(cuMemGetAddressRange_v2(&base, &size, middle));
	CHECK(base == h->at && size >= h->bytes);
	if (h->pool) {
		CUmemoryPool pool;

		CHECK(size == h->bytes);
		MUST(cuPointerGetAttribute(&pool, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, middle));
		CHECK(!pool || pool == h->pool);
		return;
	}
	MUST(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, middle));
	CHECK(type == CU_MEMORYTYPE_DEVICE);
	if (h->mapped)
		return;
	MUST(cuPointerGetAttribute(&start, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, middle));
	CHECK(start == h->at);
	MUST(cuPointerGetAttribute(&of, CU_POINTER_ATTRIBUTE_CONTEXT, middle));
	CHECK(of == context);
}

/* From one to another, there and back by the host. */
static void copy(struct worker *w, struct held *from, struct held *to)
{
	uint64_t bytes = from->bytes < to->bytes ? from->bytes : to->bytes;
	char *host;

	bytes = bytes < MIB ? bytes : MIB;
	host = malloc(bytes);
	CHECK(host);
	MUST(cuMemcpyDtoDAsync_v2(to->at, from->at, bytes, w->stream));
	MUST(cuStreamSynchronize(w->stream));
	MUST(cuMemcpyDtoH_v2(host, to->at, bytes));
	MUST(cuMemsetD8_v2(to->at, 0, bytes));
	MUST(cuMemcpyHtoD_v2(to->at, host, bytes));
	launch_check(to->at, bytes / 4, from->seed, w->bad, w->stream);
	launch_fill(to->at, to->bytes / 4, to->seed, w->stream);
	free(host);
}

static void step(struct worker *w)
{
	struct held *h = &w->held[pick(w, HELD)], *other = &w->held[pick(w, HELD)];

	if (!h->bytes) {
		take(w, h);
		return;
	}
	switch (pick(w, 6)) {
	case 0:
		give(w, h);
		break;
	case 1:
		if (other->bytes && other != h)
			copy(w, h, other);
		break;
	case 2:
		ask(w, h);
		break;
	case 3:
		MUST(cuGraphLaunch(w->graph, w->stream));
		break;
	default:
		launch_check(h->at, h->bytes / 4, h->seed, w->bad, w->stream);
	}
	if (!pick(w, 16))
		MUST(cuStreamSynchronize(w->stream));
}

#define GRAPHED (300 * 1024)

static void capture(struct worker *w)
{
	CUgraph graph;

	MUST(cuStreamBeginCapture_v2(w->stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
	launch_check(w->graphed, GRAPHED / 4, 7, w->bad, w->stream);
	launch_fill(w->graphed, GRAPHED / 4, 7, w->stream);
	MUST(cuStreamEndCapture(w->stream, &graph));
	MUST(cuGraphInstantiateWithFlags(&w->graph, graph, 0));
	MUST(cuGraphDestroy(graph));
}

static void *work(void *arg)
{
	struct worker *w = arg;
	uint32_t bad;

	MUST(cuCtxSetCurrent(context));
	MUST(cuStreamCreate(&w->stream, CU_STREAM_NON_BLOCKING));
	if (w->pools) {
		MUST(cuStreamCreate(&w->second, CU_STREAM_NON_BLOCKING));
		w->pool = make_pool(CU_MEM_HANDLE_TYPE_NONE);
	}
	MUST(cuMemAlloc_v2(&w->bad, 4));
	MUST(cuMemsetD32_v2(w->bad, 0, 1));
	MUST(cuMemAlloc_v2(&w->graphed, GRAPHED));
	launch_fill(w->graphed, GRAPHED / 4, 7, w->stream);
	capture(w);
	while (!atomic_load(&over)) {
		step(w);
		w->steps++;
	}
	for (int i = 0; i < HELD; i++)
		if (w->held[i].bytes)
			launch_check(w->held[i].at, w->held[i].bytes / 4, w->held[i].seed, w->bad,
				     w->stream);
	MUST(cuStreamSynchronize(w->stream));
	MUST(cuMemcpyDtoH_v2(&bad, w->bad, 4));
	CHECK(bad == 0);
	for (int i = 0; i < HELD; i++)
		if (w->held[i].bytes)
			give(w, &w->held[i]);
	MUST(cuStreamSynchronize(w->stream));
	MUST(cuMemcpyDtoH_v2(&bad, w->bad, 4));
	CHECK(bad == 0);
	MUST(cuMemFree_v2(w->bad));
	MUST(cuMemFree_v2(w->graphed));
	if (w->pools)
		MUST(cuMemPoolDestroy(w->pool));
	return NULL;
}

static void churn(uint64_t seed, bool pools)
{
	static struct worker worker[THREADS];
	uint64_t steps = 0;

	begin();
	for (int i = 0; i < THREADS; i++) {
		worker[i].pools = pools;
		worker[i].random = (seed + 1) * 2654435761u + (uint64_t)i * 40503u + 1;
		pthread_create(&worker[i].thread, NULL, work, &worker[i]);
	}
	await_line();
	atomic_store(&over, true);
	for (int i = 0; i < THREADS; i++) {
		pthread_join(worker[i].thread, NULL);
		steps += worker[i].steps;
	}
	fprintf(stderr, "%llu steps\n", (unsigned long long)steps);
}

/* --- At rest -------------------------------------------------------------------------------- */

#define IDLE 5

/* `large`: more than is on its way to the host at a time. */
static void idle(bool pooled, bool large)
{
	const uint64_t bytes[IDLE] = {100 * 4, 70000 * 4, 3 * MIB, (large ? 64 : 20) * MIB,
				      (large ? 130 : 30) * MIB};
	CUdeviceptr at[IDLE], bad;
	uint32_t count = 1;

	begin();
	MUST(cuMemAlloc_v2(&bad, 4));
	MUST(cuMemsetD32_v2(bad, 0, 1));
	for (int i = 0; i < IDLE; i++) {
		if (pooled)
			MUST(cuMemAllocAsync(&at[i], bytes[i], NULL));
		else
			MUST(cuMemAlloc_v2(&at[i], bytes[i]));
		launch_fill(at[i], bytes[i] / 4, (uint32_t)i, NULL);
	}
	MUST(cuCtxSynchronize());
	await_line();
	for (int i = 0; i < IDLE; i++)
		launch_check(at[i], bytes[i] / 4, (uint32_t)i, bad, NULL);
	MUST(cuMemcpyDtoH_v2(&count, bad, 4));
	CHECK(count == 0);
}

/* Ends, and takes its time for that. */
static void linger(void)
{
	await_line();
}

/* Two devices, each of which reaches the other's memory, and a context that ends with its own. */
static void devices(void)
{
	CUdeviceptr at[2], ended, bad[2];
	CUcontext other, brief;
	uint32_t count[2] = {1, 1};

	begin();
	MUST(cuCtxCreate_v2(&brief, 0, 0));
	MUST(cuMemAlloc_v2(&ended, 30 * MIB));
	MUST(cuMemAlloc_v2(&ended, 1000));
	MUST(cuCtxDestroy_v2(brief));
	MUST(cuDevicePrimaryCtxRetain(&other, 1));
	MUST(cuCtxSetCurrent(context));
	MUST(cuMemAlloc_v2(&at[0], 20 * MIB));
	MUST(cuMemAlloc_v2(&bad[0], 4));
	MUST(cuMemsetD32_v2(bad[0], 0, 1));
	MUST(cuCtxEnablePeerAccess(other, 0));
	MUST(cuCtxSetCurrent(other));
	MUST(cuMemAlloc_v2(&at[1], 10 * MIB));
	MUST(cuMemAlloc_v2(&bad[1], 4));
	MUST(cuMemsetD32_v2(bad[1], 0, 1));
	MUST(cuCtxEnablePeerAccess(context, 0));
	MUST(cuCtxSetCurrent(context));
	launch_fill(at[0], 20 * MIB / 4, 1, NULL);
	launch_fill(at[1], 10 * MIB / 4, 2, NULL);
	MUST(cuCtxSynchronize());
	await_line();
	launch_check(at[0], 20 * MIB / 4, 1, bad[0], NULL);
	launch_check(at[1], 10 * MIB / 4, 2, bad[1], NULL);
	MUST(cuMemcpyDtoH_v2(&count[0], bad[0], 4));
	MUST(cuMemcpyDtoH_v2(&count[1], bad[1], 4));
	CHECK(count[0] == 0 && count[1] == 0);
	MUST(cuCtxDisablePeerAccess(other));
}

/* As much as the quota has, in sizes that share granules and others. */
static void full(void)
{
	static const uint64_t sizes[] = {7 * MIB, 300 * 1024, 5000};
	CUdeviceptr at;
	CUresult e;

	begin();
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		do {
			e = cuMemAlloc_v2(&at, sizes[i]);
		} while (!e);
		CHECK(e == CUDA_ERROR_OUT_OF_MEMORY);
	}
	await_line();
}

/* --- What the program maps itself ------------------------------------------------------------ */

static CUmemLocation on_device(void)
{
	return (CUmemLocation){.type = CU_MEM_LOCATION_TYPE_DEVICE};
}

static CUmemGenericAllocationHandle create(uint64_t bytes)
{
	const CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
					  .location = on_device(),
					  .allocFlags = {.gpuDirectRDMACapable = 1}};
	CUmemGenericAllocationHandle handle;

	MUST(cuMemCreate(&handle, bytes, &prop, 0));
	return handle;
}

static void map(CUdeviceptr at, uint64_t bytes, uint64_t offset,
		CUmemGenericAllocationHandle handle, CUmemAccess_flags flags)
{
	const CUmemAccessDesc access = {.location = on_device(), .flags = flags};

	MUST(cuMemMap(at, bytes, offset, handle, 0));
	MUST(cuMemSetAccess(at, bytes, &access, 1));
}

static void check_access(CUdeviceptr at, CUmemAccess_flags want)
{
	const CUmemLocation location = on_device();
	unsigned long long flags;

	MUST(cuMemGetAccess(&flags, &location, at));
	CHECK(flags == (unsigned long long)want);
}

static void check_words(CUdeviceptr at, uint64_t bytes, uint32_t seed)
{
	uint32_t *bad; /* takes nothing of the device */

	MUST(cuMemAllocHost_v2((void **)&bad, 4));
	*bad = 0;
	launch_check(at, bytes / 4, seed, (CUdeviceptr)(uintptr_t)bad, NULL);
	MUST(cuCtxSynchronize());
	CHECK(*bad == 0);
	MUST(cuMemFreeHost(bad));
}

#define READS	CU_MEM_ACCESS_FLAGS_PROT_READ
#define WRITES	CU_MEM_ACCESS_FLAGS_PROT_READWRITE
#define SEGMENT (4 * MIB)

/*
 * As expandable segments do it: handles side by side in one reservation. Besides one that is mapped
 * twice, in parts and without rights, one that nothing maps, and one that only its mapping keeps.
 */
static void mappings(void)
{
	CUmemGenericAllocationHandle segment[3], twice, unmapped, kept, same;
	CUmemAllocationProp prop;
	CUdeviceptr at, room;

	begin();
	MUST(cuMemAddressReserve(&at, 16 * SEGMENT, 0, 0, 0));
	for (uint64_t i = 0; i < 3; i++) {
		segment[i] = create(SEGMENT);
		map(at + i * SEGMENT, SEGMENT, 0, segment[i], WRITES);
	}
	launch_fill(at, 3 * SEGMENT / 4, 1, NULL);
	twice = create(3 * SEGMENT);
	room = at + 4 * SEGMENT;
	map(room, 3 * SEGMENT, 0, twice, WRITES);
	launch_fill(room, 3 * SEGMENT / 4, 2, NULL);
	MUST(cuCtxSynchronize());
	map(room + 4 * SEGMENT, SEGMENT, SEGMENT, twice, READS);
	MUST(cuMemMap(room + 5 * SEGMENT, SEGMENT, 2 * SEGMENT, twice, 0));
	unmapped = create(SEGMENT);
	map(room + 6 * SEGMENT, SEGMENT, 0, unmapped, WRITES);
	launch_fill(room + 6 * SEGMENT, SEGMENT / 4, 3, NULL);
	MUST(cuCtxSynchronize());
	MUST(cuMemUnmap(room + 6 * SEGMENT, SEGMENT));
	kept = create(SEGMENT);
	map(room + 7 * SEGMENT, SEGMENT, 0, kept, WRITES);
	launch_fill(room + 7 * SEGMENT, SEGMENT / 4, 4, NULL);
	MUST(cuCtxSynchronize());
	MUST(cuMemRelease(kept));
	CHECK(cuMemRelease(kept) == CUDA_ERROR_INVALID_VALUE);
	CHECK(cuMemMap(room + 8 * SEGMENT, SEGMENT, 0, kept, 0) == CUDA_ERROR_INVALID_VALUE);
	await_line();
	check_words(at, 3 * SEGMENT, 1);
	check_words(room, 3 * SEGMENT, 2);
	check_access(room, WRITES);
	check_access(room + 4 * SEGMENT, READS);
	check_access(room + 5 * SEGMENT, CU_MEM_ACCESS_FLAGS_PROT_NONE);
	launch_fill(room + SEGMENT, SEGMENT / 4, 5, NULL);
	check_words(room + 4 * SEGMENT, SEGMENT, 5);
	check_words(room + 7 * SEGMENT, SEGMENT, 4);
	map(room + 6 * SEGMENT, SEGMENT, 0, unmapped, WRITES);
	check_words(room + 6 * SEGMENT, SEGMENT, 3);
	MUST(cuMemRetainAllocationHandle(&same, (void *)(room + 4 * SEGMENT + 1000)));
	CHECK(same == twice);
	MUST(cuMemRelease(same));
	MUST(cuMemGetAllocationPropertiesFromHandle(&prop, twice));
	CHECK(prop.allocFlags.gpuDirectRDMACapable == 1 && prop.location.id == 0);
	MUST(cuMemRelease(twice));
	CHECK(cuMemGetAllocationPropertiesFromHandle(&prop, twice) == CUDA_ERROR_INVALID_VALUE);
	MUST(cuMemRetainAllocationHandle(&kept, (void *)(room + 7 * SEGMENT)));
	MUST(cuMemUnmap(room + 7 * SEGMENT, SEGMENT));
	map(room + 8 * SEGMENT, SEGMENT, 0, kept, READS);
	check_words(room + 8 * SEGMENT, SEGMENT, 4);
	MUST(cuMemRelease(kept));
	MUST(cuMemUnmap(room + 8 * SEGMENT, SEGMENT));
	MUST(cuMemUnmap(room + 4 * SEGMENT, 3 * SEGMENT));
	MUST(cuMemUnmap(room, 3 * SEGMENT));
	MUST(cuMemUnmap(at, 3 * SEGMENT));
	MUST(cuMemRelease(unmapped));
	for (int i = 0; i < 3; i++)
		MUST(cuMemRelease(segment[i]));
	MUST(cuMemAddressFree(at, 16 * SEGMENT));
	await_line();
}

/* --- Stream-ordered pools -------------------------------------------------------------------- */

static uint64_t pool_figure(CUmemoryPool pool, CUmemPool_attribute which)
{
	cuuint64_t value;

	MUST(cuMemPoolGetAttribute(pool, which, &value));
	return value;
}

#define CHECK_POOL(pool, reserved, used)                                                        \
	do {                                                                                    \
		CHECK(pool_figure(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT) == (reserved));   \
		CHECK(pool_figure(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT) == (used));           \
	} while (0)

/* Programs ask of a pool's memory what is true of the driver's. */
static void ask_pooled(CUdeviceptr at, uint64_t bytes, CUmemoryPool pool)
{
	CUdeviceptr base;
	CUmemoryPool of;
	CUcontext context_of;
	CUmemorytype type;
	uint64_t types;
	bool capable;
	size_t size;

	MUST(cuMemGetAddressRange_v2(&base, &size, at + bytes - 1));
	CHECK(base == at && size == bytes);
	CHECK(cuMemGetAddressRange_v2(&base, &size, at + bytes) == CUDA_ERROR_NOT_FOUND);
	MUST(cuPointerGetAttribute(&of, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, at));
	CHECK(of == pool);
	MUST(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, at));
	CHECK(type == CU_MEMORYTYPE_DEVICE);
	MUST(cuPointerGetAttribute(&capable, CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE, at));
	CHECK(!capable);
	MUST(cuPointerGetAttribute(&types, CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES, at));
	CHECK(types == 0);
	CHECK(cuPointerGetAttribute(&context_of, CU_POINTER_ATTRIBUTE_CONTEXT, at));
}

/*
 * What a pool keeps, and when it gives it back, out and back meanwhile. Two pools, of which one has
 * a threshold and is destroyed while something is allocated from it.
 */
static void pools(void)
{
	CUmemoryPool standard, own, none;
	CUdeviceptr at[3], again;
	cuuint64_t most = UINT64_MAX, zero = 0;
	CUstream stream;
	CUevent event;

	begin();
	MUST(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	MUST(cuDeviceGetMemPool(&standard, 0));
	CHECK_POOL(standard, 0, 0);
	own = make_pool(CU_MEM_HANDLE_TYPE_NONE);
	MUST(cuMemPoolSetAttribute(own, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &most));
	MUST(cuMemAllocAsync(&at[0], 3 * MIB, stream));
	MUST(cuMemAllocFromPoolAsync(&at[1], 1000, own, stream));
	MUST(cuMemAllocFromPoolAsync(&at[2], 40 * MIB, own, stream));
	CHECK_POOL(standard, 32 * MIB, 3 * MIB);
	CHECK_POOL(own, (32 + 64) * MIB, 40 * MIB + 1024);
	ask_pooled(at[0], 3 * MIB, standard);
	ask_pooled(at[1], 1000, own);
	for (uint32_t i = 0; i < 3; i++)
		launch_fill(at[i], i == 1 ? 250 : 3 * MIB / 4, i, stream);
	await_line();
	for (uint32_t i = 0; i < 3; i++)
		check_words(at[i], i == 1 ? 1000 : 3 * MIB, i);
	ask_pooled(at[0], 3 * MIB, standard);
	CHECK_POOL(own, (32 + 64) * MIB, 40 * MIB + 1024);

	/* At once for the same stream, and for the implicit one when it has been waited for. */
	MUST(cuMemFreeAsync(at[2], stream));
	CHECK(cuMemFreeAsync(at[2], stream) == CUDA_ERROR_INVALID_VALUE);
	CHECK(cuMemFreeAsync(at[0] + 512, stream) == CUDA_ERROR_INVALID_VALUE);
	MUST(cuMemAllocFromPoolAsync(&again, 40 * MIB, own, stream));
	CHECK(again == at[2]);
	MUST(cuMemFreeAsync(again, stream));
	MUST(cuStreamSynchronize(stream));
	MUST(cuMemAllocFromPoolAsync(&again, 40 * MIB, own, NULL));
	CHECK(again == at[2]);
	MUST(cuMemFreeAsync(again, NULL));
	MUST(cuCtxSynchronize());
	CHECK_POOL(own, (32 + 64) * MIB, 1024);
	CHECK(pool_figure(own, CU_MEMPOOL_ATTR_USED_MEM_HIGH) == 40 * MIB + 1024);
	MUST(cuMemPoolSetAttribute(own, CU_MEMPOOL_ATTR_USED_MEM_HIGH, &zero));
	CHECK(pool_figure(own, CU_MEMPOOL_ATTR_USED_MEM_HIGH) == 1024);
	MUST(cuMemPoolTrimTo(own, 96 * MIB));
	CHECK_POOL(own, (32 + 64) * MIB, 1024);
	MUST(cuMemPoolTrimTo(own, 0));
	CHECK_POOL(own, 32 * MIB, 1024);
	MUST(cuMemFree_v2(at[0]));
	CHECK_POOL(standard, 0, 0);

	/*
	 * What only events tell: nobody waits for the stream, but for what was recorded behind the
	 * free.
	 */
	MUST(cuMemAllocAsync(&at[0], 3 * MIB, stream));
	MUST(cuMemFreeAsync(at[0], stream));
	MUST(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
	MUST(cuEventRecord(event, stream));
	MUST(cuEventSynchronize(event));
	MUST(cuMemAllocAsync(&at[0], 3 * MIB, stream));
	MUST(cuMemFreeAsync(at[0], stream));
	MUST(cuEventRecord(event, stream));
	MUST(cuEventSynchronize(event));
	CHECK_POOL(standard, 0, 0);

	MUST(cuDeviceSetMemPool(0, own));
	MUST(cuMemAllocAsync(&at[0], 2000, stream));
	ask_pooled(at[0], 2000, own);
	MUST(cuMemPoolDestroy(own));
	CHECK(cuMemPoolGetAttribute(own, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &zero));
	CHECK(cuMemAllocFromPoolAsync(&again, 1000, own, stream));
	MUST(cuDeviceGetMemPool(&none, 0));
	CHECK(none == standard);
	launch_fill(at[0], 500, 9, stream);
	await_line();
	check_words(at[1], 1000, 1);
	check_words(at[0], 2000, 9);
	MUST(cuMemFreeAsync(at[0], stream));
	MUST(cuMemFreeAsync(at[1], stream));
	MUST(cuStreamSynchronize(stream));
	await_line();
}

/*
 * A pool keeps more than half of what there is: it goes for others, and work that is still to free
 * it is waited for.
 */
static void pools_full(void)
{
	cuuint64_t most = UINT64_MAX;
	CUstream stream[2];
	CUmemoryPool pool;
	CUdeviceptr at, more;
	uint64_t us = 100000;
	void *params[] = {&us};

	begin();
	MUST(cuDeviceGetDefaultMemPool(&pool, 0));
	MUST(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &most));
	for (int i = 0; i < 2; i++)
		MUST(cuStreamCreate(&stream[i], CU_STREAM_NON_BLOCKING));
	MUST(cuMemAllocAsync(&at, 160 * MIB, stream[0]));
	CHECK(cuMemAllocAsync(&more, 160 * MIB, stream[1]) == CUDA_ERROR_OUT_OF_MEMORY);
	MUST(cuMemFreeAsync(at, stream[0]));
	MUST(cuStreamSynchronize(stream[0]));
	CHECK_POOL(pool, 160 * MIB, 0);
	MUST(cuMemAlloc_v2(&more, 160 * MIB));
	CHECK_POOL(pool, 0, 0);
	MUST(cuMemFree_v2(more));
	MUST(cuMemAllocAsync(&at, 160 * MIB, stream[0]));
	MUST(cuLaunchKernel(spin, 1, 1, 1, 1, 1, 1, 0, stream[0], params, NULL));
	launch_fill(at, MIB, 1, stream[0]);
	MUST(cuMemFreeAsync(at, stream[0]));
	MUST(cuMemAllocAsync(&more, 160 * MIB, stream[1]));
	CHECK(more == at);
	MUST(cuStreamQuery(stream[0]));
	launch_fill(more, MIB, 2, stream[1]);
	MUST(cuStreamSynchronize(stream[1]));
	await_line();
	check_words(more, 4 * MIB, 2);
}

/* A pool of one device that the other one may reach, from before it grows and after. */
static void pools_of_two(void)
{
	CUmemAccessDesc reach = {.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 1},
				 .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
	CUmemoryPool pool;
	CUcontext other;
	CUdeviceptr at[2], bad;
	uint32_t count = 1;

	begin();
	pool = make_pool(CU_MEM_HANDLE_TYPE_NONE);
	MUST(cuMemAllocFromPoolAsync(&at[0], 3 * MIB, pool, NULL));
	MUST(cuMemPoolSetAccess(pool, &reach, 1));
	MUST(cuMemAllocFromPoolAsync(&at[1], 40 * MIB, pool, NULL));
	launch_fill(at[0], 3 * MIB / 4, 1, NULL);
	launch_fill(at[1], 40 * MIB / 4, 2, NULL);
	MUST(cuCtxSynchronize());
	MUST(cuDevicePrimaryCtxRetain(&other, 1));
	await_line();
	MUST(cuCtxSetCurrent(other));
	MUST(cuMemAlloc_v2(&bad, 4));
	MUST(cuMemsetD32_v2(bad, 0, 1));
	launch_check(at[0], 3 * MIB / 4, 1, bad, NULL);
	launch_check(at[1], 40 * MIB / 4, 2, bad, NULL);
	MUST(cuMemcpyDtoH_v2(&count, bad, 4));
	CHECK(count == 0);
	MUST(cuMemFreeAsync(at[1], NULL));
	MUST(cuCtxSynchronize());
}

/* --- What processes share --------------------------------------------------------------------- */

#define LENT 3

static const uint64_t lent_bytes[LENT] = {3 * MIB, 100 * 4, 70000 * 4};

/* Two of them share a granule. */
static void name_pieces(CUdeviceptr at[LENT], CUipcMemHandle handle[LENT])
{
	for (uint32_t i = 0; i < LENT; i++) {
		MUST(cuMemAlloc_v2(&at[i], lent_bytes[i]));
		launch_fill(at[i], lent_bytes[i] / 4, i, NULL);
		MUST(cuIpcGetMemHandle(&handle[i], at[i] + 16));
	}
	MUST(cuCtxSynchronize());
}

/* Whoever reads the file finds all of it. */
static void write_handles(const char *path, const CUipcMemHandle handle[LENT])
{
	char part[512];
	FILE *file;

	snprintf(part, sizeof(part), "%s.part", path);
	file = fopen(part, "w");
	CHECK(file && fwrite(handle, sizeof(handle[0]), LENT, file) == LENT && !fclose(file));
	CHECK(!rename(part, path));
}

static void lend(const char *path, uint32_t seed)
{
	CUipcMemHandle handle[LENT], again;
	CUdeviceptr at[LENT], opened;

	begin();
	name_pieces(at, handle);
	if (getenv("SWAP_GUEST_FORKS") && !fork()) {
		sleep(6); /* with whatever descriptors it has from us */
		_exit(0);
	}
	MUST(cuIpcGetMemHandle(&again, at[0]));
	CHECK(!memcmp(&again, &handle[0], sizeof(again)));
	CHECK(cuIpcOpenMemHandle_v2(&opened, again, 1) == CUDA_ERROR_INVALID_CONTEXT);
	write_handles(path, handle);
	await_line();
	check_words(at[0], lent_bytes[0], seed);
	for (uint32_t i = 1; i < LENT; i++)
		check_words(at[i], lent_bytes[i], i);
	for (uint32_t i = 0; i < LENT; i++)
		MUST(cuMemFree_v2(at[i]));
}

static void read_handles(const char *path, CUipcMemHandle handle[LENT])
{
	FILE *file;

	while (!(file = fopen(path, "r")))
		usleep(1000);
	CHECK(fread(handle, sizeof(handle[0]), LENT, file) == LENT);
	fclose(file);
}

/* Writes into one of them when it has come back, and closes all. */
static void borrow(const char *path, uint32_t seed)
{
	CUipcMemHandle handle[LENT], wrong;
	CUdeviceptr at[LENT], again, base;
	uint64_t start;
	size_t size;

	begin();
	read_handles(path, handle);
	for (int i = 0; i < 40; i++) {
		wrong = handle[0];
		wrong.reserved[i] ^= 4;
		CHECK(cuIpcOpenMemHandle_v2(&again, wrong, 1));
	}
	for (uint32_t i = 0; i < LENT; i++) {
		MUST(cuIpcOpenMemHandle_v2(&at[i], handle[i], 1));
		check_words(at[i], lent_bytes[i], i);
		MUST(cuMemGetAddressRange_v2(&base, &size, at[i] + 300));
		CHECK(base == at[i] && size == lent_bytes[i]);
		MUST(cuPointerGetAttribute(&start, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR,
					   at[i] + 300));
		CHECK(start == at[i]);
	}
	MUST(cuIpcOpenMemHandle_v2(&again, handle[0], 1));
	CHECK(again == at[0]);
	MUST(cuIpcCloseMemHandle(again));
	await_line();
	check_words(at[0], lent_bytes[0], 0);
	launch_fill(at[0], lent_bytes[0] / 4, seed, NULL);
	MUST(cuCtxSynchronize());
	for (uint32_t i = 0; i < LENT; i++) {
		check_words(at[i], lent_bytes[i], i ? i : seed);
		MUST(cuIpcCloseMemHandle(at[i]));
	}
	CHECK(cuIpcCloseMemHandle(at[0]) == CUDA_ERROR_INVALID_VALUE);
}

/* Borrows from one process, and lends to others. */
static void relay(const char *from, const char *to)
{
	CUipcMemHandle theirs[LENT], ours[LENT];
	CUdeviceptr at[LENT], opened;

	begin();
	read_handles(from, theirs);
	MUST(cuIpcOpenMemHandle_v2(&opened, theirs[0], 1));
	name_pieces(at, ours);
	write_handles(to, ours);
	await_line();
	check_words(opened, lent_bytes[0], 0);
	for (uint32_t i = 0; i < LENT; i++)
		check_words(at[i], lent_bytes[i], i);
	MUST(cuIpcCloseMemHandle(opened));
}

static int post_box(void)
{
	return atoi(getenv("SWAP_GUEST_SOCKET"));
}

static void post(int fd)
{
	char room[CMSG_SPACE(sizeof(int))] = {0}, word = 1;
	struct iovec iov = {&word, 1};
	struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1, .msg_control = room,
			     .msg_controllen = sizeof(room)};
	struct cmsghdr *c = CMSG_FIRSTHDR(&msg);

	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(c), &fd, sizeof(fd));
	CHECK(sendmsg(post_box(), &msg, 0) == 1);
}

static int fetch(void)
{
	char room[CMSG_SPACE(sizeof(int))], word;
	struct iovec iov = {&word, 1};
	struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1, .msg_control = room,
			     .msg_controllen = sizeof(room)};
	int fd;

	CHECK(recvmsg(post_box(), &msg, 0) == 1 && CMSG_FIRSTHDR(&msg));
	memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&msg)), sizeof(fd));
	return fd;
}

#define DESCRIPTOR CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR

/*
 * By descriptor, as expandable segments and NCCL do; it may be kept open for as long as one likes.
 */
static void lend_handle(uint32_t seed)
{
	CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED, .location = on_device(),
				    .requestedHandleTypes = DESCRIPTOR};
	CUmemGenericAllocationHandle handle, same, private = 0;
	CUdeviceptr at;
	int fd[3];

	begin();
	MUST(cuMemCreate(&handle, 2 * SEGMENT, &prop, 0));
	MUST(cuMemAddressReserve(&at, 2 * SEGMENT, 0, 0, 0));
	map(at, 2 * SEGMENT, 0, handle, WRITES);
	launch_fill(at, 2 * SEGMENT / 4, 0, NULL);
	MUST(cuCtxSynchronize());
	for (int i = 0; i < 3; i++) {
		MUST(cuMemExportToShareableHandle(&fd[i], handle, DESCRIPTOR, 0));
		if (i < 2)
			post(fd[i]);
	}
	MUST(cuMemImportFromShareableHandle(&same, (void *)(intptr_t)fd[2], DESCRIPTOR));
	MUST(cuMemRelease(same));
	private = create(SEGMENT);
	CHECK(cuMemExportToShareableHandle(&fd[0], private, DESCRIPTOR, 0));
	MUST(cuMemRelease(private));
	await_line();
	check_words(at, 2 * SEGMENT, seed);
	MUST(cuMemUnmap(at, 2 * SEGMENT));
	MUST(cuMemRelease(handle));
}

static void borrow_handle(uint32_t seed)
{
	CUmemGenericAllocationHandle handle, same;
	CUmemAllocationProp prop;
	CUdeviceptr at;
	int fd = fetch(), again;

	begin();
	MUST(cuMemImportFromShareableHandle(&handle, (void *)(intptr_t)fd, DESCRIPTOR));
	MUST(cuMemImportFromShareableHandle(&same, (void *)(intptr_t)fd, DESCRIPTOR));
	MUST(cuMemRelease(same));
	MUST(cuMemExportToShareableHandle(&again, handle, DESCRIPTOR, 0));
	close(fd);
	MUST(cuMemImportFromShareableHandle(&same, (void *)(intptr_t)again, DESCRIPTOR));
	MUST(cuMemRelease(same));
	MUST(cuMemGetAllocationPropertiesFromHandle(&prop, handle));
	CHECK(prop.location.id == 0);
	MUST(cuMemAddressReserve(&at, 4 * SEGMENT, 0, 0, 0));
	map(at, 2 * SEGMENT, 0, handle, WRITES);
	map(at + 2 * SEGMENT, SEGMENT, SEGMENT, handle, READS);
	MUST(cuMemRelease(handle));
	check_words(at, 2 * SEGMENT, 0);
	await_line();
	check_words(at, 2 * SEGMENT, 0);
	check_access(at + 2 * SEGMENT, READS);
	launch_fill(at, 2 * SEGMENT / 4, seed, NULL);
	MUST(cuCtxSynchronize());
	MUST(cuMemUnmap(at, 2 * SEGMENT));
	MUST(cuMemUnmap(at + 2 * SEGMENT, SEGMENT));
	MUST(cuMemAddressFree(at, 4 * SEGMENT));
}

/* It is no such memory's tenant, or nobody has it any more. */
static void borrow_nothing(const char *path)
{
	CUipcMemHandle handle[LENT];
	CUdeviceptr at;

	begin();
	read_handles(path, handle);
	await_line();
	for (int i = 0; i < LENT; i++)
		CHECK(cuIpcOpenMemHandle_v2(&at, handle[i], 1));
	memset(&handle[0].reserved[32], 7, 8);
	CHECK(cuIpcOpenMemHandle_v2(&at, handle[0], 1));
}

/* --- Turns ----------------------------------------------------------------------------------- */

#define PIECES 512

struct pieces {
	CUdeviceptr at[PIECES], bad;
	uint64_t bytes[PIECES];
	uint32_t seed[PIECES], next;
	int n;
};

static bool from_pool; /* pieces are, in the order of the default stream */

/* Pieces of several sizes, of which some share granules, as much as there is to be. */
static void hold_pieces(struct pieces *p, uint64_t mib, uint32_t seed)
{
	static const uint64_t sizes[] = {16 * MIB, 3 * MIB, 600 * 1024, 20 * 1024};
	uint64_t left = mib * MIB;

	MUST(cuMemAlloc_v2(&p->bad, 4));
	MUST(cuMemsetD32_v2(p->bad, 0, 1));
	p->next = seed;
	for (int i = 0; left >= 3 * MIB && i < PIECES; i++) {
		uint64_t bytes = sizes[i % 4] < left ? sizes[i % 4] : left;

		MUST(from_pool ? cuMemAllocAsync(&p->at[i], bytes, NULL)
			       : cuMemAlloc_v2(&p->at[i], bytes));
		p->bytes[i] = bytes;
		p->seed[i] = p->next++;
		p->n = i + 1;
		launch_fill(p->at[i], bytes / 4, p->seed[i], NULL);
		left -= bytes;
	}
}

/* Every word of all, which then changes. */
static void look_at_pieces(struct pieces *p)
{
	uint32_t count = 1;

	for (int i = 0; i < p->n; i++) {
		launch_check(p->at[i], p->bytes[i] / 4, p->seed[i], p->bad, NULL);
		p->seed[i] = p->next++;
		launch_fill(p->at[i], p->bytes[i] / 4, p->seed[i], NULL);
	}
	MUST(cuMemcpyDtoH_v2(&count, p->bad, 4));
	CHECK(count == 0);
}

static void *await_end(void *arg)
{
	await_line();
	atomic_store(&over, true);
	return NULL;
}

/* Computes all the time, until it is sent a line. */
static void compute(uint64_t mib, uint32_t seed)
{
	static struct pieces pieces;
	unsigned long rounds = 0;
	uint64_t rested = 0;
	pthread_t thread;

	begin();
	hold_pieces(&pieces, mib, seed);
	pthread_create(&thread, NULL, await_end, NULL);
	for (; !atomic_load(&over); rounds++) {
		look_at_pieces(&pieces);
		rest(&rested);
	}
	pthread_join(thread, NULL);
	look_at_pieces(&pieces);
	fprintf(stderr, "%lu rounds\n", rounds);
}

static uint64_t free_bytes(void)
{
	size_t bytes, total;

	MUST(cuMemGetInfo_v2(&bytes, &total));
	return bytes;
}

/*
 * Computes once for each line; with a number in it, it takes so many MiB more first, and keeps them
 * where there is a k behind that. Where the line is an i it says how many MiB are free, and no more.
 */
static void serve(uint64_t mib, uint32_t seed)
{
	static struct pieces pieces;
	char line[64];

	begin();
	hold_pieces(&pieces, mib, seed);
	look_at_pieces(&pieces);
	said("ready");
	while (fgets(line, sizeof(line), stdin)) {
		uint64_t more = strtoull(line, NULL, 0);
		CUdeviceptr at;
		CUresult e;

		if (line[0] == 'i') {
			printf("%lu\n", (unsigned long)(free_bytes() / MIB));
			fflush(stdout);
			continue;
		}
		e = more ? cuMemAlloc_v2(&at, more * MIB) : CUDA_SUCCESS;

		if (line[0] == 'q')
			break;
		CHECK(!e || e == CUDA_ERROR_OUT_OF_MEMORY);
		look_at_pieces(&pieces);
		if (more && !e && !strchr(line, 'k'))
			MUST(cuMemFree_v2(at));
		said(e ? "refused" : "served");
	}
	look_at_pieces(&pieces);
}

/* --- What is kept for the next allocation ---------------------------------------------------- */

/* Takes so much, uses it and frees it. Where it was. */
static CUdeviceptr pair(uint64_t bytes, uint32_t seed)
{
	CUdeviceptr at;

	MUST(cuMemAlloc_v2(&at, bytes));
	launch_fill(at, bytes / 4, seed, NULL);
	check_words(at, bytes, seed);
	MUST(cuMemFree_v2(at));
	return at;
}

/* It is free to whoever asks. */
static void check_is_free(CUdeviceptr at)
{
	CUpointer_attribute attribute[] = {CU_POINTER_ATTRIBUTE_RANGE_SIZE,
					   CU_POINTER_ATTRIBUTE_MEMORY_TYPE};
	CUmemorytype type = CU_MEMORYTYPE_DEVICE;
	uint64_t bytes = 0; /* and stays so: the driver does not write it */
	void *data[] = {&bytes, &type};
	CUdeviceptr base;
	size_t size;

	CHECK(cuMemFree_v2(at) == CUDA_ERROR_INVALID_VALUE);
	CHECK(cuMemGetAddressRange_v2(&base, &size, at) == CUDA_ERROR_NOT_FOUND);
	CHECK(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, at) ==
	      CUDA_ERROR_INVALID_VALUE);
	MUST(cuPointerGetAttributes(2, attribute, data, at));
	CHECK(!bytes && !type);
}

static void spare_in_turn(uint64_t all)
{
	static const uint64_t sizes[] = {2 * MIB, MIB, 400, MIB + 4, 2 * MIB};
	CUdeviceptr at = pair(2 * MIB, 1), two[2], whole;

	for (uint32_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
		CHECK(pair(sizes[i], i) == at);
	CHECK(pair(2 * MIB + 4, 9) != at);
	check_is_free(pair(400, 7));
	CHECK(pair(2 * MIB, 1) != at); /* to answer that, it had to go */
	for (int i = 0; i < 2; i++)
		MUST(cuMemAlloc_v2(&two[i], 2 * MIB));
	for (int i = 0; i < 2; i++)
		MUST(cuMemFree_v2(two[i]));
	MUST(cuMemAlloc_v2(&whole, all));
	MUST(cuMemFree_v2(whole));
	pair(MIB, 2);
	CHECK(free_bytes() == all);
}

static void spare_in_capture(uint64_t all)
{
	CUdeviceptr at = pair(2 * MIB, 1), again, whole;
	CUstream stream;
	CUgraph graph;

	MUST(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	MUST(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
	MUST(cuMemAlloc_v2(&again, 2 * MIB));
	CHECK(again == at);
	MUST(cuMemFree_v2(again)); /* behind the capture */
	CHECK(free_bytes() == all - 2 * MIB);
	MUST(cuStreamEndCapture(stream, &graph));
	MUST(cuGraphDestroy(graph));
	pair(4 * MIB, 1);
	MUST(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
	MUST(cuMemAlloc_v2(&whole, all));
	MUST(cuStreamEndCapture(stream, &graph));
	MUST(cuGraphDestroy(graph));
	MUST(cuStreamDestroy_v2(stream));
	MUST(cuMemFree_v2(whole));
}

static void *work_in_pairs(void *arg)
{
	static const uint64_t sizes[] = {2 * MIB, MIB, 400, 3 * MIB, 6 * MIB};
	_Atomic uint32_t *done = arg;

	MUST(cuCtxSetCurrent(context));
	for (uint32_t i = 0; !atomic_load(&over); i++, atomic_fetch_add(done, 1))
		pair(sizes[i % 5], i);
	return NULL;
}

/* Several at once, out and back meanwhile. */
static void spare_of_threads(void)
{
	static _Atomic uint32_t done[THREADS];
	pthread_t thread[THREADS];

	for (int i = 0; i < THREADS; i++)
		CHECK(!pthread_create(&thread[i], NULL, work_in_pairs, &done[i]));
	await_line();
	for (int i = 0; i < THREADS; i++)
		while (atomic_load(&done[i]) < 100)
			usleep(1000);
	atomic_store(&over, true);
	for (int i = 0; i < THREADS; i++)
		pthread_join(thread[i], NULL);
}

static void spare(void)
{
	CUcontext brief;
	CUdeviceptr at;
	uint64_t all;

	begin();
	all = free_bytes();
	spare_in_turn(all);
	spare_in_capture(all);
	MUST(cuCtxCreate_v2(&brief, 0, 0));
	MUST(cuMemAlloc_v2(&at, MIB));
	MUST(cuMemFree_v2(at));
	MUST(cuCtxDestroy_v2(brief));
	MUST(cuCtxSetCurrent(context));
	await_line();
	at = pair(64 * MIB, 4);
	CHECK(pair(64 * MIB, 5) == at);
	pair(2 * MIB, 4);
	await_line();
	pair(MIB, 5);
	spare_of_threads();
	CHECK(free_bytes() == all);
	pair(64 * MIB, 6);
	await_line();
}

static void keep_spare(void)
{
	begin();
	for (uint32_t i = 0;; i++) {
		pair(64 * MIB, i);
		pair(MIB, i);
		await_line();
	}
}

/* --- Beside others --------------------------------------------------------------------------- */

/* Takes so much as soon as it is there. */
static void grab(uint64_t mib)
{
	CUdeviceptr at;
	CUresult e;

	begin();
	said("ready");
	while ((e = cuMemAlloc_v2(&at, mib * MIB)))
		CHECK(e == CUDA_ERROR_OUT_OF_MEMORY);
	await_line();
}

/* It is to be there when it is asked for. */
static void take_at_once(uint64_t mib, bool array)
{
	CUDA_ARRAY3D_DESCRIPTOR desc = {.Width = MIB, .Height = mib, .NumChannels = 1,
					.Format = CU_AD_FORMAT_UNSIGNED_INT8};
	CUdeviceptr at;
	CUarray handle;

	begin();
	if (array)
		MUST(cuArray3DCreate_v2(&handle, &desc));
	else
		MUST(cuMemAlloc_v2(&at, mib * MIB));
	await_line();
}

/* Pairs of up to so much, none of which is refused. */
static void crowd(uint64_t mib, uint32_t seed)
{
	CUdeviceptr at;

	begin();
	await_line();
	for (int i = 0; i < 4000; i++) {
		seed = seed * 1664525u + 1013904223u;
		MUST(cuMemAlloc_v2(&at, (seed >> 16) % mib * MIB + MIB));
		MUST(cuMemFree_v2(at));
	}
	await_line();
}

/* 8 MiB of code, when it is told to. */
static void load_more(void)
{
	CUmodule module;

	setenv("CUDA_MODULE_LOADING", "EAGER", 1);
	begin();
	await_line();
	MUST(cuModuleLoadData(&module, "allot-sim-module bytes=8388608\n"));
	await_line();
}

#define SPREAD 8

/* As serve, on all devices; on each of them it holds another part of the first one's. */
static void spread(uint64_t mib, uint32_t seed)
{
	static struct pieces pieces[SPREAD];
	CUcontext on[SPREAD];
	char line[64];
	int n = 0;

	begin();
	MUST(cuDeviceGetCount(&n));
	n = n < SPREAD ? n : SPREAD;
	for (int d = 0; d < n; d++) {
		MUST(cuDevicePrimaryCtxRetain(&on[d], d));
		MUST(cuCtxSetCurrent(on[d]));
		load();
		hold_pieces(&pieces[d], d ? mib * (uint64_t)((seed + (uint32_t)d) % 4) / 4 : mib,
			    seed + (uint32_t)d * 100000);
	}
	said("ready");
	while (fgets(line, sizeof(line), stdin) && line[0] != 'q') {
		for (int d = 0; d < n; d++) {
			MUST(cuCtxSetCurrent(on[d]));
			look_at_pieces(&pieces[d]);
		}
		said("served");
	}
}

/* --- What cannot leave ---------------------------------------------------------------------- */

static void hold_array(void)
{
	CUDA_ARRAY_DESCRIPTOR shape = {.Width = 64, .Height = 64, .Format = CU_AD_FORMAT_FLOAT,
				       .NumChannels = 1};
	CUarray array;

	MUST(cuArrayCreate_v2(&array, &shape));
}

static void hold_managed(void)
{
	CUdeviceptr at;

	MUST(cuMemAllocManaged(&at, 4 * MIB, CU_MEM_ATTACH_GLOBAL));
}

/* One that another process could import. */
static void hold_pool(void)
{
	CUdeviceptr at;

	MUST(cuMemAllocFromPoolAsync(&at, 4 * MIB, make_pool(DESCRIPTOR), NULL));
	MUST(cuStreamSynchronize(NULL));
}

/* Taken while a stream captures: it is the graph's. */
static void hold_graph(void)
{
	CUgraphExec exec;
	CUdeviceptr at;
	CUstream stream;
	CUgraph graph;

	MUST(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	MUST(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
	MUST(cuMemAllocAsync(&at, 4 * MIB, stream));
	launch_fill(at, MIB, 1, stream);
	MUST(cuStreamEndCapture(stream, &graph));
	MUST(cuGraphInstantiateWithFlags(&exec, graph, 0));
	MUST(cuGraphLaunch(exec, stream));
	MUST(cuStreamSynchronize(stream));
}

/* What is free in a pool leaves with the rest. */
static void hold_empty_pool(void)
{
	CUdeviceptr at;
	uint64_t most = UINT64_MAX;
	CUmemoryPool pool;

	MUST(cuDeviceGetMemPool(&pool, 0));
	MUST(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &most));
	MUST(cuMemAllocAsync(&at, 4 * MIB, NULL));
	MUST(cuMemFreeAsync(at, NULL));
	MUST(cuStreamSynchronize(NULL));
}

static void hold_capture(void)
{
	CUstream stream;

	MUST(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	MUST(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
}

/* Work that takes longer than a suspend is ready to wait for. */
static void hold_work(void)
{
	uint64_t us = 3000000;
	void *params[] = {&us};

	MUST(cuLaunchKernel(spin, 1, 1, 1, 1, 1, 1, 0, NULL, params, NULL));
}

/* A thread whose launches are held for a long time: nothing of it is on the device then. */
static void *launch_on(void *arg)
{
	MUST(cuCtxSetCurrent(context));
	for (int i = 0; i < 100; i++) {
		uint64_t us = 300000;
		void *params[] = {&us};

		MUST(cuLaunchKernel(spin, 1, 1, 1, 1, 1, 1, 0, NULL, params, NULL));
	}
	return NULL;
}

static void hold_launches(void)
{
	pthread_t thread;

	CHECK(!pthread_create(&thread, NULL, launch_on, NULL));
	CHECK(!pthread_detach(thread));
}

/* What mapped memory has no answer for, and what it must not be used for. */
static void hold_questions(void)
{
	const CUmemAccessDesc access = {
		.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE},
		.flags = CU_MEM_ACCESS_FLAGS_PROT_READ,
	};
	CUmemGenericAllocationHandle handle;
	uint64_t id[2], types = 1;
	CUdeviceptr at[2], base;
	CUpointer_attribute attribute[] = {CU_POINTER_ATTRIBUTE_RANGE_START_ADDR,
					   CU_POINTER_ATTRIBUTE_RANGE_SIZE,
					   CU_POINTER_ATTRIBUTE_MEMORY_TYPE};
	uint64_t start, length;
	CUmemorytype type;
	void *data[] = {&start, &length, &type};
	CUipcMemHandle ipc;
	bool capable = true;
	size_t size;

	CHECK(cuMemAlloc_v2(&at[0], 0) == CUDA_ERROR_INVALID_VALUE);
	for (int i = 0; i < 2; i++) {
		MUST(cuMemAlloc_v2(&at[i], 1000));
		CHECK(at[i] % 256 == 0);
		MUST(cuPointerGetAttribute(&id[i], CU_POINTER_ATTRIBUTE_BUFFER_ID, at[i]));
	}
	CHECK(id[0] != id[1]);
	MUST(cuPointerGetAttributes(3, attribute, data, at[1] + 999));
	CHECK(start == at[1] && length == 1000 && type == CU_MEMORYTYPE_DEVICE);
	MUST(cuMemGetAddressRange_v2(NULL, &size, at[1] + 999));
	CHECK(size == 1000);
	CHECK(cuMemGetAddressRange_v2(&base, &size, at[1] + 1000) == CUDA_ERROR_NOT_FOUND);
	MUST(cuPointerGetAttribute(&types, CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES, at[0]));
	CHECK(types == 0);
	MUST(cuPointerGetAttribute(&capable, CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE,
				   at[0]));
	CHECK(capable);
	MUST(cuIpcGetMemHandle(&ipc, at[0]));
	CHECK(cuMemRetainAllocationHandle(&handle, (void *)at[0]) == CUDA_ERROR_INVALID_VALUE);
	CHECK(cuMemUnmap(at[0] & ~(2 * MIB - 1), 2 * MIB) == CUDA_ERROR_INVALID_VALUE);
	CHECK(cuMemSetAccess(at[0] & ~(2 * MIB - 1), 2 * MIB, &access, 1) ==
	      CUDA_ERROR_INVALID_VALUE);
	CHECK(cuMemFree_v2(at[0] + 256) == CUDA_ERROR_INVALID_VALUE);
	MUST(cuMemFree_v2(at[0]));
	CHECK(cuMemFree_v2(at[0]) == CUDA_ERROR_INVALID_VALUE);
	CHECK(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, at[0]) ==
	      CUDA_ERROR_INVALID_VALUE);
	MUST(cuMemFree_v2(at[1]));
}

/* A capture that begins when all is back, in the mode in which other threads may not do much. */
static void capture_behind(void)
{
	CUdeviceptr at;
	CUstream stream;
	CUgraphExec exec;
	CUgraph graph;

	begin();
	MUST(cuMemAlloc_v2(&at, 64 * MIB));
	MUST(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	await_line();
	MUST(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
	await_line();
	launch_fill(at, 64 * MIB / 4, 3, stream);
	MUST(cuStreamEndCapture(stream, &graph));
	MUST(cuGraphInstantiateWithFlags(&exec, graph, 0));
	MUST(cuGraphLaunch(exec, stream));
	MUST(cuStreamSynchronize(stream));
	check_words(at, 64 * MIB, 3);
}

/* Freed while a stream captures: nothing is waited for, and the capture goes on. */
static void hold_freed_in_capture(void)
{
	CUdeviceptr at, other, pooled;
	CUstream stream;
	CUgraph graph;

	MUST(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	MUST(cuMemAllocAsync(&pooled, 8 * MIB, stream));
	MUST(cuMemAlloc_v2(&at, 8 * MIB));
	MUST(cuMemAlloc_v2(&other, 8 * MIB));
	MUST(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
	launch_fill(other, 100, 1, stream);
	MUST(cuMemFree_v2(at));
	CHECK(cuMemFreeAsync(other, stream) == CUDA_ERROR_INVALID_VALUE); /* no graph's */
	CHECK(cuMemFreeAsync(pooled, stream) == CUDA_ERROR_INVALID_VALUE);
	launch_fill(other, 100, 1, stream);
	MUST(cuMemFree_v2(pooled));
	MUST(cuStreamEndCapture(stream, &graph));
	MUST(cuGraphDestroy(graph));
	MUST(cuMemFree_v2(other));
}

static void *end_soon(void *arg)
{
	nanosleep(&(struct timespec){.tv_sec = 1}, NULL);
	_exit(0);
}

/* As the kernel has a process for a while that ends: it has no memory, and still its locks. */
static void hold_and_end(void)
{
	pthread_t thread;

	CHECK(!pthread_create(&thread, NULL, end_soon, NULL));
	said("ready");
	pthread_exit(NULL);
}

static const struct {
	const char *name;
	void (*hold)(void);
} holds[] = {
	{"array", hold_array},
	{"managed", hold_managed},
	{"pool", hold_pool},
	{"empty pool", hold_empty_pool},
	{"graph", hold_graph},
	{"capture", hold_capture},
	{"work", hold_work},
	{"held launches", hold_launches},
	{"questions", hold_questions},
	{"freed in capture", hold_freed_in_capture},
	{"ending", hold_and_end},
};

#define SPARSE (48 * MIB)
#define GRANULE (2 * MIB)

/* Granules of one word, of content as before and of other content, mixed and in runs of many. */
static void change_sparse(uint32_t *is, uint32_t turn)
{
	for (uint32_t g = 0; g < SPARSE / GRANULE; g++) {
		uint32_t kind = g < 10 ? turn % 2 * 3 : (g * 7 + turn * 5) / 3 % 4;
		uint32_t word = kind ? 0x7fc00000 + g / 4 : 0;

		for (uint32_t i = 0; kind != 2 && i < GRANULE / 4; i++)
			is[g * (GRANULE / 4) + i] = kind == 3 ? (i + turn) * 2654435761u : word;
	}
}

/* At each line it looks at what it holds, which is another content from then on. */
static void sparse(uint32_t turns)
{
	uint32_t *is = calloc(1, SPARSE), *found = malloc(SPARSE);
	CUdeviceptr at;

	CHECK(is && found);
	begin();
	MUST(cuMemAlloc_v2(&at, SPARSE));
	for (uint32_t turn = 0; turn < turns; turn++) {
		change_sparse(is, turn);
		MUST(cuMemcpyHtoD_v2(at, is, SPARSE));
		await_line();
		MUST(cuMemcpyDtoH_v2(found, at, SPARSE));
		CHECK(!memcmp(is, found, SPARSE));
	}
}

/* Nothing but one word, in most of what it holds. */
static void empty(uint32_t word)
{
	uint64_t bytes = 60 * MIB;
	uint32_t *found = malloc(bytes);
	CUdeviceptr at;

	CHECK(found);
	begin();
	MUST(cuMemAlloc_v2(&at, bytes));
	MUST(cuMemsetD32_v2(at, word, bytes / 4));
	MUST(cuMemsetD32_v2(at + 3 * MIB, ~word, 1));
	await_line();
	MUST(cuMemcpyDtoH_v2(found, at, bytes));
	for (uint64_t i = 0; i < bytes / 4; i++)
		CHECK(found[i] == (i == 3 * MIB / 4 ? ~word : word));
}

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "";
	CUdeviceptr at;

	if (!strcmp(what, "churn")) {
		churn(argc > 2 ? strtoull(argv[2], NULL, 0) : 1, false);
	} else if (!strcmp(what, "churn pools") && argc > 2) {
		churn(strtoull(argv[2], NULL, 0), true);
	} else if (!strcmp(what, "pools")) {
		pools();
	} else if (!strcmp(what, "pools full")) {
		pools_full();
	} else if (!strcmp(what, "pools of two")) {
		pools_of_two();
	} else if (!strcmp(what, "compute")) {
		compute(strtoull(argv[2], NULL, 0), (uint32_t)atoi(argv[3]));
	} else if (!strcmp(what, "serve") || !strcmp(what, "serve pooled")) {
		from_pool = strcmp(what, "serve");
		serve(strtoull(argv[2], NULL, 0), (uint32_t)atoi(argv[3]));
	} else if (!strcmp(what, "grab")) {
		grab(strtoull(argv[2], NULL, 0));
	} else if (!strcmp(what, "take") || !strcmp(what, "take array")) {
		take_at_once(strtoull(argv[2], NULL, 0), strcmp(what, "take"));
	} else if (!strcmp(what, "crowd")) {
		crowd(strtoull(argv[2], NULL, 0), (uint32_t)getpid());
	} else if (!strcmp(what, "load")) {
		load_more();
	} else if (!strcmp(what, "spread")) {
		spread(strtoull(argv[2], NULL, 0), (uint32_t)atoi(argv[3]));
	} else if (!strcmp(what, "idle")) {
		idle(false, false);
	} else if (!strcmp(what, "sparse") && argc > 2) {
		sparse((uint32_t)atoi(argv[2]));
	} else if (!strcmp(what, "empty") && argc > 2) {
		empty((uint32_t)strtoul(argv[2], NULL, 0));
	} else if (!strcmp(what, "idle, and lingers")) {
		atexit(linger);
		idle(false, false);
	} else if (!strcmp(what, "idle, large")) {
		idle(false, true);
	} else if (!strcmp(what, "idle pooled")) {
		idle(true, false);
	} else if (!strcmp(what, "devices")) {
		devices();
	} else if (!strcmp(what, "full")) {
		full();
	} else if (!strcmp(what, "lend") && argc > 3) {
		lend(argv[2], (uint32_t)atoi(argv[3]));
	} else if (!strcmp(what, "borrow") && argc > 3) {
		borrow(argv[2], (uint32_t)atoi(argv[3]));
	} else if (!strcmp(what, "relay") && argc > 3) {
		relay(argv[2], argv[3]);
	} else if (!strcmp(what, "lend handle") && argc > 2) {
		lend_handle((uint32_t)atoi(argv[2]));
	} else if (!strcmp(what, "borrow handle") && argc > 2) {
		borrow_handle((uint32_t)atoi(argv[2]));
	} else if (!strcmp(what, "borrow nothing") && argc > 2) {
		borrow_nothing(argv[2]);
	} else if (!strcmp(what, "capture behind")) {
		capture_behind();
	} else if (!strcmp(what, "spare")) {
		spare();
	} else if (!strcmp(what, "keep")) {
		keep_spare();
	} else if (!strcmp(what, "mappings")) {
		mappings();
	} else {
		begin();
		MUST(cuMemAlloc_v2(&at, 4 * MIB));
		for (size_t i = 0; i < sizeof(holds) / sizeof(holds[0]); i++)
			if (!strcmp(what, holds[i].name))
				holds[i].hold();
		await_line();
	}
	said("good");
	return 0;
}
