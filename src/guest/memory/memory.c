/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/memory/memory.h"

#include <errno.h>

#include "guest/account/context.h"
#include "guest/account/holder.h"
#include "guest/account/state.h"
#include "guest/core/hook.h"
#include "guest/core/host_nodes.h"
#include "guest/lend/entry.h"
#include "guest/memory/allocator.h"
#include "guest/memory/external.h"
#include "guest/memory/state.h"
#include "guest/memory/vmm.h"

/*
 * A granule is of one device, but not for ever: another device's may have its addresses before the
 * thread that freed the last of it has come to say so.
 */
static uint64_t memory_granule(int16_t device, uint64_t address)
{
	return (uint64_t)device << 48 | address / GRANULE_BYTES;
}

static bool memory_granule_joined(struct object *granule, void *arg)
{
	granule->refs++;
	return true;
}

static bool memory_granule_left(struct object *granule, void *arg)
{
	bool *last = arg;

	*last = --granule->refs == 0;
	return !*last;
}

uint64_t memory_join_granules(struct guest *guest, int16_t device, uint64_t address, uint64_t size)
{
	uint64_t end = memory_granule(device, address + size - 1), fresh = 0;

	for (uint64_t g = memory_granule(device, address); g <= end; g++)
		if (!object_change(guest->objects, OBJECT_GRANULE, g, true, memory_granule_joined,
				   NULL))
			fresh += GRANULE_BYTES;
	return fresh;
}

uint64_t memory_leave_granules(struct guest *guest, int16_t device, uint64_t address,
			       uint64_t size)
{
	uint64_t end = memory_granule(device, address + size - 1), gone = 0;

	for (uint64_t g = memory_granule(device, address); g <= end; g++) {
		bool last = false;

		if (object_change(guest->objects, OBJECT_GRANULE, g, false, memory_granule_left,
				  &last) &&
		    last)
			gone += GRANULE_BYTES;
	}
	return gone;
}

int memory_record(struct charge *charge, const struct object *object, uint64_t actual)
{
	struct guest *guest = charge->guest;
	struct object stale, again;
	int r;

	charge_commit_begin(charge, object->category, actual);
	r = object_exchange(guest->objects, object, &stale);
	if (r)
		return r;
	/* The program freed that address while the allocation was on its way: then it is free. */
	if (stale.kind != OBJECT_NONE) {
		charge_release_begin(guest_device(guest, stale.device));
		memory_freed(guest, &stale);
	}
	/* A context that ended without waiting for us (calls.c) may have taken it along before. */
	if (atomic_load(&guest->account->ended) != charge->ended &&
	    memory_take(guest, object->kind, object->key, &again))
		memory_keep(guest, &again);
	charge_commit_end(charge);
	return 0;
}

/* inline: in this file, on the way of every allocation. */
inline uint64_t memory_describe(const struct charge *charge, CUdeviceptr address, uint64_t size,
				unsigned int flags, struct object *ret)
{
	struct guest *guest = charge->guest;

	*ret = (struct object){
		.kind = OBJECT_MEMORY,
		.key = address,
		.category = CAT_DATA,
		.flags = (uint16_t)flags,
		.device = (int16_t)charge->device->ordinal,
		.size = size,
		.context = KEY(context_of_memory(guest)),
	};
	/* Managed memory never shares a granule: the driver's figure leaves it out. */
	if (size > SMALL_BYTES || flags & OBJECT_UNSEEN) {
		ret->bytes = round_up(size, GRANULE_BYTES);
		return ret->bytes;
	}
	ret->flags |= OBJECT_SMALL;
	return memory_join_granules(guest, ret->device, address, size);
}

CUresult memory_commit(struct charge *charge, CUresult result, CUdeviceptr address, uint64_t size,
		       unsigned int flags)
{
	struct guest *guest = charge->guest;
	struct object object;
	uint64_t actual;

	if (result) {
		charge_cancel(charge);
		return result;
	}
	actual = memory_describe(charge, address, size, flags, &object);
	charge->unseen = flags & OBJECT_UNSEEN;
	if (charge->unseen)
		atomic_fetch_add(&charge->device->account->unseen_bytes, actual);
	if (!memory_record(charge, &object, actual))
		return CUDA_SUCCESS;
	DRIVER(cuMemFree_v2, (address));
	memory_freed(guest, &object);
	return CUDA_ERROR_OUT_OF_MEMORY;
}

/* Unless it is another device's by now. */
static bool memory_take_of_device(struct object *object, void *arg)
{
	struct object *ret = arg;

	if (object->device != ret->device)
		return true;
	*ret = *object;
	return false;
}

/*
 * The device's call begins first: a context that ends in between would not find the object, and one
 * that could then not be freed would be put back though it is gone.
 */
bool memory_take(struct guest *guest, enum object_kind kind, uint64_t key, struct object *ret)
{
	struct guest_device *device;

	while (object_get(guest->objects, kind, key, ret)) {
		device = guest_device(guest, ret->device);
		charge_release_begin(device);
		ret->kind = OBJECT_NONE;
		object_change(guest->objects, kind, key, false, memory_take_of_device, ret);
		if (ret->kind != OBJECT_NONE)
			return true;
		charge_release_end(guest, device, CAT_DATA, 0);
	}
	return false;
}

/* The driver does not know it: so it would not free it. */
static bool memory_is_gone(const struct object *object)
{
	CUdeviceptr base;
	size_t size;

	return object->kind == OBJECT_MEMORY && !(object->flags & OBJECT_BACKED) &&
	       DRIVER(cuMemGetAddressRange_v2, (&base, &size, object->key)) ==
		       CUDA_ERROR_NOT_FOUND;
}

/*
 * A thread may free an address that is no longer its own, since it went with a context. If the
 * driver has given that address out again, the new owner's memory is gone, and the new owner's free
 * is refused:
 *
 *	new owner      cuMemAlloc: gets p ───────────────► recorded ─► cuMemFree(p): refused
 *	other thread            cuMemFree(p): not ours yet, frees p
 *
 * By then a third thread may have p. What is recorded for p is that thread's, and stays.
 */
void memory_keep(struct guest *guest, const struct object *object)
{
	if (memory_is_gone(object) || object_add(guest->objects, object) == -EEXIST) {
		memory_freed(guest, object);
		return;
	}
	/* It came out of this table a moment ago; should there be no room, its charge stays. */
	charge_release_end(guest, guest_device(guest, object->device), object->category, 0);
}

uint64_t memory_small_array_add(struct guest_device *device, uint64_t bytes)
{
	uint64_t old = atomic_fetch_add(&device->memory->small_arrays, bytes);

	return round_up(old + bytes, GRANULE_BYTES) - round_up(old, GRANULE_BYTES);
}

static uint64_t memory_small_array_sub(struct guest_device *device, uint64_t bytes)
{
	uint64_t old = atomic_fetch_sub(&device->memory->small_arrays, bytes);

	return round_up(old, GRANULE_BYTES) - round_up(old - bytes, GRANULE_BYTES);
}

/* One that was freed in a stream's order is another kind, and of those no other is imported. */
static bool memory_is_view(const struct object *object)
{
	return object->kind == OBJECT_VIEW ||
	       (object->kind == OBJECT_PARTING && object->category == CAT_IMPORTED);
}

void memory_freed(struct guest *guest, const struct object *object)
{
	struct guest_device *device = guest_device(guest, object->device);
	uint64_t bytes = object->bytes;

	if (object->flags & OBJECT_BACKED) {
		guest->allocator->release(guest, device, object);
		return;
	}
	if (object->flags & OBJECT_SMALL)
		bytes = memory_leave_granules(guest, object->device, object->key, object->size);
	if (memory_is_view(object))
		bytes = external_leave(guest, object);
	if (object->kind == OBJECT_ARRAY && !bytes)
		bytes = memory_small_array_sub(device, object->size);
	entry_leave(guest, object);
	if (object->flags & OBJECT_UNSEEN) {
		atomic_fetch_sub(&device->account->unseen_bytes, bytes);
		charge_release_end_unseen(guest, device, object->category, bytes);
		return;
	}
	charge_release_end(guest, device, object->category, bytes);
}

/*
 * cuMemFree waits for work that may use the memory, and cuMemUnmap does not. To wait while a stream
 * captures would end the capture.
 */
CUresult memory_await_work(CUcontext context)
{
	CUcontext current = NULL;
	bool pushed;
	CUresult e;

	DRIVER(cuCtxGetCurrent, (&current));
	pushed = current != context && !DRIVER(cuCtxPushCurrent_v2, (context));
	e = DRIVER(cuCtxSynchronize, ());
	if (pushed)
		DRIVER(cuCtxPopCurrent_v2, (&current));
	return e;
}

CUevent memory_mark(CUstream stream)
{
	CUevent event = NULL;

	if (DRIVER(cuEventCreate, (&event, CU_EVENT_DISABLE_TIMING)))
		return NULL;
	if (!DRIVER(cuEventRecord, (event, stream)))
		return event;
	DRIVER(cuEventDestroy_v2, (event));
	return NULL;
}

static void memory_drop_mark(CUevent event)
{
	if (event)
		DRIVER(cuEventDestroy_v2, (event));
}

void memory_freed_in_stream(struct guest *guest, const struct object *object, CUstream stream,
			    CUevent before)
{
	struct object parting = *object;
	CUevent event = memory_mark(stream);

	if (event) {
		parting.kind = OBJECT_PARTING;
		parting.parting.address = object->key;
		parting.parting.before = KEY(before);
		parting.parting.begun = !before && !(object->flags & OBJECT_BACKED);
		parting.key = KEY(event);
		if (memory_is_view(object))
			external_part(guest, object);
		if (!object_put(guest->objects, &parting)) {
			charge_release_end(guest, guest_device(guest, object->device),
					   object->category, 0);
			return;
		}
		if (memory_is_view(object))
			external_stay(guest, object);
	}
	memory_drop_mark(event);
	memory_drop_mark(before);
	/*
	 * Without an event nobody can tell when. It is given back now: the driver will free it
	 * soon.
	 */
	if (object->flags & OBJECT_BACKED)
		memory_await_work((CUcontext)(uintptr_t)object->context);
	memory_freed(guest, object);
}

/* Gives back one pending free, unless its stream is not there yet or another thread was faster. */
static void memory_reap_one(struct guest *guest, uint64_t key)
{
	CUevent event = (CUevent)(uintptr_t)key, before;
	struct object parting;

	/*
	 * Taken out before the event is touched: the thread that has it may destroy the event. It
	 * is a call from before that on. Else a look in between would find nothing parting, and
	 * take what is charged for memory that is gone off the contexts.
	 */
	if (!memory_take(guest, OBJECT_PARTING, key, &parting))
		return;
	before = (CUevent)(uintptr_t)parting.parting.before;
	if (DRIVER(cuEventQuery, (event)) == CUDA_ERROR_NOT_READY) {
		if (before && DRIVER(cuEventQuery, (before)) != CUDA_ERROR_NOT_READY)
			parting.parting.begun = true;
		memory_keep(guest, &parting);
		return;
	}
	/* The event is done, so this call returns at once; the driver needs it (pool.h). */
	if (memory_is_view(&parting))
		DRIVER(cuEventSynchronize, (event));
	memory_drop_mark(event);
	memory_drop_mark(before);
	parting.key = parting.parting.address;
	memory_freed(guest, &parting);
}

/* Memory that a stream may have freed by now, as of the last look at its events. */
static uint64_t memory_doubtful(struct guest *guest, struct guest_device *device)
{
	struct object *parting;
	uint64_t bytes = 0;

	if (!object_count(guest->objects, OBJECT_PARTING))
		return 0;
	OBJECT_EACH (parting, guest->objects, OBJECT_PARTING)
		if (parting->parting.begun && parting->device == device->ordinal)
			bytes += parting->bytes ? parting->bytes : GRANULE_BYTES;
	return bytes;
}

void memory_reap(struct guest *guest)
{
	CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
	struct object *parting;

	/* Called where the gate is not asked, too: what is away must not be freed just now. */
	CLEANUP(pass_leave) struct guest *pass = NULL;

	if (!object_count(guest->objects, OBJECT_PARTING))
		return;
	if (guest->swappable && !(pass = pass_try(guest)))
		return;
	DRIVER(cuThreadExchangeStreamCaptureMode, (&mode));
	OBJECT_EACH (parting, guest->objects, OBJECT_PARTING)
		memory_reap_one(guest, parting->key);
	DRIVER(cuThreadExchangeStreamCaptureMode, (&mode));
}

static void memory_reap_all(struct guest *guest, struct guest_device *device)
{
	memory_reap(guest);
}

const struct holder memory_holder = {.catch_up = memory_reap_all, .give_back = memory_reap_all,
				     .doubtful = memory_doubtful};

static bool memory_is_of_context(const struct object *object, void *arg)
{
	return object->context && object->context == *(const uint64_t *)arg;
}

void memory_forget_context(struct guest *guest, CUcontext context)
{
	uint64_t key = KEY(context);
	struct object *gone;

	if (!key)
		return;
	known_code_forget(&guest->memory->code);
	atomic_fetch_add(&guest->account->ended, 1); /* before we look: see memory_record */
	OBJECT_SWEEP (gone, guest->objects, memory_is_of_context, &key) {
		if (gone->kind == OBJECT_EXEC_WAITS) {
			host_nodes_forget(gone->key);
			continue;
		}
		if (gone->kind == OBJECT_PARTING)
			gone->key = gone->parting.address;
		if (gone->kind == OBJECT_ARRAY)
			vmm_forget_array_end(guest, vmm_forget_array_begin(guest, gone->key), true);
		charge_release_begin(guest_device(guest, gone->device));
		memory_freed(guest, gone);
	}
	/* It may have been the last one of its device, which then is to have nothing of ours. */
	for (int i = 0; i < guest->ndevices; i++)
		guest->allocator->end_spare(guest, &guest->device[i]);
}

struct guest_device *memory_stream_device(struct guest *guest, CUstream stream)
{
	CUcontext context = NULL, current = NULL;
	struct guest_device *device;
	CUdevice ordinal;

	if ((uintptr_t)stream <= (uintptr_t)CU_STREAM_PER_THREAD)
		return guest_current_device(guest);
	if (cuda_real_address(CUDA_FN_cuStreamGetDevice))
		return DRIVER(cuStreamGetDevice, (stream, &ordinal))
			       ? NULL : guest_device(guest, ordinal);
	if (DRIVER(cuStreamGetCtx, (stream, &context)))
		return NULL;
	DRIVER(cuCtxGetCurrent, (&current));
	if (context == current)
		return guest_current_device(guest);
	if (DRIVER(cuCtxPushCurrent_v2, (context)))
		return NULL;
	device = guest_current_device(guest);
	DRIVER(cuCtxPopCurrent_v2, (&current));
	return device;
}
