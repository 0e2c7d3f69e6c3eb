/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Kernels that spin for each other, and streams that hand over to each other.
 *
 *	pair         two streams, whose kernels meet each step
 *	pairthreads  the same, each launched and waited for by a thread of its own
 *	flight       four kernels of one stream spin for four that another thread launches later
 *	flag         a kernel spins for one behind a copy on another stream
 *	words        a stream writes the word for which another stream waits
 *	devices      a stream waits each step for an event of another device
 *	contexts     a stream waits each step for a word that a stream of another context writes
 *	procs        two processes on one device, whose kernels meet each step
 *	procdevs     the same, on two devices
 *	rank RANK RANKS FILE HOW
 *	             one of several tenants. The file has the words that they share. HOW:
 *	             queued  each waits for the one before, works, and writes the word for which the
 *	                     next one waits; all steps are queued at once
 *	             synced  the same, with a synchronization each step
 *	             met     their kernels meet each step, which needs all tenants at once
 */
#include "tests/waits/waits.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "base/word.h"

#define BYTES	(1u << 20)
#define PAGE	(WORDS * sizeof(uint64_t))
#define HALF_US (STEP_US / 2)

static void begin_warm(void)
{
	guest_begin(0);
	guest_warm();
}

/* Returns the longer of the two: the time of the longest step so far, or of this one. */
static double longer(double worst_ms, double from_ms)
{
	double ms = guest_now_ms() - from_ms;

	return ms > worst_ms ? ms : worst_ms;
}

void meet_pair(char **args)
{
	double worst_ms = 0;

	begin_warm();
	guest_go();
	for (int i = 0; i < STEPS; i++) {
		double from_ms = guest_now_ms();

		guest_spin(guest.a, STEP_US);
		guest_meet(guest.a, 2);
		guest_spin(guest.b, STEP_US);
		guest_meet(guest.b, 2);
		if (i % 4 == 3)
			guest_sync_all();
		worst_ms = longer(worst_ms, from_ms);
	}
	guest_sync_all();
	guest_done("\"worst_ms\": %.3f", worst_ms);
}

static void *meet_each_step(void *arg)
{
	CUstream stream = arg;

	MUST(cuCtxSetCurrent(guest.context));
	for (int i = 0; i < STEPS; i++) {
		guest_spin(stream, STEP_US);
		guest_meet(stream, 2);
		guest_sync(stream);
	}
	return NULL;
}

void meet_threads(char **args)
{
	pthread_t thread;

	begin_warm();
	guest_go();
	if (pthread_create(&thread, NULL, meet_each_step, guest.b))
		abort();
	meet_each_step(guest.a);
	pthread_join(thread, NULL);
	guest_done(NULL);
}

#define IN_FLIGHT 4
#define LATER_US  5000

static void *meet_later(void *arg)
{
	MUST(cuCtxSetCurrent(guest.context));
	guest_nap(LATER_US);
	for (int i = 0; i < IN_FLIGHT; i++)
		guest_meet(guest.b, 2);
	return NULL;
}

void meet_in_flight(char **args)
{
	double worst_ms = 0;
	pthread_t thread;

	begin_warm();
	guest_go();
	for (int round = 0; round < STEPS / 3; round++) {
		double from_ms = guest_now_ms();

		for (int i = 0; i < IN_FLIGHT; i++)
			guest_meet(guest.a, 2);
		if (pthread_create(&thread, NULL, meet_later, NULL))
			abort();
		pthread_join(thread, NULL);
		guest_sync(guest.a);
		worst_ms = longer(worst_ms, from_ms);
	}
	guest_done("\"worst_ms\": %.3f", worst_ms);
}

void meet_flag(char **args)
{
	CUdeviceptr from, to;

	begin_warm();
	MUST(cuMemAlloc_v2(&from, BYTES));
	MUST(cuMemAlloc_v2(&to, BYTES));
	guest_go();
	for (int i = 0; i < STEPS; i++) {
		guest_spin(guest.a, HALF_US);
		guest_meet(guest.a, 2);
		MUST(cuMemcpyDtoDAsync_v2(to, from, BYTES, guest.b));
		guest_meet(guest.b, 2);
		guest_sync_all();
	}
	guest_done(NULL);
}

void meet_words(char **args)
{
	begin_warm();
	guest_go();
	for (uint64_t i = 1; i <= STEPS; i++) {
		guest_await(guest.a, i);
		guest_spin(guest.a, HALF_US);
		guest_spin(guest.b, HALF_US);
		guest_write_word(guest.b, WORD_GATE, i);
		if (i % 4 == 0)
			guest_sync_all();
	}
	guest_sync_all();
	guest_done(NULL);
}

/* The other side of meet_devices and meet_contexts: its context is current when this returns. */
struct other {
	CUcontext context;
	CUfunction spin;
	CUstream stream;
};

static void other_begin(struct other *other)
{
	other->spin = guest_function("sim_spin");
	other->stream = guest_stream();
	for (int i = 0; i < STEPS; i++)
		guest_launch(other->spin, other->stream, BRIEF_US);
	guest_sync_all();
}

void meet_devices(char **args)
{
	struct other other;
	CUevent event;

	begin_warm();
	MUST(cuDevicePrimaryCtxRetain(&other.context, 1));
	MUST(cuCtxSetCurrent(other.context));
	other_begin(&other);
	event = guest_event();
	guest_go();
	for (int i = 0; i < STEPS; i++) {
		MUST(cuCtxSetCurrent(other.context));
		guest_launch(other.spin, other.stream, HALF_US);
		MUST(cuEventRecord(event, other.stream));
		MUST(cuCtxSetCurrent(guest.context));
		MUST(cuStreamWaitEvent(guest.a, event, 0));
		guest_spin(guest.a, HALF_US);
		if (i % 8 == 7)
			guest_sync(guest.a);
	}
	guest_sync_all();
	guest_done(NULL);
}

void meet_contexts(char **args)
{
	struct other other;

	begin_warm();
	MUST(cuCtxCreate_v4(&other.context, NULL, 0, 0));
	other_begin(&other);
	guest_go();
	for (uint64_t i = 1; i <= STEPS; i++) {
		MUST(cuCtxSetCurrent(guest.context));
		guest_await(guest.a, i);
		guest_spin(guest.a, HALF_US);
		MUST(cuCtxSetCurrent(other.context));
		guest_launch(other.spin, other.stream, HALF_US);
		guest_write_word(other.stream, WORD_GATE, i);
		MUST(cuCtxSetCurrent(guest.context));
		if (i % 4 == 0)
			guest_sync(guest.a);
	}
	guest_sync_all();
	guest_done(NULL);
}

/* Makes this process a rank: a device, and the page's words. */
static void rank_begin(int device, uint64_t *page)
{
	guest_begin(device);
	guest_warm();
	guest_share(page);
}

/* Waits for all ranks at word i. */
static void rank_arrive(unsigned int i, uint64_t ranks)
{
	word_publish_add(&guest.word[i], 1);
	guest_await_host(i, ranks);
}

static void rank_meet(uint64_t ranks)
{
	for (int i = 0; i < STEPS; i++) {
		guest_spin(guest.a, STEP_US);
		guest_meet(guest.a, ranks);
		guest_sync(guest.a);
	}
}

/* Rank 1 of two processes: it ends with its parent. */
static _Noreturn void second_process(int device, uint64_t *page)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	rank_begin(device, page);
	rank_arrive(WORD_READY, 2);
	guest_await_host(WORD_GO, 1);
	rank_meet(2);
	rank_arrive(WORD_ENDED, 2);
	guest_idle();
	_exit(0);
}

static void meet_two_processes(int second_device)
{
	uint64_t *page =
		mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	if (page == MAP_FAILED)
		abort();
	guest.pid[0] = fork();
	if (guest.pid[0] < 0)
		abort();
	if (!guest.pid[0])
		second_process(second_device, page);
	rank_begin(0, page);
	rank_arrive(WORD_READY, 2);
	guest_go();
	word_publish(&guest.word[WORD_GO], 1);
	rank_meet(2);
	rank_arrive(WORD_ENDED, 2);
	guest_done(NULL);
}

void meet_processes(char **args)
{
	meet_two_processes(0);
}

void meet_processes_devices(char **args)
{
	meet_two_processes(1);
}

/* Rank 0 does the first step without a wait, and then waits for the last rank. */
static void rank_hand_over(uint64_t rank, uint64_t ranks, bool synced)
{
	unsigned int own = WORD_TOKEN + (unsigned int)rank;
	unsigned int next = WORD_TOKEN + (unsigned int)((rank + 1) % ranks);

	for (uint64_t i = 1; i <= STEPS; i++) {
		if (rank || i > 1)
			guest_await_word(guest.a, own, rank ? i : i - 1);
		guest_spin(guest.a, STEP_US);
		guest_write_word(guest.a, next, i);
		if (synced)
			guest_sync(guest.a);
	}
	guest_sync_all();
}

static uint64_t *map_page(const char *path)
{
	int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	uint64_t *page;

	if (fd < 0 || ftruncate(fd, PAGE) < 0)
		abort();
	page = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (page == MAP_FAILED)
		abort();
	close(fd);
	return page;
}

/* No rank begins before all have been told to. */
void meet_tenants(char **args)
{
	uint64_t rank, ranks;

	for (int i = 0; i < 4; i++)
		if (!args[i])
			exit(2);
	rank = strtoull(args[0], NULL, 10);
	ranks = strtoull(args[1], NULL, 10);
	rank_begin(0, map_page(args[2]));
	guest_ready();
	rank_arrive(WORD_READY, ranks);
	guest_start();
	if (!strcmp(args[3], "met"))
		rank_meet(ranks);
	else
		rank_hand_over(rank, ranks, !strcmp(args[3], "synced"));
	guest_done(NULL);
}
