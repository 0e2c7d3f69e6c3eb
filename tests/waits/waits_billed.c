/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Waits during which the device has nothing to do for the program, so nothing to be billed. Most
 * wait 4 times for 40 ms, with a kernel behind each wait.
 *
 *	graphnap      in a graph's host node, between two kernels
 *	graphends     the same, and the executable is destroyed while it runs, or updated
 *	graphevent    in a graph, for an event of another stream, which waits
 *	graphupdate   the same, and the executable gets another event, and is updated
 *	graphowned    briefly, in a graph with memory of its own, which is updated
 *	legacy        the legacy stream, for a stream that waits
 *	legacy2       a stream, for the legacy stream, which waits
 *	otherctx      in a stream, put there while another context is current
 *	many          in one of 80 streams each, which were used once
 *	coldwait      in a host function, before the process's first kernel; then one more kernel
 *	coldstream    in a new stream each
 *	coldfunction  before a new function each
 *	coldboth      in a new stream, before a new function
 *	batch         by cuStreamBatchMemOp
 *	semaphore     for an external semaphore, as another API's
 *	ptds          in the thread's own default stream
 *	copywait      before a copy to pageable memory
 *	setwait       before a memset and a copy on the device
 *	pool          of an allocation in stream order, for memory that another stream gives back
 *	coop          before a cooperative launch
 */
#include "tests/waits/waits.h"

#include <err.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/word.h"

#define MANY	     80 /* more streams than a meter keeps when they are idle */
#define COLD_NAP_MS  100
#define BYTES	     (1u << 20)
#define COPIED_BYTES 4096

static void begin_warm(void)
{
	guest_begin(0);
	guest_warm();
}

static void CUDA_CB nap(void *arg)
{
	guest_nap((uintptr_t)arg * 1000);
}

/* Begins to capture, too. */
static void capture_nap(void)
{
	MUST(cuStreamBeginCapture_v2(guest.c, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
	guest_spin(guest.c, 2 * BRIEF_US);
	MUST(cuLaunchHostFunc(guest.c, nap, (void *)ROUND_MS));
	guest_spin(guest.c, 2 * BRIEF_US);
}

void billed_graph_nap(char **args)
{
	CUgraphExec exec;

	begin_warm();
	capture_nap();
	exec = guest_instantiate();
	guest_go();
	for (int i = 0; i < ROUNDS; i++) {
		MUST(cuGraphLaunch(exec, guest.a));
		guest_sync(guest.a);
	}
	guest_done(NULL);
}

static CUgraphNode host_node_of(CUgraph graph)
{
	CUgraphNode node[3];
	CUgraphNodeType type;
	size_t n = 3;

	MUST(cuGraphGetNodes(graph, node, &n));
	for (size_t i = 0; i < n; i++) {
		MUST(cuGraphNodeGetType(node[i], &type));
		if (type == CU_GRAPH_NODE_TYPE_HOST)
			return node[i];
	}
	errx(1, "the graph has no host node");
	return NULL;
}

void billed_graph_ends(char **args)
{
	CUDA_HOST_NODE_PARAMS brief = {nap, NULL}, got;
	CUgraphExecUpdateResultInfo info;
	CUgraphExec exec;
	CUgraphNode host;
	CUgraph graph;

	begin_warm();
	capture_nap();
	MUST(cuStreamEndCapture(guest.c, &graph));
	host = host_node_of(graph);
	guest_go();
	for (int i = 0; i < ROUNDS; i++) {
		MUST(cuGraphInstantiateWithFlags(&exec, graph, 0));
		MUST(cuGraphHostNodeGetParams(host, &got));
		if (got.fn != nap || got.userData != (void *)ROUND_MS)
			errx(1, "the host node has another function than it was given");
		MUST(cuGraphLaunch(exec, guest.a));
		MUST(cuGraphExecDestroy(exec));
		guest_sync(guest.a);
	}
	MUST(cuGraphInstantiateWithFlags(&exec, graph, 0));
	MUST(cuGraphExecHostNodeSetParams(exec, host, &brief));
	MUST(cuGraphLaunch(exec, guest.a));
	guest_sync(guest.a);
	MUST(cuGraphHostNodeSetParams(host, &brief));
	MUST(cuGraphExecUpdate_v2(exec, graph, &info));
	MUST(cuGraphLaunch(exec, guest.a));
	MUST(cuGraphExecDestroy(exec));
	guest_sync(guest.a);
	guest_done(NULL);
}

/* A kernel, a wait for what is recorded outside of the graph, a kernel. */
static CUgraph graph_of_wait(CUevent event)
{
	CUgraph graph;

	MUST(cuStreamBeginCapture_v2(guest.c, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
	guest_spin(guest.c, BRIEF_US);
	MUST(cuStreamWaitEvent(guest.c, event, EVENT_WAIT_EXTERNAL));
	guest_spin(guest.c, BRIEF_US);
	MUST(cuStreamEndCapture(guest.c, &graph));
	return graph;
}

static void launch_behind_event(CUgraphExec exec, CUevent event, uint64_t round)
{
	guest_await(guest.b, round);
	MUST(cuEventRecord(event, guest.b));
	MUST(cuGraphLaunch(exec, guest.a));
	guest_open_later();
	guest_sync(guest.a);
}

void billed_graph_event(char **args)
{
	CUevent event;
	CUgraphExec exec;

	begin_warm();
	event = guest_event();
	MUST(cuGraphInstantiateWithFlags(&exec, graph_of_wait(event), 0));
	guest_go();
	for (uint64_t i = 1; i <= ROUNDS; i++)
		launch_behind_event(exec, event, i);
	guest_done(NULL);
}

/* Captured graphs of one stream are chains, in the order in which their nodes were made. */
static void must_be_chain(CUgraph graph, const CUgraphNode *of, size_t n)
{
	CUgraphNode node[8], from[8], to[8];
	size_t nodes = 8, edges = 8;

	MUST(cuGraphGetNodes(graph, node, &nodes));
	MUST(cuGraphGetEdges(graph, from, to, &edges));
	if (nodes != n || edges != n - 1 || memcmp(node, of, n * sizeof(*of)) != 0)
		errx(1, "the graph has %zu nodes and %zu edges, not the %zu nodes of a chain that "
		     "it had", nodes, edges, n);
}

/* Instantiated anew, given another event, and brought up to date with another graph. */
void billed_graph_update(char **args)
{
	CUgraphExecUpdateResultInfo info;
	CUevent event, other;
	CUgraphExec exec;
	CUgraphNode node[3];
	CUgraph graph;
	size_t n = 3;

	begin_warm();
	event = guest_event();
	other = guest_event();
	graph = graph_of_wait(event);
	MUST(cuGraphGetNodes(graph, node, &n));
	MUST(cuGraphInstantiateWithFlags(&exec, graph, 0));
	must_be_chain(graph, node, n);
	guest_go();
	launch_behind_event(exec, event, 1);
	MUST(cuGraphExecEventWaitNodeSetEvent(exec, node[1], other));
	launch_behind_event(exec, other, 2);
	MUST(cuGraphExecUpdate_v2(exec, graph, &info));
	must_be_chain(graph, node, n);
	launch_behind_event(exec, event, 3);
	graph = graph_of_wait(other);
	MUST(cuGraphExecUpdate_v2(exec, graph, &info));
	MUST(cuGraphDestroy(graph));
	launch_behind_event(exec, other, 4);
	MUST(cuGraphExecDestroy(exec));
	guest_done(NULL);
}

/* A graph that owns memory and has a host function, twice brought up to date with itself. */
void billed_graph_owned(char **args)
{
	CUgraphExecUpdateResultInfo info;
	CUgraphExec exec;
	CUdeviceptr at;
	CUgraph graph;

	begin_warm();
	MUST(cuStreamBeginCapture_v2(guest.c, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
	MUST(cuMemAllocAsync(&at, 1 << 20, guest.c));
	guest_spin(guest.c, BRIEF_US);
	MUST(cuLaunchHostFunc(guest.c, nap, NULL));
	MUST(cuMemFreeAsync(at, guest.c));
	MUST(cuStreamEndCapture(guest.c, &graph));
	MUST(cuGraphInstantiateWithFlags(&exec, graph, 0));
	guest_go();
	for (int i = 0; i < ROUNDS; i++) {
		MUST(cuGraphLaunch(exec, guest.a));
		guest_sync(guest.a);
		MUST(cuGraphExecUpdate_v2(exec, graph, &info));
	}
	MUST(cuGraphExecDestroy(exec));
	guest_done(NULL);
}

/* A stream that waits for the legacy stream. Both are warm. */
static CUstream blocking_stream(void)
{
	CUstream stream;

	MUST(cuStreamCreate(&stream, CU_STREAM_DEFAULT));
	guest_spin(stream, BRIEF_US);
	guest_spin(NULL, BRIEF_US);
	guest_sync_all();
	return stream;
}

void billed_legacy(char **args)
{
	CUstream stream;

	begin_warm();
	stream = blocking_stream();
	guest_go();
	for (uint64_t i = 1; i <= ROUNDS; i++) {
		guest_spin(NULL, BRIEF_US);
		guest_await(stream, i);
		guest_spin(stream, BRIEF_US);
		guest_open_later();
		guest_spin(NULL, BRIEF_US);
		guest_sync_all();
	}
	guest_done(NULL);
}

void billed_behind_legacy(char **args)
{
	CUstream stream;

	begin_warm();
	stream = blocking_stream();
	guest_go();
	for (uint64_t i = 1; i <= ROUNDS; i++) {
		guest_spin(stream, BRIEF_US);
		guest_await(NULL, i);
		guest_open_later();
		guest_spin(stream, BRIEF_US);
		guest_sync_all();
	}
	guest_done(NULL);
}

void billed_other_context(char **args)
{
	CUcontext other;

	begin_warm();
	MUST(cuCtxCreate_v4(&other, NULL, 0, 0));
	MUST(cuCtxSetCurrent(guest.context));
	guest_go();
	for (uint64_t i = 1; i <= ROUNDS; i++) {
		guest_spin(guest.a, BRIEF_US);
		MUST(cuCtxSetCurrent(other));
		guest_await(guest.a, i);
		MUST(cuCtxSetCurrent(guest.context));
		guest_open_later();
		guest_spin(guest.a, BRIEF_US);
		guest_sync(guest.a);
	}
	guest_done(NULL);
}

/* One round: the stream waits, and has a kernel behind that. */
static void wait_once(CUstream stream, CUfunction function, uint64_t i)
{
	guest_await(stream, i);
	guest_open_later();
	guest_launch(function, stream, BRIEF_US);
	guest_sync(stream);
}

void billed_many(char **args)
{
	CUstream stream[MANY];

	begin_warm();
	for (int i = 0; i < MANY; i++)
		stream[i] = guest_stream();
	for (int i = 0; i < MANY; i++)
		guest_spin(stream[i], BRIEF_US);
	guest_sync_all();
	guest_go();
	for (uint64_t i = 1; i <= ROUNDS; i++)
		wait_once(stream[i - 1], guest.spin, i);
	guest_done(NULL);
}

void billed_cold_wait(char **args)
{
	double from_ms;

	guest_begin(0);
	guest_go();
	MUST(cuLaunchHostFunc(guest.a, nap, (void *)COLD_NAP_MS));
	for (int i = 0; i < 3; i++)
		guest_spin(guest.a, BRIEF_US);
	guest_sync(guest.a);
	from_ms = guest_now_ms();
	guest_spin(guest.a, BRIEF_US);
	guest_sync(guest.a);
	guest_done("\"next_ms\": %.3f", guest_now_ms() - from_ms);
}

void billed_cold_stream(char **args)
{
	begin_warm();
	guest_go();
	for (uint64_t i = 1; i <= ROUNDS; i++) {
		CUstream stream = guest_stream();

		wait_once(stream, guest.spin, i);
		MUST(cuStreamDestroy_v2(stream));
	}
	guest_done(NULL);
}

void billed_cold_function(char **args)
{
	begin_warm();
	guest_go();
	for (uint64_t i = 1; i <= ROUNDS; i++)
		wait_once(guest.a, guest_function("sim_spin"), i);
	guest_done(NULL);
}

void billed_cold_both(char **args)
{
	begin_warm();
	guest_go();
	for (uint64_t i = 1; i <= ROUNDS; i++)
		wait_once(guest_stream(), guest_function("sim_spin"), i);
	guest_done(NULL);
}

void billed_batch(char **args)
{
	CUstreamBatchMemOpParams wait = {0};

	begin_warm();
	wait.waitValue.operation = CU_STREAM_MEM_OP_WAIT_VALUE_64;
	wait.waitValue.flags = CU_STREAM_WAIT_VALUE_GEQ;
	wait.waitValue.address = guest.word_at + WORD_GATE * sizeof(*guest.word);
	guest_go();
	for (uint64_t i = 1; i <= ROUNDS; i++) {
		guest_spin(guest.a, BRIEF_US);
		wait.waitValue.value64 = i;
		MUST(cuStreamBatchMemOp_v2(guest.a, 1, &wait, 0));
		guest_open_later();
		guest_spin(guest.a, BRIEF_US);
		guest_sync(guest.a);
	}
	guest_done(NULL);
}

/* A semaphore that counts up, and its count, as who else has its file sees it. */
static CUexternalSemaphore make_semaphore(uint64_t **ret_count)
{
	CUDA_EXTERNAL_SEMAPHORE_HANDLE_DESC desc = {
		.type = CU_EXTERNAL_SEMAPHORE_HANDLE_TYPE_TIMELINE_SEMAPHORE_FD,
		.handle.fd = memfd_create("semaphore", MFD_CLOEXEC),
	};
	CUexternalSemaphore semaphore;

	if (ftruncate(desc.handle.fd, sizeof(uint64_t)))
		abort();
	*ret_count = mmap(NULL, sizeof(uint64_t), PROT_READ | PROT_WRITE, MAP_SHARED,
			  desc.handle.fd, 0);
	if (*ret_count == MAP_FAILED)
		abort();
	MUST(cuImportExternalSemaphore(&semaphore, &desc));
	return semaphore;
}

static void *count_later(void *count)
{
	guest_nap(ROUND_MS * 1000);
	word_publish_add((uint64_t *)count, 1);
	return NULL;
}

void billed_semaphore(char **args)
{
	CUDA_EXTERNAL_SEMAPHORE_WAIT_PARAMS until = {0};
	CUexternalSemaphore semaphore;
	uint64_t *count;

	begin_warm();
	semaphore = make_semaphore(&count);
	guest_go();
	for (uint64_t i = 1; i <= ROUNDS; i++) {
		guest_spin(guest.a, BRIEF_US);
		until.params.fence.value = i;
		MUST(cuWaitExternalSemaphoresAsync(&semaphore, &until, 1, guest.a));
		guest_thread(count_later, count);
		guest_spin(guest.a, BRIEF_US);
		guest_sync(guest.a);
	}
	guest_done(NULL);
}

void billed_per_thread(char **args)
{
	begin_warm();
	guest_spin(CU_STREAM_PER_THREAD, BRIEF_US);
	guest_sync_all();
	guest_go();
	for (uint64_t i = 1; i <= ROUNDS; i++) {
		guest_spin(CU_STREAM_PER_THREAD, BRIEF_US);
		wait_once(CU_STREAM_PER_THREAD, guest.spin, i);
	}
	guest_done(NULL);
}

void billed_copy(char **args)
{
	void *host = calloc(1, COPIED_BYTES);
	CUdeviceptr memory;

	begin_warm();
	MUST(cuMemAlloc_v2(&memory, BYTES));
	guest_go();
	for (uint64_t i = 1; i <= ROUNDS; i++) {
		guest_spin(guest.a, BRIEF_US);
		guest_await(guest.a, i);
		guest_open_later();
		MUST(cuMemcpyDtoHAsync_v2(host, memory, COPIED_BYTES, guest.a));
		guest_spin(guest.a, BRIEF_US);
		guest_sync(guest.a);
	}
	guest_done(NULL);
	free(host);
}

void billed_set(char **args)
{
	CUdeviceptr memory;

	begin_warm();
	MUST(cuMemAlloc_v2(&memory, BYTES));
	MUST(cuMemsetD8Async(memory, 0, BYTES, guest.a));
	guest_sync(guest.a);
	guest_go();
	for (uint64_t i = 1; i <= ROUNDS; i++) {
		guest_await(guest.a, i);
		guest_open_later();
		MUST(cuMemsetD8Async(memory, 1, BYTES, guest.a));
		MUST(cuMemcpyDtoDAsync_v2(memory, memory + COPIED_BYTES, COPIED_BYTES, guest.a));
		guest_sync(guest.a);
	}
	guest_done(NULL);
}

void billed_pool(char **args)
{
	CUdeviceptr memory;

	begin_warm();
	guest_go();
	for (uint64_t i = 1; i <= ROUNDS; i++) {
		MUST(cuMemAllocAsync(&memory, BYTES, guest.b));
		guest_await(guest.b, i);
		guest_spin(guest.b, BRIEF_US);
		MUST(cuMemFreeAsync(memory, guest.b));
		guest_spin(guest.a, BRIEF_US);
		MUST(cuMemAllocAsync(&memory, BYTES, guest.a));
		guest_open_later();
		guest_spin(guest.a, BRIEF_US);
		MUST(cuMemFreeAsync(memory, guest.a));
		guest_sync_all();
	}
	guest_done(NULL);
}

void billed_cooperative(char **args)
{
	uint64_t us = BRIEF_US;
	void *params[] = {&us};

	begin_warm();
	guest_go();
	for (uint64_t i = 1; i <= ROUNDS; i++) {
		guest_await(guest.a, i);
		guest_open_later();
		MUST(cuLaunchCooperativeKernel(guest.spin, 1, 1, 1, 1, 1, 1, 0, guest.a, params));
		guest_sync(guest.a);
	}
	guest_done(NULL);
}
