/* SPDX-License-Identifier: Apache-2.0 */
/* In whose order memory was freed: when others may have it, before a driver that the test plays. */
#include "guest/movable/order.h"

#include <pthread.h>
#include <string.h>

#include "base/lock.h"
#include "tests/check.h"

#define STREAM(n)  ((CUstream)(uintptr_t)(0x1000 + (n) * 16))
#define CONTEXT(n) ((CUcontext)(uintptr_t)(0x100 + (n)))

static struct guest guest = {.ndevices = 1};
static struct orders orders;
static struct lock_own_pools lock;

/* Each event is one number here, and so is what came before it. */
static CUcontext current, below;
static unsigned int created, destroyed, recorded;
static CUstream recorded_in;
static CUresult answer; /* of all events */
static CUcontext context_of[1024];

static CUresult ctx_get_current(CUcontext *ret)
{
	*ret = current;
	return CUDA_SUCCESS;
}

static CUresult ctx_push(CUcontext context)
{
	CHECK(!below);
	below = current;
	current = context;
	return CUDA_SUCCESS;
}

static CUresult ctx_pop(CUcontext *ret)
{
	*ret = current;
	current = below;
	below = NULL;
	return CUDA_SUCCESS;
}

static CUresult ctx_get_device(CUdevice *ret)
{
	*ret = 0;
	return current ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
}

static CUresult stream_get_ctx(CUstream stream, CUcontext *ret)
{
	if (stream == STREAM(999))
		return CUDA_ERROR_INVALID_HANDLE;
	*ret = CONTEXT(0);
	return CUDA_SUCCESS;
}

static CUresult event_create(CUevent *ret, unsigned int flags)
{
	CHECK_EQ(flags, CU_EVENT_DISABLE_TIMING);
	context_of[++created] = current;
	*ret = (CUevent)(uintptr_t)created;
	return CUDA_SUCCESS;
}

static CUresult event_destroy(CUevent event)
{
	destroyed++;
	return CUDA_SUCCESS;
}

static CUresult event_record(CUevent event, CUstream stream)
{
	CHECK(context_of[(uintptr_t)event] == current);
	recorded++;
	recorded_in = stream;
	return CUDA_SUCCESS;
}

static CUresult event_query(CUevent event)
{
	CHECK(context_of[(uintptr_t)event] == current);
	return answer;
}

static CUresult exchange(CUstreamCaptureMode *mode)
{
	return CUDA_SUCCESS;
}

static void play(void)
{
	cuda_real.cuCtxGetCurrent = ctx_get_current;
	cuda_real.cuCtxPushCurrent_v2 = ctx_push;
	cuda_real.cuCtxPopCurrent_v2 = ctx_pop;
	cuda_real.cuCtxGetDevice = ctx_get_device;
	cuda_real.cuStreamGetCtx = stream_get_ctx;
	cuda_real.cuEventCreate = event_create;
	cuda_real.cuEventDestroy_v2 = event_destroy;
	cuda_real.cuEventRecord = event_record;
	cuda_real.cuEventQuery = event_query;
	cuda_real.cuThreadExchangeStreamCaptureMode = exchange;
	current = CONTEXT(0);
	memset(&orders, 0, sizeof(orders));
	orders_init(&orders);
	created = destroyed = recorded = 0;
	answer = CUDA_ERROR_NOT_READY;
}

static uint16_t find(CUstream stream)
{
	const struct order_name name = order_name(stream);

	return order_find(&orders, &name);
}

static uint16_t make(CUstream stream)
{
	const struct order_name name = order_name(stream);
	uint16_t order = order_make(&guest, &orders, &lock, &name);

	CHECK(order == ORDER_UNKNOWN || find(stream) == order);
	return order;
}

/* As a free does it. Whether an event was recorded. */
static bool free_in(uint16_t order)
{
	bool mark;

	order_free(&orders, order);
	mark = order_begin_mark(&orders, order);
	if (mark)
		order_mark(&orders, &lock, order);
	return mark;
}

static void *name_own(void *arg)
{
	*(struct order_name *)arg = order_name(CU_STREAM_PER_THREAD);
	return NULL;
}

static void check_names(void)
{
	struct order_name other;
	pthread_t thread;
	uint16_t order;

	play();
	CHECK_EQ(find(STREAM(0)), SLAB_READY);
	order = make(STREAM(0));
	CHECK(order > ORDER_UNKNOWN);
	CHECK_EQ(make(STREAM(0)), order);
	CHECK_EQ(find(NULL), SLAB_READY);
	CHECK_EQ(make(NULL), find(CU_STREAM_LEGACY));
	CHECK(make(CU_STREAM_PER_THREAD) != find(NULL));
	pthread_create(&thread, NULL, name_own, &other);
	pthread_join(thread, NULL);
	CHECK_EQ(order_find(&orders, &other), SLAB_READY);
	current = CONTEXT(1);
	CHECK_EQ(find(NULL), SLAB_READY);
	CHECK_EQ(find(CU_STREAM_PER_THREAD), SLAB_READY);
	CHECK_EQ(find(STREAM(0)), order);
	CHECK_EQ(order_make(&guest, &orders, &lock, &(struct order_name){.stream = STREAM(999)}),
		 SLAB_READY);
}

/* Nobody wants it: no event. */
static void check_events(void)
{
	uint16_t a, b;

	play();
	a = make(STREAM(1));
	b = make(STREAM(2));
	CHECK(!free_in(a) && !free_in(b));
	CHECK(order_want(&orders, b));
	current = CONTEXT(1);
	CHECK(free_in(a)); /* the third */
	CHECK(recorded == 1 && recorded_in == STREAM(1) && current == CONTEXT(1));
	CHECK(!free_in(a)); /* one is out already */
	order_poll(&orders, &lock);
	CHECK_EQ(orders.passed[a], 0);
	answer = CUDA_SUCCESS;
	order_poll(&orders, &lock);
	CHECK_EQ(orders.passed[a], 3); /* not the fourth, which came behind it */
	CHECK(!free_in(a));
	CHECK(order_want(&orders, b));
	CHECK(free_in(a));
	CHECK(created == 1 && recorded == 2);
	order_pass(&orders, a, 6);
	order_pass(&orders, a, 5);
	CHECK_EQ(orders.passed[a], 6);
	CHECK(!order_want(&orders, b)); /* b's own is of no interest to it */
	CHECK(order_want(&orders, a));
}

/* An order whose stream ends, whose context ends; its place is another's only when all is done. */
static void check_ends(void)
{
	const struct order_name name = order_name(STREAM(3));
	uint16_t a, b, c;

	play();
	a = make(STREAM(3));
	free_in(a);
	order_end(&orders, &lock, &name);
	CHECK(recorded == 1 && find(STREAM(3)) == SLAB_READY);
	b = make(STREAM(3)); /* the same handle, and another stream */
	CHECK(a != b);
	answer = CUDA_SUCCESS;
	order_poll(&orders, &lock);
	CHECK_EQ(orders.passed[a], 1);
	order_end(&orders, &lock, &name); /* it freed nothing */
	CHECK_EQ(recorded, 1);
	CHECK_EQ(make(STREAM(4)), a);
	c = make(NULL);
	free_in(a);
	free_in(c);
	order_pass_context(&orders, CONTEXT(1), 3);
	CHECK(orders.passed[a] == 1 && orders.passed[c] == 0);
	order_pass_context(&orders, CONTEXT(0), 2);
	CHECK(orders.passed[a] == 2 && orders.passed[c] == 2);
	free_in(a);
	order_forget_context(&orders, CONTEXT(0));
	CHECK_EQ(orders.passed[a], 4);
	CHECK(find(STREAM(4)) == SLAB_READY && find(NULL) == SLAB_READY);
	order_poll(&orders, &lock);
	CHECK_EQ(destroyed, 0); /* they went with it */
	free_in(ORDER_UNKNOWN);
	order_pass_context(&orders, NULL, 5);
	CHECK_EQ(orders.passed[ORDER_UNKNOWN], 5);
}

static void check_many(void)
{
	play();
	for (int i = ORDER_UNKNOWN + 1; i < ORDERS; i++)
		free_in(make(STREAM(1 + i)));
	CHECK_EQ(make(STREAM(1)), ORDER_UNKNOWN);
	order_pass(&orders, 100, 98);
	CHECK_EQ(make(STREAM(1)), ORDER_UNKNOWN);
	order_pass(&orders, 100, 99);
	CHECK_EQ(make(STREAM(1)), 100);
	CHECK_EQ(make(STREAM(1)), 100);
	order_free(&orders, 100);
	CHECK_EQ(find(STREAM(1 + 100)), SLAB_READY);
}

int main(void)
{
	check_names();
	check_events();
	check_ends();
	check_many();
	return 0;
}
