/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Launches behind a wait, or beside one.
 *
 *	behind      150 kernels behind a wait, which ends after the last launch
 *	evbehind    the same behind an event of another stream, which waits
 *	hostbehind  the same behind a host function
 *	graphhold   the same behind a graph with a host node
 *	beside      150 kernels, one at a time, on another stream than the one that waits
 *	fullring    150 kernels behind one wait, each followed by a pause or an event: more than the
 *	            timing events that a stream has
 *	watched     300 kernels behind a wait, of a program that polls memory for its launches
 *	fan         60 streams that all wait for one word, a kernel behind each
 *	blocked     a stream waits for 0.6 s, one kernel behind it; it is queried half of the time
 *	mutex       a host function needs a lock, which the thread holds that launches 20 kernels
 *	cbthread    a host function waits for a thread that launches on another stream
 *	busy        no wait: kernels of 1 ms, with a synchronization at every tenth
 */
#include "tests/waits/waits.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/word.h"

#define FAN	   60
#define BLOCKED_MS 600
#define RING_MS	   100

static void launch_all(CUstream stream, int n, uint64_t us)
{
	for (int i = 0; i < n; i++)
		guest_spin(stream, us);
}

static void begin_warm(void)
{
	guest_begin(0);
	guest_warm();
}

void behind_word(char **args)
{
	begin_warm();
	guest_go();
	guest_await(guest.a, 1);
	launch_all(guest.a, LAUNCHES, BRIEF_US);
	guest_open();
	guest_sync(guest.a);
	guest_done(NULL);
}

void behind_event(char **args)
{
	CUevent event;

	begin_warm();
	event = guest_event();
	guest_go();
	guest_await(guest.b, 1);
	guest_spin(guest.b, BRIEF_US);
	MUST(cuEventRecord(event, guest.b));
	MUST(cuStreamWaitEvent(guest.a, event, 0));
	launch_all(guest.a, LAUNCHES, BRIEF_US);
	guest_open();
	guest_sync_all();
	guest_done(NULL);
}

/* A host function that ends when the gate was opened; the argument says how often. */
static void CUDA_CB hold(void *arg)
{
	guest_await_host(WORD_GATE, (uintptr_t)arg);
}

void behind_host(char **args)
{
	begin_warm();
	guest_go();
	MUST(cuLaunchHostFunc(guest.a, hold, (void *)1));
	launch_all(guest.a, LAUNCHES, BRIEF_US);
	guest_open();
	guest_sync(guest.a);
	guest_done(NULL);
}

/* A host node's function; the word says how often the gate has to be opened for it. */
static void CUDA_CB hold_node(void *arg)
{
	guest_await_host(WORD_GATE, word_read(&guest.word[WORD_OTHER]));
}

void behind_graph(char **args)
{
	CUgraphExec exec;

	begin_warm();
	MUST(cuStreamBeginCapture_v2(guest.c, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
	guest_spin(guest.c, BRIEF_US);
	MUST(cuLaunchHostFunc(guest.c, hold_node, NULL));
	guest_spin(guest.c, BRIEF_US);
	exec = guest_instantiate();
	MUST(cuGraphLaunch(exec, guest.a));
	guest_sync(guest.a);
	word_write(&guest.word[WORD_OTHER], 1);
	guest_go();
	MUST(cuGraphLaunch(exec, guest.a));
	launch_all(guest.a, LAUNCHES, BRIEF_US);
	guest_open();
	guest_sync(guest.a);
	guest_done(NULL);
}

void behind_beside(char **args)
{
	begin_warm();
	guest_go();
	guest_await(guest.a, 1);
	guest_spin(guest.a, BRIEF_US);
	/* A pause as brief as between two of these is billed: fewer of them. */
	for (int i = 0; i < LAUNCHES / 3; i++) {
		guest_spin(guest.b, BRIEF_US);
		guest_sync(guest.b);
	}
	guest_open();
	guest_sync_all();
	guest_done(NULL);
}

static void *open_ring(void *arg)
{
	guest_nap(RING_MS * 1000);
	guest_open();
	return NULL;
}

void behind_ring(char **args)
{
	CUevent event;

	begin_warm();
	event = guest_event();
	guest_go();
	guest_await(guest.a, 1);
	guest_thread(open_ring, NULL);
	for (int i = 0; i < LAUNCHES; i++) {
		guest_spin(guest.a, BRIEF_US / 4);
		if (i % 2)
			MUST(cuEventRecord(event, guest.a));
		else
			guest_nap(300);
	}
	guest_sync(guest.a);
	guest_done(NULL);
}

void behind_watched(char **args)
{
	begin_warm();
	for (uint64_t i = 1; i <= 30; i++) {
		guest_spin(guest.a, BRIEF_US);
		guest_write_word(guest.a, WORD_OTHER, i);
		guest_await_host(WORD_OTHER, i);
		guest_nap(1000);
	}
	guest_go();
	guest_await(guest.a, 1);
	launch_all(guest.a, 2 * LAUNCHES, BRIEF_US / 10);
	guest_open();
	guest_sync(guest.a);
	guest_done(NULL);
}

void behind_fan(char **args)
{
	CUstream stream[FAN];

	begin_warm();
	for (int i = 0; i < FAN; i++) {
		stream[i] = guest_stream();
		guest_spin(stream[i], BRIEF_US);
	}
	guest_sync_all();
	guest_go();
	for (int i = 0; i < FAN; i++) {
		guest_await(stream[i], 1);
		guest_spin(stream[i], BRIEF_US);
	}
	guest_open();
	guest_sync_all();
	guest_done(NULL);
}

void behind_blocked(char **args)
{
	double until_ms;

	begin_warm();
	guest_go();
	guest_await(guest.a, 1);
	guest_spin(guest.a, BRIEF_US);
	guest_nap(BLOCKED_MS * 1000 / 2);
	until_ms = guest_now_ms() + BLOCKED_MS / 2.0;
	while (guest_now_ms() < until_ms) {
		cuStreamQuery(guest.a);
		guest_nap(2000);
	}
	guest_open();
	guest_sync_all();
	guest_done(NULL);
}

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

static void CUDA_CB take_mutex(void *arg)
{
	pthread_mutex_lock(&mutex);
	pthread_mutex_unlock(&mutex);
}

void behind_mutex(char **args)
{
	begin_warm();
	guest_go();
	for (int i = 0; i < 4 * ROUNDS; i++) {
		pthread_mutex_lock(&mutex);
		MUST(cuLaunchHostFunc(guest.a, take_mutex, NULL));
		for (int k = 0; k < 10; k++) {
			guest_spin(guest.a, BRIEF_US);
			guest_spin(guest.b, BRIEF_US);
		}
		pthread_mutex_unlock(&mutex);
		guest_sync_all();
	}
	guest_done(NULL);
}

static _Atomic unsigned int asked, answered;

static void CUDA_CB ask(void *arg)
{
	unsigned int n = atomic_fetch_add(&asked, 1) + 1;

	while (atomic_load(&answered) < n)
		guest_nap(50);
}

static void *answer(void *arg)
{
	MUST(cuCtxSetCurrent(guest.context));
	for (unsigned int i = 1;; i++) {
		while (atomic_load(&asked) < i)
			guest_nap(50);
		guest_spin(guest.b, BRIEF_US);
		guest_sync(guest.b);
		atomic_store(&answered, i);
	}
	return NULL;
}

void behind_thread(char **args)
{
	begin_warm();
	guest_thread(answer, NULL);
	guest_go();
	for (int i = 0; i < STEPS; i++) {
		MUST(cuLaunchHostFunc(guest.a, ask, NULL));
		guest_spin(guest.a, BRIEF_US);
		if (i % 8 == 7)
			guest_sync(guest.a);
	}
	guest_sync_all();
	guest_done(NULL);
}

void behind_busy(char **args)
{
	begin_warm();
	guest_go();
	for (int i = 0; i < STEPS / 10; i++) {
		launch_all(guest.a, 10, STEP_US);
		guest_sync(guest.a);
	}
	guest_done(NULL);
}
