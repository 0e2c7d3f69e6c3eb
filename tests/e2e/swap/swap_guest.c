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

static void begin(void)
{
	CUmodule module;

	MUST(cuInit(0));
	MUST(cuDevicePrimaryCtxRetain(&context, 0));
	MUST(cuCtxSetCurrent(context));
	MUST(cuModuleLoadData(&module, "allot-sim-module\n"));
	MUST(cuModuleGetFunction(&fill, module, "sim_fill"));
	MUST(cuModuleGetFunction(&check, module, "sim_check"));
	MUST(cuModuleGetFunction(&spin, module, "sim_spin"));
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
	uint32_t seed;
};

struct worker {
	pthread_t thread;
	uint64_t random;
	uint64_t steps;
	CUstream stream;
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
	switch (pick(w, 8)) {
	case 0:
		return 4 * (1 + pick(w, 5 * MIB));
	case 1:
	case 2:
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

static void take(struct worker *w, struct held *h)
{
	uint64_t bytes = pick_bytes(w), way = pick(w, 6);
	size_t pitch;

	h->mapped = 0;
	if (way > 1) {
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

static void give(struct worker *w, struct held *h)
{
	if (h->mapped) {
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
	MUST(cuMemFree_v2(w->bad));
	MUST(cuMemFree_v2(w->graphed));
	return NULL;
}

static void churn(uint64_t seed)
{
	static struct worker worker[THREADS];
	uint64_t steps = 0;

	begin();
	for (int i = 0; i < THREADS; i++) {
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

static void idle(void)
{
	static const uint64_t bytes[IDLE] = {100 * 4, 70000 * 4, 3 * MIB, 64 * MIB, 130 * MIB};
	CUdeviceptr at[IDLE], bad;
	uint32_t count = 1;

	begin();
	MUST(cuMemAlloc_v2(&bad, 4));
	MUST(cuMemsetD32_v2(bad, 0, 1));
	for (int i = 0; i < IDLE; i++) {
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
	CUdeviceptr bad;
	uint32_t count = 1;

	MUST(cuMemAlloc_v2(&bad, 4));
	MUST(cuMemsetD32_v2(bad, 0, 1));
	launch_check(at, bytes / 4, seed, bad, NULL);
	MUST(cuMemcpyDtoH_v2(&count, bad, 4));
	CHECK(count == 0);
	MUST(cuMemFree_v2(bad));
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

/* --- What processes share --------------------------------------------------------------------- */

#define LENT 3

static const uint64_t lent_bytes[LENT] = {3 * MIB, 100 * 4, 70000 * 4};

/* Two of them share a granule. Whoever reads the file finds all of it. */
static void lend(const char *path, uint32_t seed)
{
	CUipcMemHandle handle[LENT], again;
	CUdeviceptr at[LENT], opened;
	char part[512];
	FILE *file;

	begin();
	for (uint32_t i = 0; i < LENT; i++) {
		MUST(cuMemAlloc_v2(&at[i], lent_bytes[i]));
		launch_fill(at[i], lent_bytes[i] / 4, i, NULL);
		MUST(cuIpcGetMemHandle(&handle[i], at[i] + 16));
	}
	MUST(cuCtxSynchronize());
	if (getenv("SWAP_GUEST_FORKS") && !fork()) {
		sleep(6); /* with whatever descriptors it has from us */
		_exit(0);
	}
	MUST(cuIpcGetMemHandle(&again, at[0]));
	CHECK(!memcmp(&again, &handle[0], sizeof(again)));
	CHECK(cuIpcOpenMemHandle_v2(&opened, again, 1) == CUDA_ERROR_INVALID_CONTEXT);
	snprintf(part, sizeof(part), "%s.part", path);
	file = fopen(part, "w");
	CHECK(file && fwrite(handle, sizeof(handle), 1, file) == 1 && !fclose(file));
	CHECK(!rename(part, path));
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

/* By descriptor, as expandable segments and NCCL do; it may be kept open for as long as one likes. */
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

		MUST(cuMemAlloc_v2(&p->at[i], bytes));
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
	pthread_t thread;

	begin();
	hold_pieces(&pieces, mib, seed);
	pthread_create(&thread, NULL, await_end, NULL);
	for (; !atomic_load(&over); rounds++)
		look_at_pieces(&pieces);
	pthread_join(thread, NULL);
	look_at_pieces(&pieces);
	fprintf(stderr, "%lu rounds\n", rounds);
}

/* Computes once for each line; with a number in it, it takes so many MiB more first. */
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
		CUresult e = more ? cuMemAlloc_v2(&at, more * MIB) : CUDA_SUCCESS;

		if (line[0] == 'q')
			break;
		CHECK(!e || e == CUDA_ERROR_OUT_OF_MEMORY);
		look_at_pieces(&pieces);
		if (more && !e)
			MUST(cuMemFree_v2(at));
		said(e ? "refused" : "served");
	}
	look_at_pieces(&pieces);
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

static void hold_pool(void)
{
	CUdeviceptr at;

	MUST(cuMemAllocAsync(&at, 4 * MIB, NULL));
	MUST(cuStreamSynchronize(NULL));
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

/* Freed while a stream captures: nothing is waited for, and the capture goes on. */
static void hold_freed_in_capture(void)
{
	CUdeviceptr at, other;
	CUstream stream;
	CUgraph graph;

	MUST(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	MUST(cuMemAlloc_v2(&at, 8 * MIB));
	MUST(cuMemAlloc_v2(&other, 8 * MIB));
	MUST(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
	launch_fill(other, 100, 1, stream);
	MUST(cuMemFree_v2(at));
	launch_fill(other, 100, 1, stream);
	MUST(cuStreamEndCapture(stream, &graph));
	MUST(cuGraphDestroy(graph));
	MUST(cuMemFree_v2(other));
}

static const struct {
	const char *name;
	void (*hold)(void);
} holds[] = {
	{"array", hold_array},
	{"managed", hold_managed},
	{"pool", hold_pool},
	{"empty pool", hold_empty_pool},
	{"capture", hold_capture},
	{"work", hold_work},
	{"questions", hold_questions},
	{"freed in capture", hold_freed_in_capture},
};

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "";
	CUdeviceptr at;

	if (!strcmp(what, "churn")) {
		churn(argc > 2 ? strtoull(argv[2], NULL, 0) : 1);
	} else if (!strcmp(what, "compute")) {
		compute(strtoull(argv[2], NULL, 0), (uint32_t)atoi(argv[3]));
	} else if (!strcmp(what, "serve")) {
		serve(strtoull(argv[2], NULL, 0), (uint32_t)atoi(argv[3]));
	} else if (!strcmp(what, "idle")) {
		idle();
	} else if (!strcmp(what, "devices")) {
		devices();
	} else if (!strcmp(what, "full")) {
		full();
	} else if (!strcmp(what, "lend") && argc > 3) {
		lend(argv[2], (uint32_t)atoi(argv[3]));
	} else if (!strcmp(what, "borrow") && argc > 3) {
		borrow(argv[2], (uint32_t)atoi(argv[3]));
	} else if (!strcmp(what, "lend handle") && argc > 2) {
		lend_handle((uint32_t)atoi(argv[2]));
	} else if (!strcmp(what, "borrow handle") && argc > 2) {
		borrow_handle((uint32_t)atoi(argv[2]));
	} else if (!strcmp(what, "borrow nothing") && argc > 2) {
		borrow_nothing(argv[2]);
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
