/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/movable/order.h"

#include <sched.h>

#include "base/lock.h"
#include "base/number.h"
#include "guest/memory/memory.h"

/* Never the same for two threads of a process, which a thread's address is. */
static uint64_t order_thread(void)
{
	static _Thread_local uint64_t mine __attribute__((tls_model("initial-exec")));
	static _Atomic uint64_t last;

	if (!mine)
		mine = atomic_fetch_add(&last, 1) + 1;
	return mine;
}

void orders_init(struct orders *orders)
{
	orders->used = ORDER_UNKNOWN + 1;
}

struct order_name order_name(CUstream stream)
{
	struct order_name name = {.stream = stream ? stream : CU_STREAM_LEGACY};

	if (name.stream == CU_STREAM_LEGACY || name.stream == CU_STREAM_PER_THREAD)
		DRIVER(cuCtxGetCurrent, (&name.context));
	if (name.stream == CU_STREAM_PER_THREAD)
		name.thread = order_thread();
	return name;
}

static bool order_is(const struct order *order, const struct order_name *name)
{
	return order->name.stream == name->stream && order->name.context == name->context &&
	       order->name.thread == name->thread;
}

uint16_t order_find(struct orders *orders, const struct order_name *name)
{
	uint16_t *hint = &orders->hint[(uintptr_t)name->stream / 16 % 64];

	if (order_is(&orders->order[*hint], name))
		return *hint;
	for (uint16_t i = ORDER_UNKNOWN + 1; i < orders->used; i++)
		if (order_is(&orders->order[i], name))
			return *hint = i;
	return SLAB_READY;
}

static bool order_is_passed(const struct orders *orders, uint16_t order)
{
	return orders->order[order].freed <= orders->passed[order];
}

/* One of which nothing is pending tells nothing any more: it may be another's. */
static uint16_t order_take(struct orders *orders)
{
	for (uint16_t i = ORDER_UNKNOWN + 1; i < orders->used; i++)
		if (!orders->order[i].name.stream && !orders->order[i].busy &&
		    order_is_passed(orders, i))
			return i;
	if (orders->used < ORDERS)
		return orders->used++;
	for (uint16_t i = ORDER_UNKNOWN + 1; i < orders->used; i++)
		if (!orders->order[i].busy && order_is_passed(orders, i))
			return i;
	return ORDER_UNKNOWN;
}

static CUcontext order_context(const struct order_name *name)
{
	CUcontext context = name->context;

	if (!context)
		DRIVER(cuStreamGetCtx, (name->stream, &context));
	return context;
}

uint16_t order_make(struct guest *guest, struct orders *orders, struct lock_own_pools *lock,
		    const struct order_name *name)
{
	struct order made = {.name = *name, .context = order_context(name),
			     .device = memory_stream_device(guest, name->stream)};
	CUevent stale = NULL;
	uint16_t at;

	if (!made.context || !made.device)
		return SLAB_READY;
	lock_take(lock);
	at = order_find(orders, name);
	if (at == SLAB_READY)
		at = order_take(orders);
	else
		made.context = NULL; /* another thread was faster */
	if (at != ORDER_UNKNOWN && made.context) {
		if (orders->order[at].context == made.context)
			made.event = orders->order[at].event;
		else
			stale = orders->order[at].event;
		made.freed = orders->order[at].freed;
		orders->order[at] = made;
	}
	lock_drop(lock);
	if (stale)
		DRIVER(cuEventDestroy_v2, (stale));
	return at;
}

uint64_t order_free(struct orders *orders, uint16_t order)
{
	return orders->order[order].freed = atomic_fetch_add(&orders->number, 1) + 1;
}

bool order_want(struct orders *orders, uint16_t order)
{
	bool any = false;

	for (uint16_t i = ORDER_UNKNOWN; !any && i < orders->used; i++)
		any = i != order && !order_is_passed(orders, i);
	orders->wishes += any;
	return any;
}

/* --- Events --------------------------------------------------------------------------------- */

/* An event is of the context that its stream is of, and that has to be current. */
static bool order_enter(CUcontext context)
{
	CUcontext current = NULL;

	DRIVER(cuCtxGetCurrent, (&current));
	return current != context && !DRIVER(cuCtxPushCurrent_v2, (context));
}

static void order_leave(bool entered)
{
	CUcontext popped;

	if (entered)
		DRIVER(cuCtxPopCurrent_v2, (&popped));
}

bool order_begin_mark(struct orders *orders, uint16_t order)
{
	struct order *o = &orders->order[order];

	if (order == ORDER_UNKNOWN || o->busy || o->marked || o->answered == orders->wishes ||
	    order_is_passed(orders, order))
		return false;
	return o->busy = true;
}

static bool order_record(struct order *o)
{
	bool entered = order_enter(o->context);
	CUresult e = CUDA_SUCCESS;

	if (!o->event)
		e = DRIVER(cuEventCreate, (&o->event, CU_EVENT_DISABLE_TIMING));
	if (!e)
		e = DRIVER(cuEventRecord, (o->event, o->name.stream));
	order_leave(entered);
	return !e;
}

/* The event is this thread's, and nobody gives the order to another stream. */
void order_mark(struct orders *orders, struct lock_own_pools *lock, uint16_t order)
{
	struct order *o = &orders->order[order];
	uint64_t covers, wish;
	bool there, done;

	lock_take(lock);
	covers = o->freed;
	wish = orders->wishes;
	there = o->busy; /* or its context has ended */
	lock_drop(lock);
	done = there && order_record(o);
	lock_take(lock);
	o->marked = done ? covers : 0;
	o->answered = wish;
	o->busy = false;
	lock_drop(lock);
}

/* The next one at or behind `from` whose event is out; 0: there is none. */
static uint16_t order_begin_look(struct orders *orders, struct lock_own_pools *lock, uint16_t from)
{
	uint16_t found = 0;

	lock_take(lock);
	for (uint16_t i = from; !found && i < orders->used; i++)
		if (orders->order[i].marked && !orders->order[i].busy) {
			orders->order[i].busy = true;
			found = i;
		}
	lock_drop(lock);
	return found;
}

void order_poll(struct orders *orders, struct lock_own_pools *lock)
{
	CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
	uint16_t i = ORDER_UNKNOWN;

	DRIVER(cuThreadExchangeStreamCaptureMode, (&mode));
	while ((i = order_begin_look(orders, lock, i + 1))) {
		struct order *o = &orders->order[i];
		bool entered = order_enter(o->context);
		CUresult e = DRIVER(cuEventQuery, (o->event));

		order_leave(entered);
		lock_take(lock);
		if (!e)
			order_pass(orders, i, o->marked);
		if (e != CUDA_ERROR_NOT_READY)
			o->marked = 0;
		o->busy = false;
		lock_drop(lock);
	}
	DRIVER(cuThreadExchangeStreamCaptureMode, (&mode));
}

/* --- What is done --------------------------------------------------------------------------- */

void order_pass(struct orders *orders, uint16_t order, uint64_t number)
{
	orders->passed[order] = max_u64(orders->passed[order], number);
}

void order_pass_context(struct orders *orders, CUcontext context, uint64_t number)
{
	for (uint16_t i = ORDER_UNKNOWN; i < orders->used; i++)
		if (!context || orders->order[i].context == context)
			order_pass(orders, i, number);
}

/* A thread that looks at its event takes less than a microsecond. */
static uint16_t order_begin_end(struct orders *orders, struct lock_own_pools *lock,
				const struct order_name *name)
{
	uint16_t order;

	for (;; sched_yield()) {
		lock_take(lock);
		order = order_find(orders, name);
		if (order == SLAB_READY || !orders->order[order].busy)
			break;
		lock_drop(lock);
	}
	if (order && !order_is_passed(orders, order))
		orders->order[order].busy = true;
	else if (order)
		orders->order[order].name = (struct order_name){0};
	order = order && orders->order[order].busy ? order : SLAB_READY;
	lock_drop(lock);
	return order;
}

void order_end(struct orders *orders, struct lock_own_pools *lock, const struct order_name *name)
{
	uint16_t order = order_begin_end(orders, lock, name);

	if (order == SLAB_READY)
		return;
	order_mark(orders, lock, order);
	lock_take(lock);
	orders->order[order].name = (struct order_name){0};
	lock_drop(lock);
}

void order_forget_context(struct orders *orders, CUcontext context)
{
	for (uint16_t i = ORDER_UNKNOWN + 1; i < orders->used; i++) {
		struct order *o = &orders->order[i];

		if (o->context != context)
			continue;
		order_pass(orders, i, o->freed);
		*o = (struct order){.freed = o->freed};
	}
}
