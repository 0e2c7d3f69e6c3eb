/* SPDX-License-Identifier: Apache-2.0 */
/* Threads that take memory by every family, keep it for a while, and give it back. */
#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "storm.h"

enum family {
	NONE,
	LARGE,	 /* granules of its own */
	SMALL,	 /* shares one */
	PITCH,
	ASYNC,	 /* of the default pool */
	MIXED,	 /* freed in a stream's order */
	OWN_POOL, /* of a pool that is destroyed before, or after */
	ARRAY,
	HANDLE,	 /* mapped, or not, and dropped in either order */
	GRAPH,	 /* allocation nodes, launched now and then */
	CONTEXT,
	SENT,	 /* a handle that another process imports */
	SENT_IPC, /* an address that another process opens */
	RECEIVED,
	RECEIVED_IPC,
	MANAGED,
	FAMILIES,
};

struct block {
	enum family family;
	int device;
	uint64_t bytes;
	CUdeviceptr ptr, second;
	CUmemGenericAllocationHandle handle;
	bool mapped;
	void *object;
	unsigned int ticket;
};

struct worker {
	int process;
	bool sends;
	unsigned int seed;
	CUcontext *contexts;
	CUstream stream[DEVICES];
	struct block block[BLOCKS];
	uint64_t refused;
};

struct letter {
	unsigned int ticket;
	int device;
	uint64_t bytes;
	bool ipc;
	CUipcMemHandle handle;
};

static bool refused(struct worker *w, CUresult e)
{
	w->refused += e != CUDA_SUCCESS;
	return e != CUDA_SUCCESS;
}

/* Out of memory is the only other answer that is in order. */
#define REFUSED(w, call)                                                          \
	({                                                                        \
		CUresult answer_ = CUDA_SUCCESS;                                  \
		GIVES((answer_ = got_, !got_ || got_ == CUDA_ERROR_OUT_OF_MEMORY), call); \
		refused(w, answer_);                                              \
	})

static CUmemLocation location(int device)
{
	return (CUmemLocation){.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device};
}

static bool map_handle(struct worker *w, struct block *b)
{
	CUmemAccessDesc access = {.location = location(b->device),
				  .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};

	OK(cu.cuMemAddressReserve(&b->ptr, b->bytes, 0, 0, 0));
	OK(cu.cuMemMap(b->ptr, b->bytes, 0, b->handle, 0));
	OK(cu.cuMemSetAccess(b->ptr, b->bytes, &access, 1));
	b->mapped = true;
	return true;
}

static void unmap_handle(struct block *b)
{
	OK(cu.cuMemUnmap(b->ptr, b->bytes));
	OK(cu.cuMemAddressFree(b->ptr, b->bytes));
	b->mapped = false;
}

static bool take_handle(struct worker *w, struct block *b)
{
	CUmemAllocationProp prop = {
		.type = CU_MEM_ALLOCATION_TYPE_PINNED,
		.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
		.location = location(b->device)};

	b->bytes = (b->bytes + 2 * MIB - 1) / (2 * MIB) * (2 * MIB);
	if (REFUSED(w, cu.cuMemCreate(&b->handle, b->bytes, &prop, 0)))
		return false;
	if (pick(&w->seed, 3))
		map_handle(w, b);
	if (b->mapped && b->family == HANDLE && pick(&w->seed, 2)) {
		OK(cu.cuMemRelease(b->handle)); /* the mapping keeps it */
		b->handle = 0;
	}
	return true;
}

static void give_handle(struct block *b)
{
	if (b->mapped)
		unmap_handle(b);
	if (b->handle)
		OK(cu.cuMemRelease(b->handle));
}

static bool post(struct worker *w, const struct letter *letter, int fd)
{
	char room[CMSG_SPACE(sizeof(int))] = {0};
	struct iovec iov = {(void *)(uintptr_t)letter, sizeof(*letter)};
	struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};
	struct cmsghdr *c;
	unsigned int n = (unsigned int)storm->options.processes;
	unsigned int to = ((unsigned int)w->process + 1 + pick(&w->seed, n - 1)) % n;

	if (fd >= 0) {
		msg.msg_control = room;
		msg.msg_controllen = sizeof(room);
		c = CMSG_FIRSTHDR(&msg);
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(sizeof(int));
		memcpy(CMSG_DATA(c), &fd, sizeof(fd));
	}
	if (storm->options.resets && to == 1)
		return false; /* reads no letters */
	return sendmsg(storm->mailbox[to][1], &msg, MSG_DONTWAIT | MSG_NOSIGNAL) > 0;
}

static bool fetch(struct worker *w, struct letter *letter, int *ret_fd)
{
	char room[CMSG_SPACE(sizeof(int))];
	struct iovec iov = {letter, sizeof(*letter)};
	struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1, .msg_control = room,
			     .msg_controllen = sizeof(room)};
	struct cmsghdr *c;

	*ret_fd = -1;
	if (recvmsg(storm->mailbox[w->process][0], &msg, MSG_DONTWAIT | MSG_CMSG_CLOEXEC) <= 0)
		return false;
	c = CMSG_FIRSTHDR(&msg);
	if (c)
		memcpy(ret_fd, CMSG_DATA(c), sizeof(*ret_fd));
	return true;
}

/* Memory on its way is nobody's: its sender keeps it until it arrived. */
static bool send_handle(struct worker *w, struct block *b)
{
	struct letter letter = {.device = b->device};
	int fd;

	if (!take_handle(w, b))
		return false;
	OK(cu.cuMemExportToShareableHandle(&fd, b->handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
					   0));
	b->ticket = letter.ticket = 1 + atomic_fetch_add(&storm->next_ticket, 1) % (TICKETS - 1);
	letter.bytes = b->bytes;
	atomic_store(&storm->arrived[b->ticket], false);
	if (!post(w, &letter, fd))
		atomic_store(&storm->arrived[b->ticket], true);
	close(fd);
	return true;
}

static bool send_ipc(struct worker *w, struct block *b)
{
	struct letter letter = {.device = b->device, .ipc = true};

	b->bytes = b->bytes < 2 * MIB ? 2 * MIB : b->bytes;
	if (REFUSED(w, cu.cuMemAlloc_v2(&b->ptr, b->bytes)))
		return false;
	OK(cu.cuIpcGetMemHandle(&letter.handle, b->ptr));
	b->ticket = letter.ticket = 1 + atomic_fetch_add(&storm->next_ticket, 1) % (TICKETS - 1);
	letter.bytes = b->bytes;
	atomic_store(&storm->arrived[b->ticket], false);
	if (!post(w, &letter, -1))
		atomic_store(&storm->arrived[b->ticket], true);
	return true;
}

/* Whoever sent it may be gone. */
static bool receive(struct worker *w, struct block *b)
{
	struct letter letter;
	CUresult e;
	int fd;

	if (!fetch(w, &letter, &fd))
		return false;
	b->device = letter.device;
	b->bytes = letter.bytes;
	OK(cu.cuCtxSetCurrent(w->contexts[b->device]));
	if (letter.ipc) {
		b->family = RECEIVED_IPC;
		e = cu.cuIpcOpenMemHandle_v2(&b->ptr, letter.handle,
					     CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS);
	} else {
		b->family = RECEIVED;
		e = cu.cuMemImportFromShareableHandle(&b->handle, (void *)(intptr_t)fd,
						      CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
		close(fd);
	}
	atomic_store(&storm->arrived[letter.ticket], true);
	if (e)
		return false;
	if (b->family == RECEIVED && pick(&w->seed, 2)) {
		map_handle(w, b);
		if (pick(&w->seed, 2)) {
			OK(cu.cuMemRelease(b->handle));
			b->handle = 0;
		}
	}
	return true;
}

static CUgraph new_graph(struct worker *w, const struct block *b)
{
	CUgraph graph;

	OK(cu.cuGraphCreate(&graph, 0));
	for (unsigned int n = 1 + pick(&w->seed, 3); n; n--) {
		int device = pick(&w->seed, 3) ? b->device : !b->device;
		CUDA_MEM_ALLOC_NODE_PARAMS params = {
			.poolProps = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
				      .location = location(storm->options.devices > 1 ? device : 0)},
			.bytesize = b->bytes / n};
		CUgraphNode node, end;

		OK(cu.cuGraphAddMemAllocNode(&node, graph, NULL, 0, &params));
		OK(cu.cuGraphAddMemFreeNode(&end, graph, &node, 1, params.dptr));
	}
	return graph;
}

static bool take_graph(struct worker *w, struct block *b)
{
	unsigned long long flags = 0;
	CUgraph graph = new_graph(w, b);
	CUgraphExec exec = NULL;
	bool no = REFUSED(w, cu.cuGraphInstantiateWithFlags(&exec, graph, flags)) ||
		  REFUSED(w, cu.cuGraphLaunch(exec, w->stream[b->device]));

	OK(cu.cuStreamSynchronize(w->stream[b->device]));
	OK(cu.cuGraphDestroy(graph));
	if (no && exec)
		OK(cu.cuGraphExecDestroy(exec));
	b->object = exec;
	return !no;
}

static bool take_from_own_pool(struct worker *w, struct block *b)
{
	CUmemPoolProps props = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
				.location = location(b->device)};
	CUstream stream = w->stream[b->device];
	cuuint64_t keep = pick(&w->seed, 2) ? UINT64_MAX : 0;
	CUmemoryPool pool;
	bool no;

	OK(cu.cuMemPoolCreate(&pool, &props));
	OK(cu.cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &keep));
	no = REFUSED(w, cu.cuMemAllocFromPoolAsync(&b->ptr, b->bytes, pool, stream));
	if (!no && REFUSED(w, cu.cuMemAllocFromPoolAsync(&b->second, b->bytes / 3 + 1, pool,
							 stream)))
		b->second = 0;
	if (no || pick(&w->seed, 2))
		OK(cu.cuMemPoolDestroy(pool));
	else
		b->object = pool;
	return !no;
}

static void give_own_pool(struct worker *w, struct block *b)
{
	CUstream stream = w->stream[b->device];

	OK(cu.cuMemFreeAsync(b->ptr, stream));
	if (b->second && pick(&w->seed, 2) && b->object) {
		OK(cu.cuMemPoolDestroy(b->object));
		b->object = NULL;
	}
	if (b->second)
		OK(pick(&w->seed, 2) ? cu.cuMemFreeAsync(b->second, stream)
				     : cu.cuMemFree_v2(b->second));
	if (b->object)
		OK(cu.cuMemPoolDestroy(b->object));
}

static bool take_array(struct worker *w, struct block *b)
{
	CUDA_ARRAY_DESCRIPTOR desc = {.Width = 1024, .Height = 1 + b->bytes / 4096,
				      .Format = CU_AD_FORMAT_FLOAT, .NumChannels = 1};
	CUarray array;

	if (desc.Height > 16384)
		desc.Height = 16384;
	if (REFUSED(w, cu.cuArrayCreate_v2(&array, &desc)))
		return false;
	b->object = array;
	return true;
}

static bool take_context(struct worker *w, struct block *b)
{
	CUcontext context;

	if (REFUSED(w, cu.cuCtxCreate_v2(&context, 0, b->device)))
		return false;
	OK(cu.cuCtxPopCurrent_v2(&context));
	b->object = context;
	return true;
}

static bool take(struct worker *w, struct block *b)
{
	size_t pitch;

	switch (b->family) {
	case SMALL:
		return !REFUSED(w, cu.cuMemAlloc_v2(&b->ptr, 512 + pick(&w->seed, 1 << 19)));
	case PITCH:
		return !REFUSED(w, cu.cuMemAllocPitch_v2(&b->ptr, &pitch, 5000, 1 + b->bytes / 5120,
							 4));
	case MANAGED:
		return !REFUSED(w, cu.cuMemAllocManaged(&b->ptr, b->bytes, CU_MEM_ATTACH_GLOBAL));
	case ASYNC:
		return !REFUSED(w, cu.cuMemAllocAsync(&b->ptr, b->bytes, w->stream[b->device]));
	case OWN_POOL:
		return take_from_own_pool(w, b);
	case ARRAY:
		return take_array(w, b);
	case HANDLE:
		return take_handle(w, b);
	case GRAPH:
		return take_graph(w, b);
	case CONTEXT:
		return take_context(w, b);
	case SENT:
		return send_handle(w, b);
	case SENT_IPC:
		return send_ipc(w, b);
	case RECEIVED:
		return receive(w, b);
	default:
		return !REFUSED(w, cu.cuMemAlloc_v2(&b->ptr, b->bytes));
	}
}

static void give(struct worker *w, struct block *b)
{
	switch (b->family) {
	case ASYNC:
	case MIXED:
		OK(cu.cuMemFreeAsync(b->ptr, w->stream[b->device]));
		if (pick(&w->seed, 2))
			OK(cu.cuStreamSynchronize(w->stream[b->device]));
		break;
	case OWN_POOL:
		give_own_pool(w, b);
		break;
	case ARRAY:
		OK(cu.cuArrayDestroy(b->object));
		break;
	case HANDLE:
	case SENT:
	case RECEIVED:
		give_handle(b);
		break;
	case GRAPH:
		OK(cu.cuGraphExecDestroy(b->object));
		if (pick(&w->seed, 4) == 0)
			OK(cu.cuDeviceGraphMemTrim(b->device));
		break;
	case CONTEXT:
		OK(cu.cuCtxDestroy_v2(b->object));
		break;
	case RECEIVED_IPC:
		OK(cu.cuIpcCloseMemHandle(b->ptr));
		break;
	default:
		OK(cu.cuMemFree_v2(b->ptr));
		break;
	}
}

static bool is_free_to_go(const struct block *b)
{
	return !b->ticket || atomic_load(&storm->arrived[b->ticket]);
}

static void drop(struct worker *w, struct block *b)
{
	OK(cu.cuCtxSetCurrent(w->contexts[b->device]));
	give(w, b);
	memset(b, 0, sizeof(*b));
}

static const char *const names[FAMILIES] = {
	[LARGE] = "large", [SMALL] = "small", [PITCH] = "pitch", [ASYNC] = "async",
	[MIXED] = "mixed", [OWN_POOL] = "pool", [ARRAY] = "array", [HANDLE] = "handle",
	[GRAPH] = "graph", [CONTEXT] = "context", [SENT] = "sent", [SENT_IPC] = "sent-ipc",
	[RECEIVED] = "received", [MANAGED] = "managed",
};

bool storm_family(const char *name, unsigned int *families)
{
	for (int f = 0; f < FAMILIES; f++)
		if (names[f] && !strcmp(names[f], name)) {
			*families |= 1u << f;
			return true;
		}
	return false;
}

static enum family pick_family(struct worker *w)
{
	unsigned int only = storm->options.families;
	enum family f;

	do {
		f = (enum family)(1 + pick(&w->seed, FAMILIES - 1));
	} while (only && !(only >> f & 1));

	if (f == RECEIVED_IPC)
		f = RECEIVED;
	if (f == MANAGED && !storm->options.managed)
		f = LARGE;
	if ((f == SENT || f == SENT_IPC) && !w->sends)
		f = HANDLE;
	return f;
}

static void step(struct worker *w)
{
	struct block *b = &w->block[pick(&w->seed, BLOCKS)];
	uint64_t most = (uint64_t)storm->options.most_mib * MIB;

	if (b->family == GRAPH && pick(&w->seed, 3)) {
		OK(cu.cuCtxSetCurrent(w->contexts[b->device]));
		REFUSED(w, cu.cuGraphLaunch(b->object, w->stream[b->device]));
		return;
	}
	if (b->family) {
		if (is_free_to_go(b))
			drop(w, b);
		return;
	}
	b->family = pick_family(w);
	b->device = (int)pick(&w->seed, (unsigned int)storm->options.devices);
	b->bytes = 1 + (uint64_t)pick(&w->seed, 1 << 30) % (most >> pick(&w->seed, 6));
	OK(cu.cuCtxSetCurrent(w->contexts[b->device]));
	if (!take(w, b))
		memset(b, 0, sizeof(*b));
}

static void *run(void *arg)
{
	struct worker *w = arg;

	for (int d = 0; d < storm->options.devices; d++) {
		OK(cu.cuCtxSetCurrent(w->contexts[d]));
		while (REFUSED(w, cu.cuStreamCreate(&w->stream[d], CU_STREAM_NON_BLOCKING)))
			;
	}
	for (int i = 0; i < storm->options.steps; i++)
		step(w);
	return NULL;
}

static void *clear(void *arg)
{
	struct worker *w = arg;

	for (int i = 0; i < BLOCKS; i++)
		if (w->block[i].family)
			drop(w, &w->block[i]);
	for (int d = 0; d < storm->options.devices; d++) {
		OK(cu.cuCtxSetCurrent(w->contexts[d]));
		OK(cu.cuStreamSynchronize(w->stream[d]));
		OK(cu.cuStreamDestroy_v2(w->stream[d]));
	}
	return NULL;
}

static void each_worker(struct worker *w, void *(*fn)(void *arg))
{
	pthread_t thread[64];
	int n = storm->options.threads < 64 ? storm->options.threads : 64;

	for (int i = 0; i < n; i++)
		if (pthread_create(&thread[i], NULL, fn, &w[i]))
			_exit(1);
	for (int i = 0; i < n; i++)
		pthread_join(thread[i], NULL);
}

/* Letters that nobody opens: their senders would wait. */
static void drain(int index)
{
	struct worker w = {.process = index};
	struct letter letter;
	int fd;

	while (fetch(&w, &letter, &fd)) {
		if (fd >= 0)
			close(fd);
		atomic_store(&storm->arrived[letter.ticket], true);
	}
}

/* What the driver takes by itself is looked at again after a few milliseconds. */
static void leave(CUcontext contexts[DEVICES])
{
	usleep(20000);
	for (int d = 0; d < storm->options.devices; d++) {
		CUmemoryPool pool;
		size_t free, total;

		OK(cu.cuCtxSetCurrent(contexts[d]));
		OK(cu.cuCtxSynchronize());
		OK(cu.cuDeviceGetDefaultMemPool(&pool, d));
		OK(cu.cuMemPoolTrimTo(pool, 0));
		OK(cu.cuDeviceGraphMemTrim(d));
		OK(cu.cuMemGetInfo_v2(&free, &total));
	}
}

int storm_process(int index, int life)
{
	struct worker *w = calloc((size_t)storm->options.threads, sizeof(*w));
	CUcontext contexts[DEVICES];
	bool begun = storm_begin_contexts(contexts, life);

	for (int i = 0; i < storm->options.threads; i++) {
		w[i].process = index;
		w[i].seed = storm->options.seed * 7919u + (unsigned int)(index * 64 + i) +
			    (unsigned int)life * 104729u;
		w[i].contexts = contexts;
		/* What one that is killed has sent is nobody's until it arrives. */
		w[i].sends = storm->options.share && storm->options.processes > 1 &&
			     !(storm->options.kills && index == storm->options.processes - 1);
	}
	if (begun)
		each_worker(w, run);
	storm_await(&storm->calm);
	storm_arrive(&storm->taken_down);
	drain(index);
	if (begun) {
		each_worker(w, clear);
		leave(contexts);
	}
	free(w);
	storm_arrive(&storm->settled);
	storm_await(&storm->go);
	return 0;
}
