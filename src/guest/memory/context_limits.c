/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/memory/context_limits.h"

#include "guest/account/charge.h"
#include "guest/account/context.h"
#include "guest/account/granule.h"
#include "guest/account/holder.h"
#include "guest/account/state.h"
#include "guest/core/object.h"

/*
 * The device whose `limits` this thread has taken, or NULL. If two threads set a limit at once, the
 * driver's value and the recorded one could differ. A probe for backing sets the limit, too.
 */
static _Thread_local const struct guest_device *limits_mine
	__attribute__((tls_model("initial-exec")));

bool context_limits_has(CUlimit limit)
{
	return limit == CU_LIMIT_STACK_SIZE || limit == CU_LIMIT_MALLOC_HEAP_SIZE ||
	       limit == CU_LIMIT_PRINTF_FIFO_SIZE;
}

/* The bytes that a context of the device takes for a limit of that value, beyond its first one. */
static uint64_t limits_bytes(const struct guest_device *device, CUlimit limit, uint64_t first,
			     uint64_t value)
{
	uint64_t unit = limit == CU_LIMIT_STACK_SIZE ? device->stack_threads : 1, bytes;

	if (value <= first)
		return 0;
	/* A heap takes a granule more than was asked for. */
	if (__builtin_mul_overflow(value - first, unit, &bytes) || bytes > QUOTA_RESERVE_MAX)
		return QUOTA_RESERVE_MAX;
	return round_up(limit == CU_LIMIT_MALLOC_HEAP_SIZE ? value + GRANULE_BYTES : bytes,
			GRANULE_BYTES);
}

static uint64_t *limits_of(struct object *limits, CUlimit limit)
{
	return limit == CU_LIMIT_STACK_SIZE	     ? &limits->limits.stack
	       : limit == CU_LIMIT_MALLOC_HEAP_SIZE ? &limits->limits.heap
						     : &limits->limits.fifo;
}

static uint64_t *limits_first(struct object *limits, CUlimit limit)
{
	return limit == CU_LIMIT_STACK_SIZE	     ? &limits->limits.first_stack
	       : limit == CU_LIMIT_MALLOC_HEAP_SIZE ? &limits->limits.first_heap
						     : &limits->limits.first_fifo;
}

struct change {
	const struct guest_device *device;
	CUlimit limit;
	uint64_t before, value; /* of the limit, as the driver says */
	uint64_t from, to;	/* bytes, written by what changes the object */
};

/* The first value that is seen of a limit is the one that the context began with. */
static bool limits_change(struct object *limits, void *arg)
{
	struct change *change = arg;
	uint64_t *first = limits_first(limits, change->limit);
	uint64_t *bytes = limits_of(limits, change->limit);

	limits->device = (int16_t)change->device->ordinal;
	if (!*first)
		*first = change->before;
	change->from = *bytes;
	change->to = limits_bytes(change->device, change->limit, *first, change->value);
	*bytes = change->to;
	return true;
}

static bool limits_ask(struct object *limits, void *arg)
{
	struct change *change = arg;
	uint64_t first = *limits_first(limits, change->limit);

	change->from = *limits_of(limits, change->limit);
	change->to = limits_bytes(change->device, change->limit, first ? first : change->before,
				  change->value);
	return limits->limits.first_stack || limits->limits.first_heap || limits->limits.first_fifo;
}

/* The sum over the device's contexts: of memory that is taken at once, or not yet. */
static _Atomic uint64_t *limits_sum(struct guest_device *device, CUlimit limit)
{
	return limit == CU_LIMIT_STACK_SIZE ? &device->account->stack_bytes : &device->account->promised_bytes;
}

/* Inside of a call, after the driver has set it: records what is so now. */
static void limits_record(struct guest *guest, struct guest_device *device, uint64_t key,
			  struct change *change)
{
	size_t after = 0;

	DRIVER(cuCtxGetLimit, (&after, change->limit));
	change->value = after;
	object_change(guest->objects, OBJECT_LIMITS, key, true, limits_change, change);
	atomic_fetch_add(limits_sum(device, change->limit), change->to - change->from);
}

/* A promise is in no figure of the driver's. */
static bool limits_is_promise(CUlimit limit)
{
	return limit != CU_LIMIT_STACK_SIZE;
}

static void limits_release_end(struct guest *guest, struct guest_device *device, CUlimit limit,
			       uint64_t bytes)
{
	if (limits_is_promise(limit))
		charge_release_end_unseen(guest, device, CAT_CONTEXT, bytes);
	else
		charge_release_end(guest, device, CAT_CONTEXT, bytes);
}

/* Never refused: what a limit took goes, or it stays as it is. */
static CUresult limits_lower(struct guest *guest, struct guest_device *device, uint64_t key,
			     struct change *change, size_t value)
{
	uint64_t less = 0;
	CUresult e;

	charge_release_begin(device);
	e = DRIVER(cuCtxSetLimit, (change->limit, value));
	if (!e) {
		limits_record(guest, device, key, change);
		less = change->from - change->to;
	}
	limits_release_end(guest, device, change->limit, less);
	if (less)
		charge_stale(guest, device);
	return e;
}

static CUresult limits_raise(struct guest *guest, struct guest_device *device, uint64_t key,
			     struct change *change, size_t value)
{
	struct change back = {.device = device, .limit = change->limit, .before = change->before};
	struct charge charge;
	CUresult e = charge_reserve(guest, device, change->to - change->from, &charge);

	if (e)
		return e;
	e = DRIVER(cuCtxSetLimit, (change->limit, value));
	if (e) {
		charge_cancel(&charge);
		return e;
	}
	limits_record(guest, device, key, change);
	charge.unseen = limits_is_promise(change->limit);
	charge_commit(&charge, CAT_CONTEXT, change->to - change->from);
	charge_stale(guest, device);
	/* Where the driver took more than that, all of it goes back. */
	if (!charge_over(guest, device) ||
	    limits_lower(guest, device, key, &back, (size_t)change->before))
		return CUDA_SUCCESS;
	quota_count_refusal(atomic_load(&guest->slot), device->ledger);
	return CUDA_ERROR_OUT_OF_MEMORY;
}

static CUresult limits_set(struct guest *guest, struct guest_device *device, CUlimit limit,
			   size_t value)
{
	uint64_t key = (uint64_t)(uintptr_t)context_of_memory(guest);
	struct change change = {.device = device, .limit = limit, .value = value};
	size_t before = 0;

	DRIVER(cuCtxGetLimit, (&before, limit));
	change.before = before;
	object_change(guest->objects, OBJECT_LIMITS, key, true, limits_ask, &change);
	return change.to > change.from ? limits_raise(guest, device, key, &change, value)
				       : limits_lower(guest, device, key, &change, value);
}

CUresult context_limits_set(struct guest *guest, struct guest_device *device, CUlimit limit,
			    size_t value)
{
	CUresult e;

	serial_begin(&device->account->limits);
	limits_mine = device;
	e = limits_set(guest, device, limit, value);
	limits_mine = NULL;
	serial_end(&device->account->limits);
	return e;
}

void context_limits_forget(struct guest *guest, struct guest_device *device, CUcontext context)
{
	struct object limits;

	if (!object_take(guest->objects, OBJECT_LIMITS, (uint64_t)(uintptr_t)context, &limits))
		return;
	atomic_fetch_sub(&device->account->stack_bytes, limits.limits.stack);
	atomic_fetch_sub(&device->account->promised_bytes, limits.limits.heap + limits.limits.fifo);
	charge_release_begin(device);
	charge_release_end(guest, device, CAT_CONTEXT, limits.limits.stack);
	charge_release_begin(device);
	charge_release_end_unseen(guest, device, CAT_CONTEXT,
				  limits.limits.heap + limits.limits.fifo);
}

/* --- Whether a promise was kept -------------------------------------------------------------- */

static bool limits_is_backed(CUlimit limit)
{
	size_t value = 0;

	return !DRIVER(cuCtxGetLimit, (&value, limit)) &&
	       DRIVER(cuCtxSetLimit, (limit, value)) == CUDA_ERROR_INVALID_VALUE;
}

static bool limits_take_promise(struct object *limits, void *arg)
{
	struct change *change = arg;
	uint64_t *bytes = limits_of(limits, change->limit);

	change->from = *bytes;
	*bytes = 0;
	return true;
}

/*
 * It stands in the driver's figure from now on: the look that follows charges it by that, where the
 * ledger keeps what the figure has.
 */
static void limits_kept(struct guest *guest, struct guest_device *device, uint64_t key,
			CUlimit limit)
{
	struct change change = {.limit = limit};

	if (!object_change(guest->objects, OBJECT_LIMITS, key, false, limits_take_promise, &change))
		return;
	atomic_fetch_sub(&device->account->promised_bytes, change.from);
	if (guest_by_driver(guest))
		quota_release(atomic_load(&guest->slot), device->ledger, CAT_CONTEXT, change.from);
}

static void limits_look(struct guest *guest, struct guest_device *device, struct object *limits)
{
	CUcontext context = (CUcontext)(uintptr_t)limits->key, popped;

	if ((!limits->limits.heap && !limits->limits.fifo) ||
	    DRIVER(cuCtxPushCurrent_v2, (context)))
		return;
	if (limits->limits.heap && limits_is_backed(CU_LIMIT_MALLOC_HEAP_SIZE))
		limits_kept(guest, device, limits->key, CU_LIMIT_MALLOC_HEAP_SIZE);
	if (limits->limits.fifo && limits_is_backed(CU_LIMIT_PRINTF_FIFO_SIZE))
		limits_kept(guest, device, limits->key, CU_LIMIT_PRINTF_FIFO_SIZE);
	DRIVER(cuCtxPopCurrent_v2, (&popped));
}

static void limits_look_each(struct guest *guest, struct guest_device *device)
{
	CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
	struct object *limits;

	/* A context that ends meanwhile waits for this, as it is a call. */
	charge_release_begin(device);
	DRIVER(cuThreadExchangeStreamCaptureMode, (&mode));
	OBJECT_EACH (limits, guest->objects, OBJECT_LIMITS)
		if (limits->device == device->ordinal)
			limits_look(guest, device, limits);
	DRIVER(cuThreadExchangeStreamCaptureMode, (&mode));
	charge_release_end(guest, device, CAT_CONTEXT, 0);
}

/* If another thread is setting a limit, every promise stays charged until the next look. */
static void limits_catch_up(struct guest *guest, struct guest_device *device)
{
	bool ours = limits_mine == device;

	if (!atomic_load(&device->account->promised_bytes) || (!ours && !serial_try(&device->account->limits)))
		return;
	limits_look_each(guest, device);
	if (!ours)
		serial_end(&device->account->limits);
}

static void limits_give_back(struct guest *guest, struct guest_device *device)
{
}

const struct holder context_limits_holder = {.catch_up = limits_catch_up,
					     .give_back = limits_give_back};
