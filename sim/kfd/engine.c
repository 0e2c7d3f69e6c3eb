/* SPDX-License-Identifier: Apache-2.0 */
/* The thread that executes packets, and what becomes of a queue that cannot go on. */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <time.h>

#include "amd/abi/kfd.h"
#include "sim/kfd/queue.h"

/* Between two looks at the doorbells, when there was nothing to do at the last of them. */
#define PAUSE_LEAST_NS 20000
#define PAUSE_MOST_NS  1000000

static bool running;

void emu_engine_forget(void)
{
	running = false;
}

/* The queue is off its hardware for good, and the program is told by an event. */
static void engine_stop(struct emu_queue *q, enum queue_step why, uint64_t address)
{
	emu_queue_stop(q);
	emu_trace_stop(q, why == QUEUE_FAULT, address);
	if (why == QUEUE_FAULT)
		emu_raise_fault(q->gpu->gpu_id, address);
	else
		emu_raise_exception(q->gpu->gpu_id);
}

static bool engine_is_sdma(const struct emu_queue *q)
{
	return q->is.type != KFD_IOC_QUEUE_TYPE_COMPUTE &&
	       q->is.type != KFD_IOC_QUEUE_TYPE_COMPUTE_AQL;
}

/* PM4 is not emulated: such a queue is there, and no more. */
static bool engine_is_executed(const struct emu_queue *q)
{
	return q->used && q->is.active && q->is.type != KFD_IOC_QUEUE_TYPE_COMPUTE;
}

/* One packet, or part of a large one. */
static bool engine_step(struct emu_queue *q)
{
	struct queue_note note = {.event = 0};
	enum queue_step r;

	if (!engine_is_executed(q))
		return false;
	r = engine_is_sdma(q) ? sdma_step(q, &note) : aql_step(q, &note);
	emu_queue_set_busy(q, r != QUEUE_IDLE);
	if (r == QUEUE_FAULT || r == QUEUE_ILLEGAL)
		engine_stop(q, r, note.fault);
	else if (note.event)
		emu_raise_event(note.event);
	return r == QUEUE_WORKED;
}

static bool engine_step_all(const struct emu_machine *m)
{
	bool worked = false;
	uint32_t n;
	struct emu_queue *queues = emu_queues(&n);

	/* Pairs with the store of another process, criu.c: after it there is no step. */
	for (uint32_t i = 0; i < n && !__atomic_load_n(&m->evicted, __ATOMIC_SEQ_CST); i++)
		worked |= engine_step(&queues[i]);
	return worked;
}

static bool engine_has_doorbells(void)
{
	uint32_t n;
	const struct emu_queue *queues = emu_queues(&n);

	for (uint32_t i = 0; i < n; i++)
		if (engine_is_executed(&queues[i]))
			return true;
	return false;
}

/* Doorbells tell nobody that they are rung; all else that there may be to do is told. */
static void engine_rest(long *pause_ns)
{
	struct timespec until;

	clock_gettime(CLOCK_MONOTONIC, &until);
	until.tv_nsec += *pause_ns;
	if (until.tv_nsec >= 1000000000) {
		until.tv_nsec -= 1000000000;
		until.tv_sec++;
	}
	if (emu_queues_rest(engine_has_doorbells() ? &until : NULL))
		*pause_ns = PAUSE_LEAST_NS;
	else if (*pause_ns < PAUSE_MOST_NS)
		*pause_ns *= 2;
}

static void *engine_run_queues(void *unused)
{
	const struct emu_machine *m = emu_lock();
	long pause_ns = PAUSE_LEAST_NS;

	for (;;) {
		if (!engine_step_all(m)) {
			engine_rest(&pause_ns);
			continue;
		}
		pause_ns = PAUSE_LEAST_NS;
		emu_unlock(); /* ioctls get their turn between packets */
		sched_yield();
		emu_lock();
	}
	return unused;
}

/* The program's signals are not for this thread. */
int emu_engine_start(void)
{
	sigset_t all, before;
	pthread_attr_t attr;
	pthread_t thread;
	int err;

	if (running)
		return 0;
	pthread_attr_init(&attr);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	err = pthread_create(&thread, &attr, engine_run_queues, NULL);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	pthread_attr_destroy(&attr);
	running = !err;
	return err ? -ENOMEM : 0;
}

int emu_create_queue(struct emu_machine *m, void *block)
{
	int r = emu_engine_start();

	if (r == 0)
		r = emu_add_queue(m, block);
	if (r == 0)
		emu_queues_look();
	return r;
}
