/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Contexts. A bound of what the next one may take is reserved (account/context.h), and what it took is
 * charged by the driver's figure as soon as it is made.
 */

#include "base/fault.h"
#include "base/now.h"
#include "base/number.h"
#include "guest/account/calls.h"
#include "guest/account/context.h"
#include "guest/account/figure.h"
#include "guest/account/later.h"
#include "guest/account/room.h"
#include "guest/account/state.h"
#include "guest/core/hook.h"
#include "guest/core/library.h"
#include "guest/core/space.h"
#include "guest/launch/waits.h"
#include "guest/memory/allocator.h"
#include "guest/memory/context_limits.h"
#include "guest/memory/memory.h"
#include "guest/memory/pool.h"
#include "guest/memory/state.h"
#include "guest/movable/backing.h"

CUresult hook_cuInit(unsigned int Flags)
{
	struct guest *guest;
	CUresult e;

	if (!library_present(&library_cuda))
		return CUDA_ERROR_SHARED_OBJECT_INIT_FAILED;
	if (guest_inside())
		return cuda_real.cuInit(Flags);
	guest = guest_get();
	if (guest_mode(guest) == GUEST_CLOSED)
		return guest_refusal(guest);
	if (guest_mode(guest) == GUEST_LIMITED && !atomic_load(&guest->slot)) {
		e = space_expect(guest);
		if (e)
			return e;
		figure_expect_any(guest);
	}
	e = DRIVER(cuInit, (Flags));
	return e ? e : limited_attach(guest);
}

static CUresult context_refuse(struct guest *guest, struct guest_device *device)
{
	quota_count_refusal(atomic_load(&guest->slot), device->ledger);
	return CUDA_ERROR_OUT_OF_MEMORY;
}

/* A context on its way: what is reserved for it, and whether this thread goes alone until it is made. */
struct making {
	struct charge charge;
	uint64_t extra; /* of what is made beside it in the same call */
	bool near;	/* the limit, so that the figure decides */
	bool bound;	/* more than it takes is reserved, since its size is not known */
	bool alone;
};

/* Of several processes that begin at once the last waits for all others, on a slow machine. */
#define SIZE_WAIT_NS UINT64_C(3000000000)
#define SIZE_NAP_NS  1000000

/*
 * An upper bound, or all that is left of a smaller quota: memory by other APIs may be there before the
 * first context. With less left than a context takes, none is made.
 */
static uint64_t context_unknown(struct guest *guest, struct guest_device *device, uint64_t extra)
{
	uint64_t limit = charge_limit(guest, device);
	uint64_t held = sat_sub_u64(quota_used(guest->ledger, device->ledger),
				    quota_pending(guest->ledger, device->ledger));
	uint64_t left = max_u64(sat_sub_u64(limit, held), min_u64(limit, CONTEXT_UNSEEN_BYTES));

	return min_u64(context_bound(guest, device) + extra, left);
}

/*
 * No context of the tenant was measured on the device yet. That much is reserved,
 * so that nobody else is admitted before this context was measured. Others that wait
 * for such a context continue with its size. No other call of the process may disturb the
 * measurement.
 */
static bool context_try_unknown(struct guest *guest, struct guest_device *device,
				struct making *making)
{
	uint64_t until = now_monotonic_ns() + SIZE_WAIT_NS, bytes;
	bool pending;

	for (;;) {
		calls_begin_alone(device);
		bytes = context_unknown(guest, device, making->extra);
		making->alone = !context_size(guest, device);
		if (making->alone && charge_try_bound(guest, device, bytes, &making->charge))
			return true;
		calls_end_alone(device);
		pending = quota_pending(guest->ledger, device->ledger);
		if (!making->alone || now_monotonic_ns() > until ||
		    (!charge_clear_dead(guest, device) && !pending))
			break;
		nap_ns(SIZE_NAP_NS);
	}
	making->alone = false;
	return false;
}

/* Returns true if `bytes` fit beside all that is charged, whatever calls of the tenant have reserved. */
static bool context_fits_charges(struct guest *guest, struct guest_device *device, uint64_t bytes)
{
	uint64_t pending = quota_pending(guest->ledger, device->ledger);
	uint64_t used = quota_used(guest->ledger, device->ledger);
	uint64_t limit = charge_limit(guest, device);

	return bytes <= limit && used - min_u64(pending, used) <= limit - bytes;
}

/*
 * A context on its way has a bound reserved until its size was charged, and may stand in the driver's
 * figure, too. So another one is refused only after a try during which no call of the tenant had
 * anything reserved, or the wait was long enough.
 */
static CUresult context_reserve(struct guest *guest, struct guest_device *device, uint64_t extra,
				struct charge *ret)
{
	uint64_t until = now_monotonic_ns() + SIZE_WAIT_NS, bytes;
	bool quiet;

	for (;;) {
		bytes = context_bound(guest, device) + extra;
		quiet = !quota_pending(guest->ledger, device->ledger);
		if (charge_try(guest, device, bytes, ret))
			return CUDA_SUCCESS;
		quiet = quiet && !quota_pending(guest->ledger, device->ledger);
		if (quiet || !context_fits_charges(guest, device, bytes) ||
		    now_monotonic_ns() > until)
			return charge_reserve(guest, device, bytes, ret);
		nap_ns(SIZE_NAP_NS);
	}
}

static CUresult context_begin(struct guest *guest, struct guest_device *device, uint64_t extra,
			      struct making *making)
{
	CUresult e = space_context(guest);

	*making = (struct making){.extra = extra, .near = figure_will_be_near(guest, device)};
	if (e)
		return e;
	figure_expect(guest, device);
	/* Far from the limit a bound fits, and nobody waits for the figure. */
	making->bound = !context_size(guest, device);
	if (making->bound && making->near) {
		/* Contexts that live here tell the size, or a closer bound. */
		if (atomic_load(&device->account->contexts) > 0)
			figure_reconcile_alone(guest, device);
		if (!context_size(guest, device) && context_try_unknown(guest, device, making))
			return CUDA_SUCCESS;
	}
	return context_reserve(guest, device, extra, &making->charge);
}

/* In a tenant that overcommits others leave for a context. A bound may be more than the device has. */
static bool context_wait(const struct making *making, struct room *room)
{
	const struct charge *charge = &making->charge;

	return making->bound ? room_wait_unknown(room, charge->guest, charge->device, charge->reserved)
			     : room_wait(room, charge->guest, charge->device, charge->reserved);
}

static void context_cancel(struct making *making)
{
	charge_cancel(&making->charge);
	if (making->alone)
		calls_end_alone(making->charge.device);
}

/*
 * The charge for a new context that the driver's figure was not asked about, or did not tell: its
 * size. Where that is unknown, near the limit, and only other threads were in the way of the look,
 * all that was reserved stays charged until the next one. Else the usual size: far from the limit
 * nothing is decided by it, and a context that takes more is found by the first look, of this process
 * or of others of the tenant.
 */
static uint64_t context_unseen_bytes(const struct making *making)
{
	struct guest_device *device = making->charge.device;
	uint64_t size = context_size(making->charge.guest, device);

	if (!size && making->near && atomic_load(&device->account->unsure))
		return making->charge.reserved;
	return min_u64(making->charge.reserved,
		       (size ? size : CONTEXT_UNSEEN_BYTES) + making->extra);
}

/*
 * The driver made a context. Its bytes are pending until the figure has told what it took. False: it
 * does not fit after all, and the caller has to destroy it and call context_gone.
 */
static bool context_made(struct making *making)
{
	struct guest *guest = making->charge.guest;
	struct guest_device *device = making->charge.device;
	bool told = false;

	if (atomic_fetch_add(&device->account->contexts, 1) == 0)
		figure_begin(device);
	if (atomic_load(&guest->account->libraries) && context_is_eager(guest))
		atomic_store(&device->account->loaded, true);
	if (guest_by_driver(guest))
		figure_measure_first(guest, device);
	else if (making->near)
		told = figure_reconcile_inside(guest, device);
	if (!told && !context_size(guest, device) && !guest_by_driver(guest)) {
		atomic_store(&device->account->guessed, true);
		figure_note_guess(guest);
	}
	charge_commit(&making->charge, CAT_CONTEXT, told ? 0 : context_unseen_bytes(making));
	/* From now on a launch may bring their code. */
	if (atomic_load(&guest->account->libraries))
		atomic_store(&device->account->loaded, true);
	if (making->alone)
		calls_end_alone(device);
	/* Without a quota nobody's admission depends on it. */
	if (atomic_load(&device->account->guessed) && guest_limit(guest, device) < device->total_bytes)
		later_begin_guess(guest, figure_reconcile);
	FAULT_POINT(GUEST_CONTEXT_MADE);
	return !charge_over(guest, device);
}

static void context_was_last(struct guest *guest, struct guest_device *device)
{
	struct slot *slot = atomic_load(&guest->slot);

	/* Code, heaps and stacks went with it. */
	quota_set(slot, device->ledger, CAT_CONTEXT, 0);
	quota_set(slot, device->ledger, CAT_MODULE, 0);
	atomic_store(&device->account->context_most, 0);
	atomic_store(&device->account->stale, false);
	atomic_store(&device->account->loaded, false);
	atomic_store(&device->account->guessed, false);
	figure_note_guess(guest);
}

/*
 * Inside of a call that goes alone. Near the limit the driver's figure says what went, which may be
 * less than a context takes; before that nobody else is admitted.
 */
static void context_gone(struct guest *guest, struct guest_device *device, CUcontext context)
{
	uint64_t size = context_size(guest, device);

	context_limits_forget(guest, device, context);
	memory_forget_context(guest, context);
	guest->allocator->context_ended(guest, context);
	pool_changed(guest); /* nobody says whether the device keeps its current pool */
	pool_settle_all(guest);
	later_released(device);
	if (atomic_fetch_sub(&device->account->contexts, 1) == 1) {
		context_was_last(guest, device);
	} else if (!figure_will_be_near(guest, device) || !figure_reconcile(guest, device)) {
		charge_release_begin(device);
		charge_release_end(guest, device, CAT_CONTEXT, size ? size : CONTEXT_UNSEEN_BYTES);
	}
}

/* Ends what calls_begin_alone began, a context with it (NULL: none ended after all). */
static void context_end_alone(struct guest *guest, struct guest_device *device, CUcontext gone)
{
	if (gone)
		context_gone(guest, device, gone);
	calls_end_alone(device);
	if (gone && atomic_load(&device->account->contexts) > 0)
		charge_stale(guest, device);
}

static CUresult context_created(struct making *making, CUresult e, CUcontext *context)
{
	struct guest *guest = making->charge.guest;
	struct guest_device *device = making->charge.device;
	struct object object = {.kind = OBJECT_CONTEXT,
				.category = CAT_CONTEXT,
				.device = (int16_t)device->ordinal};

	if (e) {
		context_cancel(making);
		return e;
	}
	object.key = KEY(*context);
	if (context_made(making) && !object_put(guest->objects, &object))
		return CUDA_SUCCESS;
	calls_begin_alone(device);
	DRIVER(cuCtxDestroy_v2, (*context));
	context_end_alone(guest, device, *context);
	return context_refuse(guest, device);
}

#define CREATE(name, params, args)                                                                 \
	CUresult hook_##name params                                                                \
	{                                                                                          \
		GUEST_OR_PASS(name, args);                                                         \
		struct guest_device *device = guest_device(guest, dev);                            \
		struct making making;                                                              \
		CUresult e;                                                                        \
                                                                                                   \
		if (!device || !pctx)                                                              \
			return DRIVER(name, args);                                                 \
		e = context_begin(guest, device, 0, &making);                                      \
		if (e)                                                                             \
			return e;                                                                  \
		e = WHILE_FULL(DRIVER(name, args), context_wait(&making, &room_));                 \
		return context_created(&making, e, pctx);                                          \
	}

CREATE(cuCtxCreate, (CUcontext * pctx, unsigned int flags, CUdevice dev), (pctx, flags, dev))
CREATE(cuCtxCreate_v2, (CUcontext * pctx, unsigned int flags, CUdevice dev), (pctx, flags, dev))
CREATE(cuCtxCreate_v3,
       (CUcontext * pctx, CUexecAffinityParam *paramsArray, int numParams, unsigned int flags,
	CUdevice dev),
       (pctx, paramsArray, numParams, flags, dev))
CREATE(cuCtxCreate_v4,
       (CUcontext * pctx, CUctxCreateParams *ctxCreateParams, unsigned int flags, CUdevice dev),
       (pctx, ctxCreateParams, flags, dev))

/*
 * Before the driver ends it, and what was loaded there; handles come again. Most releases of a
 * primary one end nothing: memory_forget_context forgets for that which does.
 */
static void context_leaves(struct guest *guest, CUcontext context)
{
	known_code_forget(&guest->memory->code);
	waits_context_leaves(guest, context);
}

typedef CUresult context_destroy_fn(CUcontext context);

static CUresult context_destroy(struct guest *guest, CUcontext context, context_destroy_fn *real)
{
	struct guest_device *device;
	struct object object;
	CUresult e;

	if (!object_take(guest->objects, OBJECT_CONTEXT, KEY(context), &object)) {
		guest_depth++;
		e = real(context);
		guest_depth--;
		return e;
	}
	device = guest_device(guest, object.device);
	calls_begin_alone(device);
	guest_depth++;
	e = real(context);
	guest_depth--;
	if (e)
		object_put(guest->objects, &object);
	context_end_alone(guest, device, e ? NULL : context);
	return e;
}

#define DESTROY(name)                                                                              \
	CUresult hook_##name(CUcontext ctx)                                                        \
	{                                                                                          \
		GUEST_OR_PASS(name, (ctx));                                                        \
		CUresult e;                                                                        \
                                                                                                   \
		context_leaves(guest, ctx);                                                        \
		e = context_destroy(guest, ctx, cuda_real.name);                                   \
		waits_context_left(guest, ctx, !e);                                                \
		return e;                                                                          \
	}
DESTROY(cuCtxDestroy)
DESTROY(cuCtxDestroy_v2)

/* Attach and detach count uses of one context; only the last detach destroys it. */
CUresult hook_cuCtxAttach(CUcontext *pctx, unsigned int flags)
{
	GUEST_OR_PASS(cuCtxAttach, (pctx, flags));
	return DRIVER(cuCtxAttach, (pctx, flags));
}

CUresult hook_cuCtxDetach(CUcontext ctx)
{
	GUEST_OR_PASS(cuCtxDetach, (ctx));
	struct guest_device *device = NULL;
	struct object object;
	unsigned int version;
	CUresult e;
	bool gone;

	if (object_get(guest->objects, OBJECT_CONTEXT, KEY(ctx), &object))
		device = guest_device(guest, object.device);
	context_leaves(guest, ctx);
	if (device)
		calls_begin_alone(device);
	e = DRIVER(cuCtxDetach, (ctx));
	gone = !e && DRIVER(cuCtxGetApiVersion, (ctx, &version));
	if (device)
		context_end_alone(guest, device,
				  gone && object_take(guest->objects, OBJECT_CONTEXT, KEY(ctx),
						      &object) ? ctx : NULL);
	waits_context_left(guest, ctx, gone);
	return e;
}

static bool context_is_active(CUdevice dev)
{
	unsigned int flags;
	int is_active = 0;

	return !DRIVER(cuDevicePrimaryCtxGetState, (dev, &flags, &is_active)) && is_active;
}

/*
 * In a call that goes alone, after one that may have ended the primary context: answers which one
 * did. The last release and the last green context end it, in either order.
 */
static CUcontext context_primary_gone(struct guest *guest, CUdevice dev)
{
	return context_is_active(dev) ? NULL : atomic_exchange(&guest->account->primary[dev], NULL);
}

/* Another retain of a primary context that is there: false if it is not. */
static bool context_retain_active(struct guest *guest, struct guest_device *device,
				  CUcontext *pctx, CUresult *ret_result)
{
	bool known;

	calls_begin(device); /* nobody ends it between the question and the answer */
	known = atomic_load(&guest->account->primary[device->ordinal]) && context_is_active(device->ordinal);
	if (known)
		*ret_result = DRIVER(cuDevicePrimaryCtxRetain, (pctx, device->ordinal));
	calls_end(device);
	return known;
}

/* False: it does not fit after all, and ends. `undo` gives back what the program's call took. */
static bool context_keep_primary(struct making *making,
				 void (*undo)(CUdevice dev, CUgreenCtx green), CUgreenCtx green)
{
	struct guest *guest = making->charge.guest;
	struct guest_device *device = making->charge.device;

	if (context_made(making))
		return true;
	calls_begin_alone(device);
	undo(device->ordinal, green);
	context_end_alone(guest, device, context_primary_gone(guest, device->ordinal));
	return false;
}

static void context_undo_retain(CUdevice dev, CUgreenCtx none)
{
	DRIVER(cuDevicePrimaryCtxRelease_v2, (dev));
}

/* Makes the primary context, which may be there already, made by a call that passed us by. */
static CUresult context_make_primary(struct guest *guest, struct guest_device *device,
				     CUcontext *pctx)
{
	struct making making;
	CUcontext none = NULL;
	CUresult e = context_begin(guest, device, 0, &making);

	if (e)
		return e;
	e = WHILE_FULL(DRIVER(cuDevicePrimaryCtxRetain, (pctx, device->ordinal)),
		       context_wait(&making, &room_));
	if (e || !atomic_compare_exchange_strong(&guest->account->primary[device->ordinal], &none, *pctx)) {
		context_cancel(&making);
		return e;
	}
	return context_keep_primary(&making, context_undo_retain, NULL)
		       ? CUDA_SUCCESS : context_refuse(guest, device);
}

CUresult hook_cuDevicePrimaryCtxRetain(CUcontext *pctx, CUdevice dev)
{
	GUEST_OR_PASS(cuDevicePrimaryCtxRetain, (pctx, dev));
	struct guest_device *device = guest_device(guest, dev);
	CUresult e;

	if (!device || !pctx)
		return DRIVER(cuDevicePrimaryCtxRetain, (pctx, dev));
	if (context_retain_active(guest, device, pctx, &e))
		return e;
	serial_begin(&device->account->making_primary);
	if (!context_retain_active(guest, device, pctx, &e))
		e = context_make_primary(guest, device, pctx);
	serial_end(&device->account->making_primary);
	return e;
}

typedef CUresult context_release_fn(CUdevice dev);

/*
 * Most releases end nothing: others retain it, too. A reset ends it in any case. *ret_gone: the
 * context that ended.
 */
static CUresult context_release(struct guest *guest, CUdevice dev, context_release_fn *real,
				CUcontext *ret_gone)
{
	struct guest_device *device = guest_device(guest, dev);
	CUresult e;

	if (device)
		calls_begin_alone(device);
	guest_depth++;
	e = real(dev);
	guest_depth--;
	if (!e && device)
		*ret_gone = context_primary_gone(guest, dev);
	if (device)
		context_end_alone(guest, device, *ret_gone);
	return e;
}

#define RELEASE(name)                                                                              \
	CUresult hook_##name(CUdevice dev)                                                         \
	{                                                                                          \
		GUEST_OR_PASS(name, (dev));                                                        \
		CUcontext context =                                                                \
			guest_device(guest, dev) ? atomic_load(&guest->account->primary[dev]) : NULL;       \
		CUcontext gone = NULL;                                                             \
		CUresult e;                                                                        \
                                                                                                   \
		if (!context) /* made by a call that passed us by, or not there */                 \
			known_code_forget(&guest->memory->code);                                           \
		waits_context_leaves(guest, context);                                              \
		e = context_release(guest, dev, cuda_real.name, &gone);                            \
		waits_context_left(guest, context, gone && gone == context);                       \
		return e;                                                                          \
	}
RELEASE(cuDevicePrimaryCtxRelease)
RELEASE(cuDevicePrimaryCtxRelease_v2)
RELEASE(cuDevicePrimaryCtxReset)
RELEASE(cuDevicePrimaryCtxReset_v2)

/*
 * A green context is a part of the primary one, and makes that if it does not exist. Its own
 * memory, and memory allocated in it, stays until the primary one ends.
 */
static void context_undo_green(CUdevice dev, CUgreenCtx green)
{
	DRIVER(cuGreenCtxDestroy, (green));
}

static CUcontext context_of_green(CUgreenCtx green)
{
	CUcontext context = NULL;

	return DRIVER(cuCtxFromGreenCtx, (&context, green)) ? NULL : context;
}

/* The primary context that the driver made for a green one, which keeps it meanwhile. */
static CUcontext context_made_for_green(CUdevice dev)
{
	CUcontext primary = NULL;

	if (DRIVER(cuDevicePrimaryCtxRetain, (&primary, dev)))
		return NULL;
	DRIVER(cuDevicePrimaryCtxRelease_v2, (dev));
	return primary;
}

/* After the driver's call, with the primary context's charge if that was made for it. */
static bool context_keep_green(struct guest *guest, struct making *making, CUgreenCtx green)
{
	struct guest_device *device = making->charge.device;
	CUcontext none = NULL, primary;

	atomic_store(&device->account->loaded, true);
	if (!atomic_load(&guest->account->primary[device->ordinal])) {
		primary = context_made_for_green(device->ordinal);
		if (primary && atomic_compare_exchange_strong(&guest->account->primary[device->ordinal],
							      &none, primary))
			return context_keep_primary(making, context_undo_green, green);
	}
	charge_commit(&making->charge, CAT_CONTEXT, CONTEXT_GREEN_BYTES);
	if (making->alone)
		calls_end_alone(device);
	/* Near the limit the figure tells what it took; more than was reserved may not fit. */
	charge_stale(guest, device);
	if (!charge_over(guest, device))
		return true;
	context_undo_green(device->ordinal, green);
	charge_stale(guest, device);
	return false;
}

static CUresult context_make_green(struct guest *guest, struct guest_device *device,
				   CUgreenCtx *green, CUdevResourceDesc desc, unsigned int flags)
{
	struct object object = {.kind = OBJECT_GREEN, .device = (int16_t)device->ordinal};
	struct making making = {.extra = CONTEXT_GREEN_BYTES};
	CUresult e;

	e = context_is_active(device->ordinal)
		    ? charge_reserve(guest, device, CONTEXT_GREEN_BYTES, &making.charge)
		    : context_begin(guest, device, CONTEXT_GREEN_BYTES, &making);
	if (e)
		return e;
	e = WHILE_FULL(DRIVER(cuGreenCtxCreate, (green, desc, device->ordinal, flags)),
		       context_wait(&making, &room_));
	if (e) {
		context_cancel(&making);
		return e;
	}
	object.key = KEY(context_of_green(*green));
	/* Without its record its memory would be taken to end with it. */
	if (object_put(guest->objects, &object)) {
		context_undo_green(device->ordinal, *green);
		context_cancel(&making);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	if (context_keep_green(guest, &making, *green))
		return CUDA_SUCCESS;
	object_take(guest->objects, OBJECT_GREEN, object.key, &object);
	return context_refuse(guest, device);
}

CUresult hook_cuGreenCtxCreate(CUgreenCtx *phCtx, CUdevResourceDesc desc, CUdevice dev,
			       unsigned int flags)
{
	GUEST_OR_PASS(cuGreenCtxCreate, (phCtx, desc, dev, flags));
	struct guest_device *device = guest_device(guest, dev);
	CUresult e;

	if (!device || !phCtx)
		return DRIVER(cuGreenCtxCreate, (phCtx, desc, dev, flags));
	serial_begin(&device->account->making_primary);
	e = context_make_green(guest, device, phCtx, desc, flags);
	serial_end(&device->account->making_primary);
	return e;
}

CUresult hook_cuGreenCtxDestroy(CUgreenCtx hCtx)
{
	GUEST_OR_PASS(cuGreenCtxDestroy, (hCtx));
	CUcontext context = context_of_green(hCtx), gone = NULL;
	struct guest_device *device = NULL;
	struct object object;
	CUresult e;

	if (object_take(guest->objects, OBJECT_GREEN, KEY(context), &object))
		device = guest_device(guest, object.device);
	context_leaves(guest, context);
	if (device)
		calls_begin_alone(device);
	e = DRIVER(cuGreenCtxDestroy, (hCtx));
	if (!e && device)
		gone = context_primary_gone(guest, device->ordinal);
	if (device)
		context_end_alone(guest, device, gone);
	waits_context_left(guest, context, !e);
	if (e && device)
		object_put(guest->objects, &object);
	return e;
}

/* A larger heap, stack or FIFO: see context_limits.h. */
CUresult hook_cuCtxSetLimit(CUlimit limit, size_t value)
{
	GUEST_OR_PASS(cuCtxSetLimit, (limit, value));
	struct guest_device *device = guest_current_device(guest);

	if (!device || !context_limits_has(limit))
		return DRIVER(cuCtxSetLimit, (limit, value));
	return context_limits_set(guest, device, limit, value);
}

/* Access to memory that is mapped by us is of each mapping, not of a context. */
static void context_share(struct guest *guest, CUcontext peer, const struct guest_device *device,
			  bool may)
{
	struct guest_device *owner = NULL;
	CUcontext current;

	if (!DRIVER(cuCtxPushCurrent_v2, (peer))) {
		owner = guest_current_device(guest);
		DRIVER(cuCtxPopCurrent_v2, (&current));
	}
	if (owner)
		backing_share(guest, owner, device->ordinal, may);
}

/* Peer mappings take page tables on both sides; small, but the driver's figure has them. */
static CUresult context_shared(struct guest *guest, CUresult e, CUcontext peer, bool may)
{
	struct guest_device *device = guest_current_device(guest);

	if (!e && device && guest->swappable)
		context_share(guest, peer, device, may);
	if (!e && device)
		charge_stale(guest, device);
	return e;
}

CUresult hook_cuCtxEnablePeerAccess(CUcontext peerContext, unsigned int Flags)
{
	GUEST_OR_PASS(cuCtxEnablePeerAccess, (peerContext, Flags));
	return context_shared(guest, DRIVER(cuCtxEnablePeerAccess, (peerContext, Flags)),
			      peerContext, true);
}

CUresult hook_cuCtxDisablePeerAccess(CUcontext peerContext)
{
	GUEST_OR_PASS(cuCtxDisablePeerAccess, (peerContext));
	return context_shared(guest, DRIVER(cuCtxDisablePeerAccess, (peerContext)), peerContext,
			      false);
}
