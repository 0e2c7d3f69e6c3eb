/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Contexts. Nobody tells beforehand what a context takes (hundreds of MiB). So the size that this
 * tenant saw on the device before is reserved, and the driver's figure decides once the limit is
 * near.
 */
#include "base/fault.h"
#include "base/number.h"
#include "guest/core/hook.h"
#include "guest/core/library.h"
#include "guest/core/space.h"
#include "guest/launch/waits.h"
#include "guest/memory/backing.h"
#include "guest/memory/calls.h"
#include "guest/memory/figure.h"
#include "guest/memory/later.h"
#include "guest/memory/memory.h"
#include "guest/memory/own_pool.h"
#include "guest/memory/pool.h"
#include "guest/memory/room.h"

CUresult hook_cuInit(unsigned int Flags)
{
	struct guest *guest;
	CUresult e;

	if (!library_present(&library_cuda))
		return CUDA_ERROR_SHARED_OBJECT_INIT_FAILED;
	if (guest_inside())
		return cuda_real.cuInit(Flags);
	guest = guest_get();
	if (guest->mode == GUEST_CLOSED)
		return guest->error;
	if (guest->mode == GUEST_LIMITED && !atomic_load(&guest->slot)) {
		e = space_expect(guest);
		if (e)
			return e;
		figure_expect_any(guest);
	}
	e = DRIVER(cuInit, (Flags));
	return e ? e : limited_attach(guest);
}

static uint64_t context_learned(struct guest *guest, struct guest_device *device)
{
	uint64_t guess = atomic_load(&device->context_guess);
	struct ledger_device_info info;

	if (!guess && !ledger_device_info(guest->ledger, device->ledger, &info)) {
		guess = info.context_bytes;
		atomic_store(&device->context_guess, guess);
	}
	return guess;
}

static CUresult context_refuse(struct guest *guest, struct guest_device *device)
{
	quota_count_refusal(atomic_load(&guest->slot), device->ledger);
	return CUDA_ERROR_OUT_OF_MEMORY;
}

/* It goes alone: the tenant is above its quota until the context is seen to be too large. */
static bool context_try_doubtful(struct guest *guest, struct guest_device *device,
				 struct charge *charge)
{
	/* Unlike the limit itself this leaves no room for a second such call, however small it is. */
	if (context_learned(guest, device) ||
	    !charge_try_doubtful(guest, device, FIGURE_CONTEXT_BYTES, charge))
		return false;
	if (!context_learned(guest, device))
		return true;
	charge_cancel(charge); /* the one that it waited for told the size */
	return false;
}

/*
 * No context was seen yet: as much as is usual. Where the quota has less, it may still be enough
 * for one.
 */
static CUresult context_begin_unknown(struct guest *guest, struct guest_device *device,
				      struct charge *charge)
{
	CUresult e;

	/* Those that live here tell the size. Far from the limit nobody waits for NVML. */
	if (atomic_load(&device->contexts) && figure_will_be_near(guest, device))
		figure_reconcile_alone(guest, device);
	if (!context_learned(guest, device) &&
	    charge_try(guest, device, FIGURE_CONTEXT_BYTES, charge))
		return CUDA_SUCCESS;
	if (context_try_doubtful(guest, device, charge))
		return CUDA_SUCCESS;
	e = charge_reserve(guest, device, context_learned(guest, device), charge);
	if (e || charge->reserved)
		return e;
	charge_cancel(charge); /* there was something to give back */
	return context_try_doubtful(guest, device, charge) ? CUDA_SUCCESS
							   : context_refuse(guest, device);
}

static CUresult context_begin(struct guest *guest, struct guest_device *device,
			      struct charge *charge)
{
	uint64_t guess = context_learned(guest, device);
	CUresult e = space_context(guest);

	if (e)
		return e;
	figure_expect(guest, device);
	return guess ? charge_reserve(guest, device, guess, charge)
		     : context_begin_unknown(guest, device, charge);
}

/*
 * What to charge for a new one whose size nobody knew: what was reserved, and no more than there may
 * be. Where that is above the limit the driver's figure is charged first, if it can be had, so that others are not refused for
 * more than there is.
 */
static uint64_t context_unknown_bytes(const struct charge *charge)
{
	struct guest *guest = charge->guest;
	struct guest_device *device = charge->device;

	uint64_t limit = charge_limit(guest, device);

	if (quota_used(guest->ledger, device->ledger) > limit &&
	    figure_reconcile_inside(guest, device))
		return 0;
	return min_u64(charge->reserved, limit);
}

/* False: it does not fit after all, and the caller has to destroy it and call context_gone. */
static bool context_made(struct charge *charge)
{
	struct guest *guest = charge->guest;
	struct guest_device *device = charge->device;
	uint64_t guess = context_learned(guest, device);

	if (atomic_fetch_add(&device->contexts, 1) == 0)
		figure_begin(device);
	charge_commit(charge, CAT_CONTEXT, guess ? guess : context_unknown_bytes(charge));
	FAULT_POINT(GUEST_CONTEXT_MADE);
	if (figure_due_now(guest, device))
		figure_reconcile(guest, device);
	return !charge_over(guest, device);
}

static void context_was_last(struct guest *guest, struct guest_device *device)
{
	struct slot *slot = atomic_load(&guest->slot);

	/* Code, heaps and stacks went with it. */
	atomic_store(&device->extra_bytes, 0);
	quota_set(slot, device->ledger, CAT_CONTEXT, 0);
	quota_set(slot, device->ledger, CAT_MODULE, 0);
	atomic_store(&device->stale, false);
	atomic_store(&device->loaded, false);
}

/*
 * Inside of a call that goes alone. Near the limit the driver's figure says what went, which may be
 * less than a context takes; before that nobody else is admitted.
 */
static void context_gone(struct guest *guest, struct guest_device *device, CUcontext context)
{
	uint64_t guess = context_learned(guest, device);

	memory_forget_context(guest, context);
	own_pools_forget_context(guest, context);
	pool_changed(guest); /* nobody says whether the device keeps its current pool */
	pool_settle_all(guest);
	later_released(device);
	if (atomic_fetch_sub(&device->contexts, 1) == 1) {
		context_was_last(guest, device);
	} else if (!figure_will_be_near(guest, device) || !figure_reconcile_inside(guest, device)) {
		charge_release_begin(device);
		charge_release_end(guest, device, CAT_CONTEXT, guess ? guess : FIGURE_CONTEXT_BYTES);
	}
}

/* Ends what calls_begin_alone began, a context with it (NULL: none ended after all). */
static void context_end_alone(struct guest *guest, struct guest_device *device, CUcontext gone)
{
	if (gone)
		context_gone(guest, device, gone);
	calls_end_alone(device);
	if (gone && atomic_load(&device->contexts) > 0)
		charge_stale(guest, device);
}

static CUresult context_created(struct charge *charge, CUresult e, CUcontext *context)
{
	struct guest *guest = charge->guest;
	struct guest_device *device = charge->device;
	struct object object = {.kind = OBJECT_CONTEXT,
				.category = CAT_CONTEXT,
				.device = (int16_t)device->ordinal};

	if (e) {
		charge_cancel(charge);
		return e;
	}
	object.key = KEY(*context);
	if (context_made(charge) && !object_put(guest->objects, &object))
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
		struct charge charge;                                                              \
		CUresult e;                                                                        \
                                                                                                   \
		if (!device || !pctx)                                                              \
			return DRIVER(name, args);                                                 \
		e = context_begin(guest, device, &charge);                                         \
		if (e)                                                                             \
			return e;                                                                  \
		e = WITH_ROOM(guest, device, charge.reserved, DRIVER(name, args));                 \
		return context_created(&charge, e, pctx);                                          \
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
	known_code_forget(&guest->code);
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

/* False: it does not fit after all, and ends. */
static bool context_keep_primary(struct charge *charge, CUcontext context)
{
	struct guest *guest = charge->guest;
	struct guest_device *device = charge->device;
	CUcontext known = context;

	if (context_made(charge))
		return true;
	calls_begin_alone(device);
	DRIVER(cuDevicePrimaryCtxRelease_v2, (device->ordinal));
	/* Another thread may have retained it, too, or ended it. */
	if (context_is_active(device->ordinal) ||
	    !atomic_compare_exchange_strong(&guest->primary[device->ordinal], &known, NULL))
		context = NULL;
	context_end_alone(guest, device, context);
	return false;
}

/* Another retain of a primary context that is there: false if it is not. */
static bool context_retain_active(struct guest *guest, struct guest_device *device,
				  CUcontext *pctx, CUresult *ret_result)
{
	bool known;

	calls_begin(device); /* nobody ends it between the question and the answer */
	known = atomic_load(&guest->primary[device->ordinal]) && context_is_active(device->ordinal);
	if (known)
		*ret_result = DRIVER(cuDevicePrimaryCtxRetain, (pctx, device->ordinal));
	calls_end(device);
	return known;
}

/*
 * The first retain makes the primary context; of threads that race for it, one is charged. It may
 * be there already, made by a call that passed us by.
 */
CUresult hook_cuDevicePrimaryCtxRetain(CUcontext *pctx, CUdevice dev)
{
	GUEST_OR_PASS(cuDevicePrimaryCtxRetain, (pctx, dev));
	struct guest_device *device = guest_device(guest, dev);
	CUcontext none = NULL;
	struct charge charge;
	CUresult e;

	if (!device || !pctx)
		return DRIVER(cuDevicePrimaryCtxRetain, (pctx, dev));
	if (context_retain_active(guest, device, pctx, &e))
		return e;
	e = context_begin(guest, device, &charge);
	if (e)
		return e;
	e = WITH_ROOM(guest, device, charge.reserved,
		      DRIVER(cuDevicePrimaryCtxRetain, (pctx, dev)));
	if (e || !atomic_compare_exchange_strong(&guest->primary[dev], &none, *pctx)) {
		charge_cancel(&charge);
		return e;
	}
	return context_keep_primary(&charge, *pctx) ? e : context_refuse(guest, device);
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
	if (!e && device && !context_is_active(dev))
		*ret_gone = atomic_exchange(&guest->primary[dev], NULL);
	if (device)
		context_end_alone(guest, device, *ret_gone);
	return e;
}

#define RELEASE(name)                                                                              \
	CUresult hook_##name(CUdevice dev)                                                         \
	{                                                                                          \
		GUEST_OR_PASS(name, (dev));                                                        \
		CUcontext context =                                                                \
			guest_device(guest, dev) ? atomic_load(&guest->primary[dev]) : NULL;       \
		CUcontext gone = NULL;                                                             \
		CUresult e;                                                                        \
                                                                                                   \
		if (!context) /* made by a call that passed us by, or not there */                 \
			known_code_forget(&guest->code);                                           \
		waits_context_leaves(guest, context);                                              \
		e = context_release(guest, dev, cuda_real.name, &gone);                            \
		waits_context_left(guest, context, gone && gone == context);                       \
		return e;                                                                          \
	}
RELEASE(cuDevicePrimaryCtxRelease)
RELEASE(cuDevicePrimaryCtxRelease_v2)
RELEASE(cuDevicePrimaryCtxReset)
RELEASE(cuDevicePrimaryCtxReset_v2)

/* A green context is a small part of the primary one; the driver's figure tells how small. */
CUresult hook_cuGreenCtxCreate(CUgreenCtx *phCtx, CUdevResourceDesc desc, CUdevice dev,
			       unsigned int flags)
{
	GUEST_OR_PASS(cuGreenCtxCreate, (phCtx, desc, dev, flags));
	CUresult e = DRIVER(cuGreenCtxCreate, (phCtx, desc, dev, flags));
	struct guest_device *device = guest_device(guest, dev);

	if (e || !device)
		return e;
	charge_stale(guest, device);
	if (!charge_over(guest, device))
		return e;
	DRIVER(cuGreenCtxDestroy, (*phCtx));
	charge_stale(guest, device);
	return context_refuse(guest, device);
}

CUresult hook_cuGreenCtxDestroy(CUgreenCtx hCtx)
{
	GUEST_OR_PASS(cuGreenCtxDestroy, (hCtx));
	CUcontext context = NULL;
	CUresult e;

	if (DRIVER(cuCtxFromGreenCtx, (&context, hCtx)))
		context = NULL;
	context_leaves(guest, context);
	e = DRIVER(cuGreenCtxDestroy, (hCtx));
	waits_context_left(guest, context, !e);

	for (int i = 0; !e && i < guest->ndevices; i++)
		charge_stale(guest, &guest->device[i]);
	return e;
}

/*
 * A larger heap or stack: the stack is backed at once for every thread that the device can hold,
 * the heaps when code that uses them is loaded. Both are charged when they are asked for.
 */
CUresult hook_cuCtxSetLimit(CUlimit limit, size_t value)
{
	GUEST_OR_PASS(cuCtxSetLimit, (limit, value));
	struct guest_device *device = guest_current_device(guest);
	uint64_t unit = limit == CU_LIMIT_STACK_SIZE && device ? device->stack_threads : 1;
	struct charge charge;
	size_t before = 0, after = 0;
	uint64_t more = 0;
	CUresult e;

	if (!device || (limit != CU_LIMIT_STACK_SIZE && limit != CU_LIMIT_MALLOC_HEAP_SIZE &&
			limit != CU_LIMIT_PRINTF_FIFO_SIZE))
		return DRIVER(cuCtxSetLimit, (limit, value));
	DRIVER(cuCtxGetLimit, (&before, limit));
	if (value > before && __builtin_mul_overflow(value - before, unit, &more))
		more = UINT64_MAX;
	e = charge_reserve(guest, device, round_up(more, GRANULE_BYTES), &charge);
	if (e)
		return e;
	e = DRIVER(cuCtxSetLimit, (limit, value));
	if (e) {
		charge_cancel(&charge);
		return e;
	}
	DRIVER(cuCtxGetLimit, (&after, limit));
	more = after > before ? round_up((after - before) * unit, GRANULE_BYTES) : 0;
	atomic_fetch_add(&device->extra_bytes, more);
	charge_commit(&charge, CAT_CONTEXT, more);
	if (after < before) /* what the driver then gives back shows in its figure */
		charge_stale(guest, device);
	return e;
}

/* Peer mappings take page tables on both sides; small, but the driver's figure has them. */
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

CUresult hook_cuCtxEnablePeerAccess(CUcontext peerContext, unsigned int Flags)
{
	GUEST_OR_PASS(cuCtxEnablePeerAccess, (peerContext, Flags));
	CUresult e = DRIVER(cuCtxEnablePeerAccess, (peerContext, Flags));
	struct guest_device *device = guest_current_device(guest);

	if (!e && device && guest->swappable)
		context_share(guest, peerContext, device, true);
	if (!e && device)
		charge_stale(guest, device);
	return e;
}

CUresult hook_cuCtxDisablePeerAccess(CUcontext peerContext)
{
	GUEST_OR_PASS(cuCtxDisablePeerAccess, (peerContext));
	CUresult e = DRIVER(cuCtxDisablePeerAccess, (peerContext));
	struct guest_device *device = guest_current_device(guest);

	if (!e && device && guest->swappable)
		context_share(guest, peerContext, device, false);
	if (!e && device)
		charge_stale(guest, device);
	return e;
}
