/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Events. Each record makes a new mark, so that a wait means the record that came before it,
 * whatever is recorded later. Events between processes are not simulated.
 */
#include "sim/cuda/event.h"

#include <stdio.h>
#include <stdlib.h>

#include "sim/cuda/sim.h"

CUresult event_lookup(CUevent handle, struct sim_event **ret_event)
{
	struct sim_event *event = (struct sim_event *)handle;
	CUresult error = sim_ready();

	if (error) /* a forked child: it has the struct, but no thread would complete the event */
		return error;
	if (event && event->magic == EVENT_GONE) {
		fprintf(stderr, "simulated driver: an event is used after it was destroyed, which "
			"ends a program on a device, too\n");
		abort();
	}
	if (!event || event->magic != EVENT_MAGIC)
		return CUDA_ERROR_INVALID_HANDLE;
	*ret_event = event;
	return CUDA_SUCCESS;
}

struct sim_mark *event_mark(struct sim_event *event)
{
	struct sim_mark *mark;

	pthread_mutex_lock(&event->lock);
	mark = event->mark ? mark_ref(event->mark) : NULL;
	pthread_mutex_unlock(&event->lock);
	return mark;
}

struct sim_mark *event_record(struct sim_event *event)
{
	struct sim_mark *mark = mark_new(), *before;

	if (!mark)
		return NULL;
	pthread_mutex_lock(&event->lock);
	before = event->mark;
	event->mark = mark_ref(mark);
	pthread_mutex_unlock(&event->lock);
	mark_unref(before);
	return mark;
}
