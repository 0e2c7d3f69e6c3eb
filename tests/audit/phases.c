/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/audit/phases.h"

#define NOBODY 0

static uint64_t draw_host_us(struct guest *guest, uint64_t most)
{
	return guest_coin(guest) ? 0 : guest_draw(guest, 0, most);
}

/* ---- Drawn ---- */

static void any_eager(struct guest *guest)
{
	/* One draw a statement: which of two is first in one would be the compiler's choice. */
	unsigned int functions = (unsigned int)guest_draw(guest, 1, GUEST_FUNCTIONS);
	uint64_t us[GUEST_FUNCTIONS], most_us = guest_log(guest, 1, 300);
	bool grids = guest_coin(guest);
	uint64_t host_us = draw_host_us(guest, 1000), launches;
	enum guest_wait how = guest_draw_wait(guest);

	for (unsigned int i = 0; i < functions; i++)
		us[i] = guest_log(guest, 1, most_us);
	guest_say(guest, "%u %s of up to %llu us, %llu us of the host, waits by %s", functions,
		  grids ? "grids" : "functions", (unsigned long long)most_us,
		  (unsigned long long)host_us, guest_wait_names[how]);
	while (!guest_over(guest)) {
		launches = guest_log(guest, 50, 5000);
		for (uint64_t i = 0; i < launches && (i % 16 || !guest_over(guest)); i++) {
			unsigned int k = (unsigned int)guest_draw(guest, 0, functions - 1);

			guest_launch(guest, guest->function[grids ? 0 : k], grids ? k + 1 : 1,
				     guest->stream[0], us[k]);
		}
		guest_wait(guest, how, guest->stream[0], NOBODY);
		guest_host(host_us);
	}
}

static void any_tokens(struct guest *guest)
{
	unsigned int nodes = (unsigned int)guest_draw(guest, 1, 60);
	uint64_t us = guest_log(guest, 200, 20000), host_us = draw_host_us(guest, 2000);
	bool copy = guest_coin(guest);

	play_tokens(guest, nodes, us, host_us, copy, guest_draw_wait(guest));
}

static void any_redrawn(struct guest *guest)
{
	uint64_t host_us = draw_host_us(guest, 300), us = 0, keep = guest_log(guest, 1, 20);
	enum guest_wait how = guest_draw_wait(guest);

	guest_say(guest, "one function, redrawn each %llu times, %llu us of the host, waits by %s",
		  (unsigned long long)keep, (unsigned long long)host_us, guest_wait_names[how]);
	for (uint64_t i = 0; !guest_over(guest); i++) {
		if (i % keep == 0)
			us = guest_log(guest, 5, 80000);
		guest_launch(guest, guest->function[0], 1, guest->stream[0], us);
		guest_wait(guest, how, guest->stream[0], NOBODY);
		guest_host(host_us);
	}
}

static void any_tail(struct guest *guest)
{
	unsigned int brief = (unsigned int)guest_log(guest, 5, 200);
	uint64_t brief_us = guest_log(guest, 2, 50), tail_us = guest_log(guest, 1000, 20000);
	uint64_t host_us = draw_host_us(guest, 1000);
	bool same = guest_coin(guest);

	play_tail(guest, brief, brief_us, tail_us, host_us, same, guest_draw_wait(guest));
}

static void any_streams(struct guest *guest)
{
	unsigned int n = (unsigned int)guest_log(guest, 1, GUEST_STREAMS);
	unsigned int launches = (unsigned int)guest_log(guest, 1, 20);
	uint64_t us = guest_log(guest, 5, 2000);
	bool chained = guest_coin(guest), joined = guest_coin(guest);
	enum guest_wait how = guest_draw_wait(guest);

	play_streams(guest, &(struct streams){n, launches, us, chained, joined, how});
}

static void any_beside(struct guest *guest)
{
	uint64_t long_us = guest_log(guest, 2000, 30000), brief_us = guest_log(guest, 5, 200);

	play_beside(guest, long_us, brief_us, guest_draw_wait(guest));
}

static void any_copies(struct guest *guest)
{
	uint64_t us = guest_log(guest, 2, 500);
	unsigned int copies = (unsigned int)guest_log(guest, 1, 10);
	size_t bytes = guest_log(guest, 64, GUEST_COPY_BYTES >> 10) << 10;

	play_copies(guest, us, copies, bytes, guest_draw_wait(guest));
}

static void any_host_functions(struct guest *guest)
{
	unsigned int launches = (unsigned int)guest_log(guest, 1, 20);
	uint64_t us = guest_log(guest, 20, 1000), host_us = guest_log(guest, 50, 3000);

	play_host_functions(guest, launches, us, host_us, guest_draw_wait(guest));
}

static void any_graph_with_hosts(struct guest *guest)
{
	unsigned int launches = (unsigned int)guest_log(guest, 1, 20);
	uint64_t us = guest_log(guest, 20, 1000), host_us = guest_log(guest, 50, 3000);

	play_graph_with_hosts(guest, launches, us, host_us, guest_draw_wait(guest));
}

static void any_event_waits(struct guest *guest)
{
	unsigned int launches = (unsigned int)guest_log(guest, 1, 20);
	uint64_t us = guest_log(guest, 20, 1000), host_us = guest_log(guest, 50, 3000);

	play_event_waits(guest, launches, us, host_us, guest_draw_wait(guest));
}

/* A stream waits for a word that the program writes later. */
static void any_word_waits(struct guest *guest)
{
	uint64_t us = guest_log(guest, 20, 1000), host_us = guest_log(guest, 50, 3000);
	enum guest_wait how = guest_draw_wait(guest);
	CUstream stream = guest->stream[0];
	uint32_t round = *guest->gate;

	guest_say(guest, "%llu us, a wait for a word of %llu us later, %llu us, waits by %s",
		  (unsigned long long)us, (unsigned long long)host_us, (unsigned long long)us,
		  guest_wait_names[how]);
	while (!guest_over(guest)) {
		guest_launch(guest, guest->function[0], 1, stream, us);
		MUST(cuStreamWaitValue32_v2(stream, (CUdeviceptr)(uintptr_t)guest->gate, ++round,
					    CU_STREAM_WAIT_VALUE_GEQ));
		guest_launch(guest, guest->function[0], 1, stream, us);
		guest_host(host_us);
		__atomic_store_n(guest->gate, round, __ATOMIC_SEQ_CST);
		guest_wait(guest, how, stream, NOBODY);
	}
}

static void any_contexts(struct guest *guest)
{
	unsigned int n = (unsigned int)guest_draw(guest, 1, 6);
	unsigned int last = (unsigned int)guest_draw(guest, 1, n);
	unsigned int launches = (unsigned int)guest_log(guest, 1, 20);
	uint64_t us = guest_log(guest, 20, 2000);

	play_contexts(guest, n, last, launches, us, guest_coin(guest));
}

static void any_pauses(struct guest *guest)
{
	unsigned int launches = (unsigned int)guest_log(guest, 1, 50);
	uint64_t us = guest_log(guest, 5, 500), pause_us = guest_log(guest, 200, 200000);
	enum guest_wait how = guest_draw_wait(guest);

	guest_say(guest, "%u of %llu us, waits by %s, then pauses of up to %llu us", launches,
		  (unsigned long long)us, guest_wait_names[how], (unsigned long long)pause_us);
	while (!guest_over(guest)) {
		for (unsigned int i = 0; i < launches; i++)
			guest_launch(guest, guest->function[0], 1, guest->stream[0], us);
		guest_wait(guest, how, guest->stream[0], NOBODY);
		guest_host(guest_log(guest, 100, pause_us));
	}
}

static void any_lazy(struct guest *guest)
{
	unsigned int functions = (unsigned int)guest_draw(guest, 1, 20);
	uint64_t us = guest_log(guest, 10, 300);

	play_lazy(guest, functions, us, guest_draw_wait(guest));
}

static void any_two_lengths(struct guest *guest)
{
	uint64_t a_us = guest_log(guest, 50, 300), b_us = guest_log(guest, 2000, 10000);
	uint64_t host_us = draw_host_us(guest, 500);

	play_two_lengths(guest, a_us, b_us, host_us, guest_draw_wait(guest));
}

static void launch_meets(struct guest *guest, unsigned int stream, unsigned int n, uint64_t us,
			 uint64_t most_us)
{
	for (unsigned int i = 0; i < n; i++) {
		guest_launch(guest, guest->function[stream], 1, guest->stream[stream], us);
		guest_meet(guest, guest->stream[stream], 2, most_us);
	}
}

/*
 * Kernels of two streams wait for each other; those of the one are launched first, and asked for, or
 * nobody would know that they are not done while the host does something else.
 */
static void any_meets(struct guest *guest)
{
	unsigned int ahead = (unsigned int)guest_log(guest, 1, 4);
	uint64_t us = guest_log(guest, 5, 1000), later_us = draw_host_us(guest, 10000);
	enum guest_wait how = guest_draw_wait(guest);

	guest_say(guest, "%u of %llu us that meet %u of another stream, %llu us later, waits by %s",
		  ahead, (unsigned long long)us, ahead, (unsigned long long)later_us,
		  guest_wait_names[how]);
	guest_meet_anew(guest);
	while (!guest_over(guest)) {
		launch_meets(guest, 0, ahead, us, later_us + us);
		cuStreamQuery(guest->stream[0]);
		guest_host(later_us);
		launch_meets(guest, 1, ahead, us, later_us + us);
		guest_wait(guest, how, guest->stream[0], NOBODY);
		MUST(cuStreamSynchronize(guest->stream[1]));
	}
}

/* The same, one kernel of each stream at a time, as ranks of a collective have it. */
static void any_ranks(struct guest *guest)
{
	unsigned int n = (unsigned int)guest_draw(guest, 2, 4);
	uint64_t us = guest_log(guest, 20, 3000), host_us = draw_host_us(guest, 500);

	guest_say(guest, "%u streams that meet after %llu us, %llu us of the host", n,
		  (unsigned long long)us, (unsigned long long)host_us);
	guest_meet_anew(guest);
	while (!guest_over(guest)) {
		for (unsigned int i = 0; i < n; i++) {
			guest_launch(guest, guest->function[0], 1, guest->stream[i], us);
			guest_meet(guest, guest->stream[i], n, us);
		}
		guest_wait(guest, WAIT_CONTEXT, NULL, NOBODY);
		guest_host(host_us);
	}
}

/* ---- Fixed: as in the issue that asked for this ---- */

/* A language model: it warms up eagerly, then has one graph for each token. */
static void tokens(struct guest *guest)
{
	for (unsigned int i = 0; i < 5200; i++)
		guest_launch(guest, guest->function[0], i % 13 + 1, guest->stream[1], 2 + i % 3);
	guest_wait(guest, WAIT_STREAM, guest->stream[1], NOBODY);
	play_tokens(guest, 60, 3800, 150, true, WAIT_STREAM);
}

/* The same function with the same grid was brief before. */
static void persistent(struct guest *guest)
{
	for (int i = 0; i < 50; i++) {
		guest_launch(guest, guest->function[0], 1, guest->stream[0], 20);
		guest_wait(guest, WAIT_STREAM, guest->stream[0], NOBODY);
	}
	play_two_lengths(guest, 50000, 50000, 150, WAIT_STREAM);
}

static void alternating(struct guest *guest)
{
	play_two_lengths(guest, 100, 5000, 0, WAIT_STREAM);
}

static void tail(struct guest *guest)
{
	play_tail(guest, 20, 50, 3000, 0, true, WAIT_STREAM);
}

static void ten_streams(struct guest *guest)
{
	play_streams(guest, &(struct streams){10, 6, 9, false, true, WAIT_COPY});
}

/* Long chains, of which all is to be launched at once: who does so in others' turns has the device. */
static void chained_streams(struct guest *guest)
{
	play_streams(guest, &(struct streams){16, 8, 1500, true, true, WAIT_KERNEL});
}

static void two_streams(struct guest *guest)
{
	play_beside(guest, 10000, 50, WAIT_STREAM);
}

static void six_contexts(struct guest *guest)
{
	play_contexts(guest, 6, 2, 10, 500, false);
}

static void device_copies(struct guest *guest)
{
	play_copies(guest, 10, 8, 4 << 20, WAIT_STREAM);
}

static void batches(struct guest *guest)
{
	play_batches(guest, 16, 4 << 20, WAIT_STREAM);
}

static void host_functions(struct guest *guest)
{
	play_host_functions(guest, 4, 100, 3000, WAIT_STREAM);
}

static void event_waits(struct guest *guest)
{
	play_event_waits(guest, 4, 100, 3000, WAIT_STREAM);
}

static void lazy(struct guest *guest)
{
	play_lazy(guest, 20, 100, WAIT_STREAM);
}

/* Its events are found long after they are done: nothing says soon that the clock is off. */
static void lazy_polled(struct guest *guest)
{
	play_lazy(guest, 3, 34, WAIT_MEMORY);
}

static void polled(struct guest *guest)
{
	play_two_lengths(guest, 4000, 4000, 150, WAIT_MEMORY);
}

/* The same, but what is polled is written by a kernel. */
static void polled_kernel(struct guest *guest)
{
	play_two_lengths(guest, 4000, 4000, 150, WAIT_KERNEL);
}

/* The host is slower than the device, and waits for nothing: a kernel now and then. */
static void sparse(struct guest *guest)
{
	guest_say(guest, "50 of 100 us, each 400 us, then a wait");
	while (!guest_over(guest)) {
		for (int i = 0; i < 50; i++) {
			guest_launch(guest, guest->function[i % 5], 1, guest->stream[0], 100);
			guest_host(400);
			guest->bursts++;
		}
		guest_wait(guest, WAIT_STREAM, guest->stream[0], NOBODY);
	}
}

/* A program that always has work, and nothing else. */
static void steady(struct guest *guest)
{
	guest_say(guest, "kernels of 1000 us, 20 at a time");
	while (!guest_over(guest)) {
		for (int i = 0; i < 20; i++)
			guest_launch(guest, guest->function[0], 1, guest->stream[0], 1000);
		guest_wait(guest, WAIT_STREAM, guest->stream[0], NOBODY);
	}
}

const struct phase phases[] = {
	{"any-eager", any_eager, ANY},
	{"any-tokens", any_tokens, ANY},
	{"any-redrawn", any_redrawn, ANY},
	{"any-tail", any_tail, ANY},
	{"any-streams", any_streams, ANY},
	{"any-beside", any_beside, ANY},
	{"any-copies", any_copies, ANY},
	{"any-host-functions", any_host_functions, ANY},
	{"any-event-waits", any_event_waits, ANY},
	{"any-word-waits", any_word_waits, ANY},
	{"any-contexts", any_contexts, ANY},
	{"any-pauses", any_pauses, ANY},
	{"any-lazy", any_lazy, ANY},
	{"any-two-lengths", any_two_lengths, ANY},
	{"any-meets", any_meets, MEETS},
	{"any-ranks", any_ranks, MEETS},
	{"any-graph-with-hosts", any_graph_with_hosts, HOSTS},
	{"tokens", tokens, FIXED},
	{"persistent", persistent, FIXED},
	{"alternating", alternating, FIXED},
	{"tail", tail, FIXED},
	{"two-streams", two_streams, FIXED},
	{"ten-streams", ten_streams, FIXED},
	{"chained-streams", chained_streams, FIXED},
	{"six-contexts", six_contexts, FIXED},
	{"device-copies", device_copies, FIXED},
	{"batches", batches, FIXED},
	{"host-functions", host_functions, FIXED},
	{"event-waits", event_waits, FIXED},
	{"lazy", lazy, FIXED},
	{"lazy-polled", lazy_polled, FIXED},
	{"polled", polled, FIXED},
	{"polled-kernel", polled_kernel, FIXED},
	{"sparse", sparse, FIXED},
	{"steady", steady, FIXED},
	{NULL, NULL, FIXED},
};
