/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Waits while a stream is captured, in each capture mode. All calls succeed.
 *
 *	capwait  a stream that is not captured waits for an event that is not done: in the capturing
 *	         thread, in another one, and in the captured stream as a node of the graph
 *	capfork  the capture reaches another stream by an event, and comes back by one
 */
#include "tests/waits/waits.h"

#include <pthread.h>
#include <stdio.h>

static const struct {
	const char *name;
	CUstreamCaptureMode mode;
} modes[] = {
	{"global", CU_STREAM_CAPTURE_MODE_GLOBAL},
	{"thread", CU_STREAM_CAPTURE_MODE_THREAD_LOCAL},
	{"relaxed", CU_STREAM_CAPTURE_MODE_RELAXED},
};

#define MODES (sizeof(modes) / sizeof(*modes))

/* What makes the stream wait. */
enum waiter { SAME_THREAD, OTHER_THREAD, NODE, WAITERS };

static const char *const waiter_names[] = {"same thread", "other thread", "node"};

/* Calls that failed, and the first of them. */
static int refused;
static char first[128];

static void note(const char *mode, const char *what, CUresult wait, CUresult end)
{
	if ((wait || end) && !refused++)
		snprintf(first, sizeof(first), "%s, %s: the wait answered %d, the capture's end %d",
			 mode, what, wait, end);
}

struct wait {
	CUevent event;
	CUresult answer;
};

static void *wait_elsewhere(void *arg)
{
	struct wait *wait = arg;

	MUST(cuCtxSetCurrent(guest.context));
	wait->answer = cuStreamWaitEvent(guest.b, wait->event, 0);
	return NULL;
}

static CUresult wait_for(CUevent event, enum waiter waiter)
{
	struct wait wait = {.event = event};
	pthread_t thread;

	if (waiter == SAME_THREAD)
		return cuStreamWaitEvent(guest.b, event, 0);
	if (waiter == NODE)
		return cuStreamWaitEvent(guest.c, event, EVENT_WAIT_EXTERNAL);
	if (pthread_create(&thread, NULL, wait_elsewhere, &wait))
		return CUDA_ERROR_OPERATING_SYSTEM;
	pthread_join(thread, NULL);
	return wait.answer;
}

/* Returns what the end of the capture answers. */
static CUresult end_capture(void)
{
	CUgraph graph = NULL;
	CUresult e = cuStreamEndCapture(guest.c, &graph);

	if (graph)
		cuGraphDestroy(graph);
	return e;
}

void capture_wait(char **args)
{
	CUevent event;
	uint64_t n = 0;

	guest_begin(0);
	guest_warm();
	event = guest_event();
	guest_go();
	for (size_t i = 0; i < MODES * WAITERS; i++) {
		enum waiter waiter = (enum waiter)(i % WAITERS);
		CUresult answer;

		guest_await(guest.a, ++n);
		MUST(cuEventRecord(event, guest.a));
		MUST(cuStreamBeginCapture_v2(guest.c, modes[i / WAITERS].mode));
		guest_spin(guest.c, BRIEF_US);
		answer = wait_for(event, waiter);
		note(modes[i / WAITERS].name, waiter_names[waiter], answer, end_capture());
		guest_open();
		guest_sync_all();
	}
	guest_done("\"refused\": %d, \"first\": \"%s\"", refused, first);
}

void capture_fork(char **args)
{
	CUevent there, back;

	guest_begin(0);
	guest_warm();
	there = guest_event();
	back = guest_event();
	guest_go();
	for (size_t i = 0; i < MODES; i++) {
		CUresult answer;

		MUST(cuStreamBeginCapture_v2(guest.c, modes[i].mode));
		guest_spin(guest.c, BRIEF_US);
		MUST(cuEventRecord(there, guest.c));
		answer = cuStreamWaitEvent(guest.b, there, 0);
		guest_spin(guest.b, BRIEF_US);
		MUST(cuEventRecord(back, guest.b));
		MUST(cuStreamWaitEvent(guest.c, back, 0));
		note(modes[i].name, "to another stream", answer, end_capture());
	}
	guest_done("\"refused\": %d, \"first\": \"%s\"", refused, first);
}
