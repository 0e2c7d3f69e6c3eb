/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/audit/phases.h"

void play_tokens(struct guest *guest, unsigned int nodes, uint64_t us, uint64_t host_us, bool copy,
		 enum guest_wait how)
{
	CUgraphExec graph = guest_graph(guest, nodes, us);
	CUstream stream = guest->stream[1];
	uint32_t token;

	guest_say(guest, "graph of %u nodes, %llu us, then %llu us of the host%s, waits by %s",
		  nodes, (unsigned long long)us, (unsigned long long)host_us,
		  copy ? " and a copy" : "", guest_wait_names[how]);
	while (!guest_over(guest)) {
		guest_launch_graph(guest, graph, stream, us);
		if (copy)
			MUST(cuMemcpyDtoHAsync_v2(guest->word + 128, guest->a, sizeof(token),
						  stream));
		guest_wait(guest, how, stream, 0);
		guest_host(host_us);
	}
	MUST(cuGraphExecDestroy(graph));
}

void play_two_lengths(struct guest *guest, uint64_t a_us, uint64_t b_us, uint64_t host_us,
		      enum guest_wait how)
{
	guest_say(guest, "one function, %llu and %llu us by turns, %llu us of the host, by %s",
		  (unsigned long long)a_us, (unsigned long long)b_us, (unsigned long long)host_us,
		  guest_wait_names[how]);
	for (int i = 0; !guest_over(guest); i++) {
		guest_launch(guest, guest->function[0], 1, guest->stream[0], i % 2 ? b_us : a_us);
		guest_wait(guest, how, guest->stream[0], 0);
		guest_host(host_us);
	}
}

void play_tail(struct guest *guest, unsigned int brief, uint64_t brief_us, uint64_t tail_us,
	       uint64_t host_us, bool same, enum guest_wait how)
{
	guest_say(guest, "%u of %llu us, then one %s of %llu us, %llu us of the host, waits by %s",
		  brief, (unsigned long long)brief_us, same ? "like them" : "of another function",
		  (unsigned long long)tail_us,
		  (unsigned long long)host_us, guest_wait_names[how]);
	while (!guest_over(guest)) {
		for (unsigned int i = 0; i < brief; i++)
			guest_launch(guest, guest->function[0], 1, guest->stream[0], brief_us);
		guest_launch(guest, guest->function[same ? 0 : 1], 1, guest->stream[0], tail_us);
		guest_wait(guest, how, guest->stream[0], 0);
		guest_host(host_us);
	}
}

void play_beside(struct guest *guest, uint64_t long_us, uint64_t brief_us, enum guest_wait how)
{
	unsigned int beside = (unsigned int)(long_us / (2 * brief_us + 200)) + 1;

	guest_say(guest, "%llu us in a stream beside %u of %llu us that are waited for by %s",
		  (unsigned long long)long_us, beside, (unsigned long long)brief_us,
		  guest_wait_names[how]);
	while (!guest_over(guest)) {
		guest_launch(guest, guest->function[0], 1, guest->stream[0], long_us);
		for (unsigned int i = 0; i < beside; i++) {
			guest_launch(guest, guest->function[1], 2, guest->stream[1], brief_us);
			guest_wait(guest, how, guest->stream[1], 0);
		}
		guest_wait(guest, WAIT_STREAM, guest->stream[0], 0);
	}
}

void play_streams(struct guest *guest, const struct streams *s)
{
	guest_say(guest, "%u streams%s, %u of %llu us in each, waits by %s for %s", s->n,
		  s->chained ? " that wait for each other" : "", s->launches,
		  (unsigned long long)s->us, guest_wait_names[s->how],
		  s->joined ? "all" : "the last, then all");
	while (!guest_over(guest)) {
		for (unsigned int i = 0; i < s->n; i++) {
			if (s->chained && i)
				MUST(cuStreamWaitEvent(guest->stream[i], guest->event[i - 1], 0));
			for (unsigned int k = 0; k < s->launches; k++)
				guest_launch(guest, guest->function[i], 1, guest->stream[i],
					     s->us * (1 + (i + k) % 3));
			MUST(cuEventRecord(guest->event[i], guest->stream[i]));
		}
		for (unsigned int i = 0; s->joined && i < s->n; i++)
			MUST(cuStreamWaitEvent(guest->stream[0], guest->event[i], 0));
		guest_wait(guest, s->how, guest->stream[s->joined ? 0 : s->n - 1], s->n - 1);
		for (unsigned int i = 0; !s->joined && i < s->n; i++)
			MUST(cuStreamSynchronize(guest->stream[i]));
	}
}

struct own_context {
	CUcontext ctx;
	CUfunction function;
	CUstream stream;
};

static void make_context(struct guest *guest, struct own_context *c)
{
	MUST(cuCtxCreate_v2(&c->ctx, 0, guest->device));
	c->function = guest_function();
	MUST(cuStreamCreate(&c->stream, CU_STREAM_NON_BLOCKING));
}

static void launch_in(struct guest *guest, const struct own_context *c, unsigned int launches,
		      uint64_t us, bool wait)
{
	MUST(cuCtxSetCurrent(c->ctx));
	for (unsigned int k = 0; k < launches; k++)
		guest_launch(guest, c->function, 1, c->stream, us);
	if (wait)
		guest_wait(guest, WAIT_STREAM, c->stream, 0);
}

void play_contexts(struct guest *guest, unsigned int n, unsigned int last, unsigned int launches,
		   uint64_t us, bool at_once)
{
	struct own_context at[8];

	guest_say(guest, "%u contexts, of which %u go on, %u of %llu us in each, %s", n, last,
		  launches, (unsigned long long)us, at_once ? "all at once" : "one by one");
	for (unsigned int i = 0; i < n; i++) {
		make_context(guest, &at[i]);
		launch_in(guest, &at[i], launches, us, true);
	}
	while (!guest_over(guest)) {
		for (unsigned int i = n - last; i < n; i++)
			launch_in(guest, &at[i], launches, us, !at_once);
		for (unsigned int i = n - last; at_once && i < n; i++)
			launch_in(guest, &at[i], 0, us, true);
	}
	for (unsigned int i = 0; i < n; i++)
		MUST(cuCtxDestroy_v2(at[i].ctx));
	MUST(cuCtxSetCurrent(guest->ctx));
}

void play_copies(struct guest *guest, uint64_t kernel_us, unsigned int copies, size_t bytes,
		 enum guest_wait how)
{
	CUstream stream = guest->stream[0];

	guest_say(guest, "%llu us, then %u copies and memsets of %zu KiB, waits by %s",
		  (unsigned long long)kernel_us, copies, bytes >> 10, guest_wait_names[how]);
	while (!guest_over(guest)) {
		guest_launch(guest, guest->function[0], 1, stream, kernel_us);
		for (unsigned int i = 0; i < copies; i++) {
			MUST(cuMemcpyDtoDAsync_v2(guest->b, guest->a, bytes, stream));
			MUST(cuMemsetD8Async(guest->b, (unsigned char)i, bytes, stream));
		}
		guest_wait(guest, how, stream, 0);
	}
}

static void CUDA_CB host_function(void *us)
{
	guest_host((uint64_t)(uintptr_t)us);
}

void play_batches(struct guest *guest, unsigned int copies, size_t bytes, enum guest_wait how)
{
	CUdeviceptr from[64], to[64];
	size_t sizes[64];

	guest_say(guest, "batches of %u copies of %zu KiB, waits by %s", copies, bytes >> 10,
		  guest_wait_names[how]);
	for (unsigned int i = 0; i < copies; i++) {
		from[i] = guest->a;
		to[i] = guest->b;
		sizes[i] = bytes;
	}
	while (!guest_over(guest)) {
		MUST(cuMemcpyBatchAsync_v2(to, from, sizes, copies, NULL, NULL, 0,
					   guest->stream[0]));
		guest_wait(guest, how, guest->stream[0], 0);
	}
}

static void launch_with_host_functions(struct guest *guest, unsigned int launches, uint64_t us,
				       uint64_t host_us)
{
	for (unsigned int i = 0; i < 4 * launches; i++) {
		if (i && i % launches == 0)
			MUST(cuLaunchHostFunc(guest->stream[0], host_function,
					      (void *)(uintptr_t)host_us));
		guest_launch(guest, guest->function[0], 1, guest->stream[0], us);
	}
}

void play_host_functions(struct guest *guest, unsigned int launches, uint64_t us,
			 uint64_t host_us, enum guest_wait how)
{
	guest_say(guest, "4 times %u of %llu us, host functions of %llu us between, waits by %s",
		  launches, (unsigned long long)us, (unsigned long long)host_us,
		  guest_wait_names[how]);
	while (!guest_over(guest)) {
		launch_with_host_functions(guest, launches, us, host_us);
		guest_wait(guest, how, guest->stream[0], 0);
	}
}

void play_graph_with_hosts(struct guest *guest, unsigned int launches, uint64_t us,
			   uint64_t host_us, enum guest_wait how)
{
	CUstream stream = guest->stream[0];
	CUgraphExec exec;
	CUgraph graph;

	guest_say(guest, "a graph of 4 times %u of %llu us, host functions of %llu us between, "
		  "waits by %s", launches, (unsigned long long)us, (unsigned long long)host_us,
		  guest_wait_names[how]);
	MUST(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
	launch_with_host_functions(guest, launches, us, host_us);
	MUST(cuStreamEndCapture(stream, &graph));
	MUST(cuGraphInstantiateWithFlags(&exec, graph, 0));
	while (!guest_over(guest)) {
		guest_launch_graph(guest, exec, stream, 4 * launches * us);
		guest_wait(guest, how, stream, 0);
	}
	MUST(cuGraphExecDestroy(exec));
	MUST(cuGraphDestroy(graph));
}

void play_event_waits(struct guest *guest, unsigned int launches, uint64_t us, uint64_t host_us,
		      enum guest_wait how)
{
	CUstream stream = guest->stream[0], other = guest->stream[1];

	guest_say(guest, "4 times %u of %llu us, with waits for an event of %llu us later between, "
		  "waits by %s", launches, (unsigned long long)us, (unsigned long long)host_us,
		  guest_wait_names[how]);
	while (!guest_over(guest)) {
		for (unsigned int i = 0; i < 4 * launches; i++) {
			if (i && i % launches == 0) {
				MUST(cuLaunchHostFunc(other, host_function,
						      (void *)(uintptr_t)host_us));
				MUST(cuEventRecord(guest->event[1], other));
				MUST(cuStreamWaitEvent(stream, guest->event[1], 0));
			}
			guest_launch(guest, guest->function[0], 1, stream, us);
		}
		guest_wait(guest, how, stream, 0);
	}
}

void play_lazy(struct guest *guest, unsigned int functions, uint64_t us, enum guest_wait how)
{
	CUfunction function[GUEST_FUNCTIONS];

	guest_say(guest, "%u functions of %llu us for the first time, waits by %s", functions,
		  (unsigned long long)us, guest_wait_names[how]);
	while (!guest_over(guest)) {
		for (unsigned int i = 0; i < functions; i++)
			function[i] = guest_function();
		for (unsigned int i = 0; i < functions; i++)
			guest_launch(guest, function[i], i + 1, guest->stream[0], us);
		guest_wait(guest, how, guest->stream[0], 0);
	}
}
