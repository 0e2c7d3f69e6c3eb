/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Events of this process, and waiting for them. The program signals an event itself, or a queue
 * does. When a queue cannot go on, all events for that kind of trouble are signalled.
 *
 * A signal ends the wait of every thread that waits for the event at that moment. When no thread
 * waits, the signal stays for the next one; an event that resets itself is taken by that thread.
 *
 * An event also has an age, the count of its signals. Threads that look at one event in turn would
 * otherwise miss a signal that another thread took. A thread that names the last age that it saw
 * does not wait when the age is another one by now.
 */
#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <time.h>

#include "amd/abi/kfd_criu.h"
#include "sim/kfd/memory.h"
#include "sim/kfd/queue.h"
#include "sim/kfd/user.h"

#define FOR_EVER UINT32_MAX

struct event {
	bool used, auto_reset, signaled;
	uint32_t type;
	uint32_t made;	   /* which of those that had this id it is */
	uint32_t nwaiters; /* for whom it has not come yet */
	uint64_t age;	   /* 0 is what a program names that knows of none */
	struct kfd_event_data data;
};
#define AGE_AT_FIRST 1

static struct event events[KFD_SIGNAL_EVENT_LIMIT + 1]; /* by id, from 1 on */
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;

void emu_events_forget(void)
{
	memset(events, 0, sizeof(events));
	pthread_cond_init(&changed, NULL);
}

static struct event *event_find(uint32_t id)
{
	return id && id <= KFD_SIGNAL_EVENT_LIMIT && events[id].used ? &events[id] : NULL;
}

/*
 * The program's memory for signals, by its handle, one for each process: none of its own pages.
 * Nothing is written there here.
 */
static int event_take_page(struct emu_machine *m, uint64_t handle)
{
	const struct emu_object *o = emu_object(m, handle);

	if (m->signal_handle || !o || !o->piece.key)
		return -EINVAL;
	m->signal_handle = handle;
	return 0;
}

/* The answer always has the page's offset: a program that finds none has no use for the slot. */
int emu_create_event(struct emu_machine *m, void *block)
{
	struct kfd_ioctl_create_event_args *a = block;
	uint32_t id = 1;
	int r = a->event_page_offset ? event_take_page(m, a->event_page_offset) : 0;

	if (r < 0)
		return r;
	while (id <= KFD_SIGNAL_EVENT_LIMIT && events[id].used)
		id++;
	if (id > KFD_SIGNAL_EVENT_LIMIT)
		return -ENOSPC;
	events[id] = (struct event){.used = true,
				    .auto_reset = a->auto_reset,
				    .type = a->event_type,
				    .age = AGE_AT_FIRST,
				    .made = events[id].made + 1};
	a->event_page_offset = EMU_OFFSET_EVENTS;
	a->event_id = id;
	a->event_trigger_data = id;
	a->event_slot_index = id - 1;
	return 0;
}

int emu_destroy_event(struct emu_machine *m, void *block)
{
	const struct kfd_ioctl_destroy_event_args *a = block;
	struct event *e = event_find(a->event_id);

	if (!e)
		return -EINVAL;
	e->used = false;
	pthread_cond_broadcast(&changed);
	return 0;
}

const void *emu_events(size_t *ret_bytes)
{
	*ret_bytes = sizeof(events);
	return events;
}

uint32_t emu_events_save(const void *theirs, struct kfd_criu_event_priv *ret)
{
	const struct event *e = theirs;
	uint32_t n = 0;

	for (uint32_t id = 1; id <= KFD_SIGNAL_EVENT_LIMIT; id++) {
		if (!e[id].used)
			continue;
		ret[n] = (struct kfd_criu_event_priv){.object_type = KFD_CRIU_OBJECT_TYPE_EVENT,
						      .event_id = id,
						      .auto_reset = e[id].auto_reset,
						      .type = e[id].type,
						      .signaled = e[id].signaled};
		ret[n++].memory_exception_data = e[id].data.memory_exception_data;
	}
	return n;
}

int emu_event_restore(const struct kfd_criu_event_priv *saved)
{
	struct event *e;

	if (!saved->event_id || saved->event_id > KFD_SIGNAL_EVENT_LIMIT)
		return -EINVAL;
	e = &events[saved->event_id];
	if (e->used)
		return -ENOSPC;
	*e = (struct event){.used = true,
			    .auto_reset = saved->auto_reset,
			    .signaled = saved->signaled,
			    .type = saved->type,
			    .age = AGE_AT_FIRST,
			    .made = e->made + 1};
	e->data.memory_exception_data = saved->memory_exception_data;
	return 0;
}

static void event_raise(struct event *e)
{
	e->signaled = !e->auto_reset || !e->nwaiters;
	e->nwaiters = 0; /* it came for all of them, as they find by its age */
	e->age++;
	pthread_cond_broadcast(&changed);
}

static bool event_is_programs(const struct event *e)
{
	return e && (e->type == KFD_IOC_EVENT_SIGNAL || e->type == KFD_IOC_EVENT_DEBUG_EVENT);
}

int emu_set_event(struct emu_machine *m, void *block)
{
	const struct kfd_ioctl_set_event_args *a = block;
	struct event *e = event_find(a->event_id);

	if (!event_is_programs(e))
		return -EINVAL;
	event_raise(e);
	return 0;
}

int emu_reset_event(struct emu_machine *m, void *block)
{
	const struct kfd_ioctl_reset_event_args *a = block;
	struct event *e = event_find(a->event_id);

	if (!event_is_programs(e))
		return -EINVAL;
	e->signaled = false;
	return 0;
}

void emu_raise_event(uint32_t id)
{
	struct event *e = event_find(id);

	if (e && e->type == KFD_IOC_EVENT_SIGNAL)
		event_raise(e);
}

static void event_raise_all(uint32_t type, const struct kfd_event_data *data)
{
	for (uint32_t id = 1; id <= KFD_SIGNAL_EVENT_LIMIT; id++) {
		if (!events[id].used || events[id].type != type)
			continue;
		events[id].data = *data;
		event_raise(&events[id]);
	}
}

void emu_raise_fault(uint32_t gpu_id, uint64_t address)
{
	struct kfd_event_data data = {.memory_exception_data = {.failure.NotPresent = 1,
								.va = address & ~UINT64_C(4095),
								.gpu_id = gpu_id}};

	event_raise_all(KFD_IOC_EVENT_MEMORY, &data);
}

void emu_raise_exception(uint32_t gpu_id)
{
	struct kfd_event_data data = {.hw_exception_data = {.gpu_id = gpu_id}};

	event_raise_all(KFD_IOC_EVENT_HW_EXCEPTION, &data);
}

struct waiter {
	uint32_t n;
	bool all;
	struct {
		uint32_t id, made;
		uint64_t age; /* when it began to wait */
		bool came, names_age;
	} of[KFD_SIGNAL_EVENT_LIMIT];
};

/* The i-th that it waits for; NULL: that was destroyed. */
static struct event *event_of_waiter(const struct waiter *w, uint32_t i)
{
	struct event *e = event_find(w->of[i].id);

	return e && e->made == w->of[i].made ? e : NULL;
}

static int event_read_waiter(const struct kfd_ioctl_wait_events_args *a, struct waiter *w)
{
	w->n = a->num_events;
	w->all = a->wait_for_all;
	if (w->n > KFD_SIGNAL_EVENT_LIMIT)
		return -EINVAL;
	for (uint32_t i = 0; i < w->n; i++) {
		struct kfd_event_data data;
		const struct event *e;

		if (user_copy_in(&data, a->events_ptr + (uint64_t)i * sizeof(data), sizeof(data)) <
		    0)
			return -EFAULT;
		e = event_find(data.event_id);
		if (!e)
			return -EINVAL;
		w->of[i].id = data.event_id;
		w->of[i].made = e->made;
		w->of[i].age = e->age;
		w->of[i].names_age =
			e->type == KFD_IOC_EVENT_SIGNAL && data.signal_event_data.last_event_age;
		w->of[i].came =
			w->of[i].names_age && data.signal_event_data.last_event_age != e->age;
	}
	return 0;
}

/* Takes events that reset themselves. One that has not come has a waiter more. */
static void event_begin_wait(struct waiter *w)
{
	for (uint32_t i = 0; i < w->n; i++) {
		struct event *e = &events[w->of[i].id];

		w->of[i].came |= e->signaled;
		e->signaled &= !e->auto_reset;
		e->nwaiters += !w->of[i].came;
	}
}

/* The answer to a thread that waits; TIMEOUT: nothing was signalled yet. */
static uint32_t event_look_at_waiter(struct waiter *w)
{
	uint32_t came = 0;

	for (uint32_t i = 0; i < w->n; i++) {
		const struct event *e = event_of_waiter(w, i);

		if (!e)
			return KFD_IOC_WAIT_RESULT_FAIL;
		w->of[i].came |= e->age != w->of[i].age;
		came += w->of[i].came;
	}
	return w->n && (w->all ? came < w->n : !came) ? KFD_IOC_WAIT_RESULT_TIMEOUT
						      : KFD_IOC_WAIT_RESULT_COMPLETE;
}

/*
 * A thread that wanted all of several events, and did not get all, takes none: what came is
 * signalled again.
 */
static void event_end_wait(const struct waiter *w, bool complete)
{
	for (uint32_t i = 0; i < w->n; i++) {
		struct event *e = event_of_waiter(w, i);

		if (!e)
			continue;
		if (!w->of[i].came)
			e->nwaiters -= e->age == w->of[i].age;
		else if (!complete && e->auto_reset)
			event_raise(e);
	}
}

static bool event_is_over(const struct timespec *deadline)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec > deadline->tv_sec ||
	       (now.tv_sec == deadline->tv_sec && now.tv_nsec >= deadline->tv_nsec);
}

static struct timespec event_in_ms(uint32_t ms)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	t.tv_sec += ms / 1000;
	t.tv_nsec += (long)(ms % 1000) * 1000000;
	if (t.tv_nsec >= 1000000000) {
		t.tv_nsec -= 1000000000;
		t.tv_sec++;
	}
	return t;
}

/* Some events say more than that they happened: their data goes to the program. */
static int event_tell_waiter(const struct kfd_ioctl_wait_events_args *a, const struct waiter *w)
{
	for (uint32_t i = 0; i < w->n; i++) {
		const struct event *e = &events[w->of[i].id];
		struct kfd_event_data data = e->data;
		size_t size = offsetof(struct kfd_event_data, kfd_event_data_ext);

		if (w->of[i].names_age) {
			data.signal_event_data.last_event_age = e->age;
			size = sizeof(data.signal_event_data);
		} else if (e->type != KFD_IOC_EVENT_MEMORY &&
			   e->type != KFD_IOC_EVENT_HW_EXCEPTION) {
			continue;
		}
		if (w->of[i].came &&
		    user_copy_out(a->events_ptr + i * sizeof(data), &data, size) < 0)
			return -EFAULT;
	}
	return 0;
}

int emu_wait_events(struct emu_machine *m, void *block)
{
	struct kfd_ioctl_wait_events_args *a = block;
	struct timespec deadline = event_in_ms(a->timeout == FOR_EVER ? 0 : a->timeout);
	struct waiter w;
	int r = event_read_waiter(a, &w);

	if (r < 0)
		return r;
	emu_queues_look(); /* a program that waits has just rung a doorbell, often */
	event_begin_wait(&w);
	while ((a->wait_result = event_look_at_waiter(&w)) == KFD_IOC_WAIT_RESULT_TIMEOUT) {
		if (a->timeout == FOR_EVER)
			emu_wait(&changed, NULL);
		else if (event_is_over(&deadline))
			break;
		else
			emu_wait(&changed, &deadline);
	}
	event_end_wait(&w, a->wait_result == KFD_IOC_WAIT_RESULT_COMPLETE);
	return a->wait_result == KFD_IOC_WAIT_RESULT_COMPLETE ? event_tell_waiter(a, &w) : 0;
}
