/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/movable/linear.h"

#include "guest/account/room.h"
#include "guest/core/capturing.h"
#include "guest/core/hook.h"
#include "guest/lend/entry.h"
#include "guest/memory/memory.h"
#include "guest/movable/backing.h"
#include "guest/movable/importer.h"
#include "guest/movable/state.h"
#include "ledger/spare.h"

/*
 * The most that is spare of several granules. Of larger ones the driver takes most of the time to
 * give so much back, by its own pair of calls as well.
 */
#define SPARE_BYTES (32 * GRANULE_BYTES)

/*
 * Removes a spare piece's charge, or hands it to the next allocation; returns its bytes. A piece of
 * one granule is counted in it as a small allocation is: the allocation that takes it joins the
 * granule before the piece leaves. A piece of several granules has them for itself.
 */
static uint64_t linear_leave_spare(struct guest *guest, const struct guest_device *device,
				   struct spare_piece spare)
{
	return spare.bytes == GRANULE_BYTES
		       ? memory_leave_granules(guest, (int16_t)device->ordinal, spare.at, 1)
		       : spare.bytes;
}

/* Ends a piece that was spare, if any. Returns the bytes that go with it. */
static uint64_t linear_drop_spare(struct guest *guest, struct guest_device *device,
				  struct spare_piece spare)
{
	if (spare.bytes)
		backing_end_spare(guest, device, spare);
	return linear_leave_spare(guest, device, spare);
}

/*
 * Around a call that may take spare pieces and end them, until they are not charged any more: see
 * linear_answer_spare. Returns what linear_end_drop needs.
 */
static uint32_t linear_begin_drop(struct guest *guest)
{
	uint32_t drops;

	for (;;) {
		drops = atomic_load(&guest->movable->drops) % 2;
		atomic_fetch_add(&guest->movable->dropping[drops], 1);
		if (atomic_load(&guest->movable->drops) % 2 == drops)
			return drops;
		atomic_fetch_sub(&guest->movable->dropping[drops], 1);
	}
}

static void linear_end_drop(struct guest *guest, uint32_t drops)
{
	atomic_fetch_sub(&guest->movable->dropping[drops], 1);
}

/* Ends these pieces, with their charge, also while a stream captures. Within a drop. */
static void linear_end_taken(struct guest *guest, struct guest_device *device,
			     const struct spare_piece *spare, int n)
{
	CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
	uint64_t bytes = 0;

	charge_release_begin(device);
	DRIVER(cuThreadExchangeStreamCaptureMode, (&mode));
	for (int i = 0; i < n; i++)
		bytes += linear_drop_spare(guest, device, spare[i]);
	DRIVER(cuThreadExchangeStreamCaptureMode, (&mode));
	charge_release_end(guest, device, CAT_DATA, bytes);
}

/*
 * A spare piece of that size is charged already: nothing more is reserved. A small allocation may
 * find room in a granule that is cut, and takes no piece then.
 */
static CUresult linear_reserve(struct guest *guest, struct guest_device *device, uint64_t bytes,
			       struct charge *ret, struct spare_piece *ret_spare)
{
	struct spare_piece spare;
	bool admitted;
	uint32_t drops;

	*ret_spare = (struct spare_piece){0};
	if (bytes <= SMALL_BYTES)
		return charge_reserve(guest, device, memory_need(bytes), ret);
	drops = linear_begin_drop(guest);
	spare = backing_take_fit(guest, device, bytes);
	admitted = spare.bytes && charge_try(guest, device, 0, ret);
	if (spare.bytes && !admitted)
		linear_end_taken(guest, device, &spare, 1);
	linear_end_drop(guest, drops);
	if (!admitted)
		return charge_reserve(guest, device, memory_need(bytes), ret);
	*ret_spare = spare;
	return CUDA_SUCCESS;
}

/* As memory_commit. The bytes of the spare piece that was used, if any, are charged already. */
static CUresult linear_commit(struct charge *charge, CUresult result, CUdeviceptr at,
			      uint64_t bytes, struct spare_piece spare)
{
	struct guest *guest = charge->guest;
	struct object object;
	uint64_t actual;

	if (result) {
		charge_follow(guest, charge->device, CAT_DATA,
			      linear_leave_spare(guest, charge->device, spare), 0);
		charge_cancel(charge);
		return result;
	}
	actual = memory_describe(charge, at, bytes, OBJECT_BACKED, &object);
	object.linear.id = backing_id(guest);
	actual -= linear_leave_spare(guest, charge->device, spare);
	if (!memory_record(charge, &object, actual))
		return CUDA_SUCCESS;
	memory_freed(guest, &object);
	return CUDA_ERROR_OUT_OF_MEMORY;
}

static CUresult linear_back(struct charge *charge, uint64_t bytes, struct spare_piece spare,
			    CUdeviceptr *ret)
{
	CUresult e = backing_alloc(charge->guest, charge->device, bytes, ret, &spare);

	return linear_commit(charge, e, *ret, bytes, spare);
}

CUresult linear_alloc(struct guest *guest, struct guest_device *device, uint64_t bytes,
		      CUdeviceptr *ret)
{
	uint64_t need = memory_need(bytes);
	struct spare_piece spare;
	struct charge charge;

	return BACK_WITH_ROOM(guest, device, need, &charge,
			      linear_reserve(guest, device, bytes, &charge, &spare),
			      bytes > SMALL_BYTES && !spare.bytes &&
				      room_is_promised(&room_, guest, device, need),
			      linear_back(&charge, bytes, spare, ret));
}

static bool linear_may_keep(struct guest *guest)
{
	return atomic_load(&guest->movable->yields) && !spare_asked(guest->claimed);
}

/*
 * Frees an allocation. Returns the bytes that go with it: none if its piece is spare from now on.
 * The piece is counted in its granule before others find it, and the one that was spare before
 * ends.
 */
static uint64_t linear_free_piece(struct guest *guest, struct guest_device *device,
				  const struct object *object, bool *ret_kept)
{
	bool several = object->bytes > GRANULE_BYTES;
	bool may_keep = object->bytes <= SPARE_BYTES && linear_may_keep(guest);
	struct spare_piece old = {0};
	uint64_t bytes = object->bytes;

	if (may_keep && !several)
		bytes -= memory_join_granules(guest, object->device, object->key, 1);
	*ret_kept = backing_free(guest, device, object->key, may_keep ? &old : NULL);
	if (object->flags & OBJECT_SMALL)
		bytes += memory_leave_granules(guest, object->device, object->key, object->size);
	if (may_keep && !several && !*ret_kept)
		bytes += memory_leave_granules(guest, object->device, object->key, 1);
	if (several && *ret_kept)
		bytes = 0;
	return bytes + linear_drop_spare(guest, device, old);
}

/* The program's call has not returned: it does not count on the memory to be free yet. */
static void linear_keep_spare(struct guest *guest, struct guest_device *device)
{
	spare_keep(guest->claimed);
	if (!linear_may_keep(guest))
		linear_end_spare(guest, device);
	if (!atomic_load(&guest->movable->yields))
		spare_end(guest->claimed);
}

void linear_end_spare(struct guest *guest, struct guest_device *device)
{
	struct spare_piece spare[PIECES_KINDS];
	uint32_t drops;

	if (!backing_has_spare(guest, device))
		return;
	drops = linear_begin_drop(guest);
	for (int kind = 0; kind < PIECES_KINDS; kind++)
		spare[kind] = backing_take_spare(guest, device, kind);
	linear_end_taken(guest, device, spare, PIECES_KINDS);
	linear_end_drop(guest, drops);
}

const struct holder linear_holder = {.give_back = linear_end_spare};

void linear_answer_spare(struct guest *guest, struct answer *answer)
{
	if (!answer->begun) {
		if (!spare_question(guest->claimed, &answer->number))
			return;
		for (int i = 0; i < guest->ndevices; i++)
			linear_end_spare(guest, &guest->device[i]);
		answer->begun = true;
		answer->drops = atomic_fetch_add(&guest->movable->drops, 1) % 2;
	}
	/* Those that began before may have had something of it. */
	if (atomic_load(&guest->movable->dropping[answer->drops]))
		return;
	answer->begun = false;
	spare_answer(guest->claimed, answer->number);
}

void linear_release(struct guest *guest, struct guest_device *device, const struct object *object)
{
	uint32_t drops = linear_begin_drop(guest);
	uint64_t bytes = object->bytes;
	bool kept = false;

	if (object->kind == OBJECT_IPC)
		importer_close(guest, object->linear.import);
	else
		bytes = linear_free_piece(guest, device, object, &kept);
	entry_leave(guest, object);
	charge_release_end(guest, device, object->category, bytes);
	linear_end_drop(guest, drops);
	if (kept)
		linear_keep_spare(guest, device);
}

static bool linear_is_waiting(const struct object *object, void *arg)
{
	return object->kind == OBJECT_WAITING;
}

/* What was freed while a stream captured: whoever frees next waits for it, too. */
static void linear_free_waiting(struct guest *guest)
{
	struct object *gone;

	if (!object_count(guest->objects, OBJECT_WAITING))
		return;
	OBJECT_SWEEP (gone, guest->objects, linear_is_waiting, NULL) {
		memory_await_work((CUcontext)(uintptr_t)gone->context);
		charge_release_begin(guest_device(guest, gone->device));
		linear_release(guest, guest_device(guest, gone->device), gone);
	}
}

CUresult linear_free_taken(struct guest *guest, struct object *object)
{
	CUresult e;

	if (capturing_any(guest)) {
		object->kind = OBJECT_WAITING;
		memory_keep(guest, object);
		return CUDA_SUCCESS;
	}
	e = memory_await_work((CUcontext)(uintptr_t)object->context);
	if (e) {
		memory_keep(guest, object);
		return e;
	}
	linear_release(guest, guest_device(guest, object->device), object);
	linear_free_waiting(guest);
	return CUDA_SUCCESS;
}
