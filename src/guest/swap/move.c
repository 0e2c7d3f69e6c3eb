/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/swap/move.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "base/fault.h"
#include "base/futex.h"
#include "base/host_memory.h"
#include "base/now.h"
#include "base/number.h"
#include "base/pages.h"
#include "base/word.h"
#include "guest/account/calls.h"
#include "guest/account/charge.h"
#include "guest/core/trace.h"
#include "guest/lend/borrow.h"
#include "guest/lend/exporter.h"
#include "guest/movable/backing.h"
#include "guest/movable/importer.h"
#include "guest/movable/linear.h"
#include "guest/movable/mapping.h"
#include "guest/swap/beside.h"
#include "guest/swap/copy.h"
#include "guest/swap/drain.h"
#include "guest/swap/obstacles.h"
#include "guest/swap/stage.h"
#include "ledger/role/residency_file.h"
#include "ledger/spare.h"
#include "ledger/swap.h"
#include "sched/tuning.h"

/*
 * Bytes after which the pieces that come ahead are copied, and after which those that follow a part
 * are released; there, at most 1 / FOLLOW_PART of the device's.
 */
#define SOME_BYTES  (UINT64_C(1) << 30)
#define FOLLOW_PART 64

/* A second is what later.c gives the driver's figure; and between two tries. */
#define STALE_NS     (1500 * NS_PER_MS)
#define STALE_NAP_NS (20 * (long)NS_PER_MS)

/* The own pieces of all devices in order, each with the place of its content in host memory. */
struct cursor {
	struct guest *guest;
	int device;
	CUdeviceptr from;
	struct backing_piece piece;
	uint64_t at; /* of the piece, in host memory */
};

static bool move_next(struct cursor *cursor)
{
	cursor->at += cursor->piece.imported ? 0 : cursor->piece.bytes;
	for (; cursor->device < cursor->guest->ndevices; cursor->device++) {
		while (backing_next(cursor->guest, &cursor->guest->device[cursor->device],
				    cursor->from, &cursor->piece)) {
			cursor->from = cursor->piece.at + cursor->piece.bytes;
			if (!cursor->piece.imported)
				return true;
		}
		cursor->from = 0;
	}
	return false;
}

static uint64_t move_bytes_of(struct guest *guest, int device)
{
	struct cursor cursor = {.guest = guest, .device = device};
	uint64_t bytes = 0;

	while (move_next(&cursor) && cursor.device == device)
		bytes += cursor.piece.bytes;
	return bytes;
}

static uint64_t move_bytes(struct guest *guest)
{
	uint64_t bytes = 0;

	for (int i = 0; i < guest->ndevices; i++)
		bytes += move_bytes_of(guest, i);
	return bytes;
}

/* Of a device's pieces the first ones leave: behind which address there is none that has to. */
static CUdeviceptr move_bound(struct guest *guest, int i, uint32_t part)
{
	struct cursor cursor = {.guest = guest, .device = i};
	uint64_t all = move_bytes_of(guest, i), stay = all / SWAP_ALL * (SWAP_ALL - part), bytes = 0;
	CUdeviceptr bound = 0;

	while (bytes < all - stay && move_next(&cursor) && cursor.device == i) {
		bytes += cursor.piece.bytes;
		bound = cursor.from;
	}
	return bound;
}

static uint64_t move_bytes_below(struct guest *guest, int i, CUdeviceptr bound)
{
	struct cursor cursor = {.guest = guest, .device = i};
	uint64_t bytes = 0;

	while (move_next(&cursor) && cursor.device == i && cursor.piece.at < bound)
		bytes += cursor.piece.bytes;
	return bytes;
}

static void move_get_on(struct move *move, uint64_t bytes)
{
	swap_get_on(atomic_load(&move->guest->slot), bytes);
}

/* --- Host memory ---------------------------------------------------------------------------- */

static void move_give_buffers(struct move *move)
{
	stage_part(&move->buffers, copy_part, NULL);
	stage_give(&move->buffers);
}

/* Unregisters the host memory; its content stays. */
static void move_part_host(struct move *move)
{
	stage_end(&move->stage);
	stage_part(&move->stage, copy_part, NULL);
	move_give_buffers(move);
}

static void move_give_host(struct move *move)
{
	move_part_host(move);
	stage_give(&move->stage);
}

uint64_t move_lacks(struct move *move)
{
	return sat_sub_u64(min_u64(move_bytes(move->guest), COPY_BUFFERS_BYTES),
			   stage_ready(&move->buffers));
}

/* --- Copies --------------------------------------------------------------------------------- */

/* Some context of a device, current from here on. */
static bool move_enter(struct guest *guest, const struct guest_device *device, CUcontext *ret)
{
	struct drain_context context[DRAIN_CONTEXTS];
	int n = drain_contexts(guest, context);

	for (int i = 0; i < n; i++) {
		if (context[i].device != device)
			continue;
		*ret = context[i].context;
		return !DRIVER(cuCtxPushCurrent_v2, (*ret));
	}
	return false;
}

/* Content that was copied out is known from here on, for as long as its host memory is kept. */
static void move_mark(struct move *move)
{
	const struct look *look = &move->look;

	for (uint64_t i = 0; i < min_u64(move->looked, look->done); i++)
		stage_mark(&move->stage, look->place[i], look->seen[i].hash);
	if (look->done)
		trace(move->guest, TRACE_SWAP_LOOKED, look->device->ledger,
		      move->looked * LOOK_BYTES, move->passed * LOOK_BYTES,
		      move->empty * LOOK_BYTES);
}

/* All that was put is where it belongs when it returns, or what had come so far comes once more. */
static enum swap_why move_copy_close(struct move *move)
{
	enum swap_why why;

	if (!move->copying)
		return SWAP_FINE;
	why = copy_end(&move->copy);
	if (why)
		memset(move->come, 0, sizeof(move->come));
	else
		move_mark(move);
	look_end(&move->look);
	DRIVER(cuCtxPopCurrent_v2, (&move->context));
	move->copying = 0;
	return why;
}

/*
 * The next granule need not be copied: it is empty, which the device has found by comparing its words,
 * or its content is in its place already. If neither, what is there will be written over.
 */
static bool move_pass(struct move *move, uint64_t at)
{
	const struct look_seen *seen = look_seen(&move->look, move->looked++, at);
	bool hashes = !(move->guest->policy.flags & POLICY_LOOK_BYTES);

	if (seen && !seen->differs) {
		stage_set_empty(&move->stage, at, seen->word);
		move->empty++;
		return true;
	}
	if (seen && hashes && stage_has(&move->stage, at, seen->hash)) {
		move->passed++;
		return true;
	}
	stage_unmark(&move->stage, at);
	return false;
}

/* Puts what has changed since it last left, as many granules at once as lie behind each other. */
static enum swap_why move_put_piece(struct move *move, const struct cursor *cursor)
{
	const struct backing_piece *piece = &cursor->piece;
	bool passes = move_pass(move, cursor->at), next;
	enum swap_why why = SWAP_FINE;
	uint64_t from = 0;

	for (uint64_t to = LOOK_BYTES; !why && from < piece->bytes; to += LOOK_BYTES) {
		next = to < piece->bytes ? move_pass(move, cursor->at + to) : !passes;
		if (next == passes)
			continue;
		why = passes ? copy_pass(&move->copy, cursor->at + from, to - from)
			     : copy_put(&move->copy, piece->at + from, cursor->at + from, to - from);
		from = to;
		passes = next;
	}
	return why;
}

/* Up to where content from `at` on, before `end`, is empty with that word, or is not empty. */
static uint64_t move_same(const struct move *move, uint64_t at, uint64_t end, bool empty, uint32_t word)
{
	uint32_t other = word;

	for (at += LOOK_BYTES; at < end; at += LOOK_BYTES)
		if (stage_is_empty(&move->stage, at, &other) != empty || other != word)
			break;
	return at;
}

/* Copies back what has content, and has the device write what is empty. */
static enum swap_why move_put_back(struct move *move, const struct cursor *cursor)
{
	const struct backing_piece *piece = &cursor->piece;
	uint64_t end = cursor->at + piece->bytes, to;
	enum swap_why why = SWAP_FINE;

	for (uint64_t at = cursor->at; !why && at < end; at = to) {
		CUdeviceptr device = piece->at + (at - cursor->at);
		uint32_t word = 0;
		bool empty = stage_is_empty(&move->stage, at, &word);

		to = move_same(move, at, end, empty, word);
		why = empty ? copy_fill(&move->copy, device, at, to - at, word)
			    : copy_put(&move->copy, device, at, to - at);
	}
	return why;
}

static enum swap_why move_copy_piece(struct move *move, const struct cursor *cursor)
{
	const struct backing_piece *piece = &cursor->piece;

	if (!move->copy.out)
		return move_put_back(move, cursor);
	if (backing_expose(move->guest, &move->guest->device[cursor->device], piece->at))
		return SWAP_DRIVER;
	return move_put_piece(move, cursor);
}

/* The next piece of a device between two addresses. */
static bool move_next_between(struct cursor *cursor, int device, CUdeviceptr from, CUdeviceptr to)
{
	while (move_next(cursor) && cursor->device == device && cursor->piece.at < to)
		if (cursor->piece.at >= from)
			return true;
	return false;
}

/* The key is as old as what is known by it. */
static void move_look_begin(struct move *move, int device)
{
	move->looked = move->passed = move->empty = 0;
	if (!move->key && !(move->guest->policy.flags & POLICY_LOOK_OFF))
		move->key = look_new_key();
	if (move->key)
		look_begin(&move->look, move->guest, &move->guest->device[device], move->key,
			   move_bytes_of(move->guest, device) / LOOK_BYTES);
}

/* Looks at all pieces of a device between two addresses. */
static void move_look(struct move *move, int device, uint64_t at, CUdeviceptr from, CUdeviceptr to)
{
	struct cursor cursor = {.guest = move->guest, .device = device, .at = at};

	while (move_next_between(&cursor, device, from, to)) {
		if (backing_expose(move->guest, &move->guest->device[device], cursor.piece.at)) {
			look_end(&move->look);
			return;
		}
		for (uint64_t i = 0; i < cursor.piece.bytes; i += LOOK_BYTES)
			look_put(&move->look, cursor.piece.at + i, cursor.at + i);
	}
	look_run(&move->look);
}

/* Of a device, one way, until it is closed; one of another device ends here. */
static enum swap_why move_copy_open(struct move *move, int device, bool out)
{
	enum swap_why why;

	if (move->copying == device + 1)
		return SWAP_FINE;
	why = move_copy_close(move);
	if (why)
		return why;
	if (!move_enter(move->guest, &move->guest->device[device], &move->context))
		return SWAP_DRIVER;
	why = copy_begin(&move->copy, move->guest, &move->stage, &move->buffers, move->context,
			 move_bytes_of(move->guest, device), out);
	if (why) {
		DRIVER(cuCtxPopCurrent_v2, (&move->context));
		return why;
	}
	move->copying = device + 1;
	if (out)
		move_look_begin(move, device);
	return SWAP_FINE;
}

/*
 * Puts the pieces of a device between two addresses: they are copied when that is closed. `at`: where
 * its first is in host memory.
 */
static enum swap_why move_copy_device(struct move *move, int device, uint64_t at, CUdeviceptr from,
				      CUdeviceptr to, bool out)
{
	struct cursor cursor = {.guest = move->guest, .device = device, .at = at};
	enum swap_why why;

	if (!move_next_between(&cursor, device, from, to))
		return SWAP_FINE;
	why = move_copy_open(move, device, out);
	if (!why && out)
		move_look(move, device, at, from, to);
	while (!why) {
		why = move_copy_piece(move, &cursor);
		if (!move_next_between(&cursor, device, from, to))
			break;
	}
	return why;
}

static void move_synced(void *arg, uint64_t bytes)
{
	move_get_on(arg, bytes);
}

static enum swap_why move_copy_back(struct move *move)
{
	enum swap_why why = SWAP_FINE, ended;
	uint64_t at = 0;

	for (int i = 0; !why && i < move->guest->ndevices; i++) {
		why = move_copy_device(move, i, at, move->come[i], move->gone[i], false);
		at += move_bytes_of(move->guest, i);
	}
	ended = move_copy_close(move);
	return why ? why : ended;
}

/* --- For somebody outside ------------------------------------------------------------------- */

static uint64_t move_list_bytes(uint64_t n)
{
	return round_up(sizeof(struct swap_list) + n * sizeof(struct swap_piece), 4096);
}

static void move_give_list(struct move *move)
{
	if (move->list)
		munmap(move->list, move_list_bytes(move->list->n));
	move->list = NULL;
}

static uint64_t move_count(struct guest *guest)
{
	struct cursor cursor = {.guest = guest};
	uint64_t n = 0;

	while (move_next(&cursor))
		n++;
	return n;
}

static bool move_make_list(struct move *move)
{
	struct cursor cursor = {.guest = move->guest};
	uint64_t n = move_count(move->guest);
	struct swap_list *list = pages_map(move_list_bytes(n));

	if (!list)
		return false;
	while (list->n < n && move_next(&cursor)) {
		struct swap_piece *piece = &list->piece[list->n++];

		piece->at = cursor.piece.at;
		piece->bytes = cursor.piece.bytes;
		piece->host = (uint64_t)(uintptr_t)(move->stage.at + cursor.at);
		memcpy(piece->uuid, move->guest->device[cursor.device].uuid, sizeof(piece->uuid));
	}
	list->magic = SWAP_LIST_MAGIC;
	move->list = list;
	return true;
}

enum swap_why move_bare(struct move *move)
{
	if (!move->list && !move_make_list(move))
		return SWAP_HOST;
	/* Other processes of the tenant do the same now. */
	if (!stage_write_empty(&move->stage, move_bytes(move->guest),
			       min_u64(host_memory_own_room(), beside_others(move->guest)), move_synced,
			       move))
		return stage_why(&move->stage);
	move_part_host(move);
	if (move->given && !stage_sync(&move->stage, move_synced, move))
		return stage_why(&move->stage);
	move->given = false;
	return SWAP_FINE;
}

void move_give(struct move *move)
{
	stage_empty(&move->stage);
	move->given = move->stage.at != NULL;
}

/* --- Out ------------------------------------------------------------------------------------ */

/* By what it is charged as. */
struct parts {
	uint64_t data, pools;
};

static void move_count_part(struct parts *parts, const struct backing_piece *piece)
{
	if (piece->owner)
		parts->pools += piece->bytes;
	else
		parts->data += piece->bytes;
}

/* The pieces of a device that are in host memory alone. */
static struct parts move_away_parts(struct guest *guest, int i)
{
	struct cursor cursor = {.guest = guest, .device = i};
	struct parts away = {0};

	while (move_next(&cursor) && cursor.device == i)
		if (!cursor.piece.resident)
			move_count_part(&away, &cursor.piece);
	return away;
}

static uint64_t move_away_of(struct guest *guest, int i)
{
	const struct parts away = move_away_parts(guest, i);

	return away.data + away.pools;
}

/* Ends a call that gives memory back. */
static void move_uncharge(struct guest *guest, struct guest_device *device,
			  const struct parts *parts)
{
	charge_follow(guest, device, CAT_POOL, parts->pools, 0);
	charge_release_end(guest, device, CAT_DATA, parts->data);
}

/* All that was reserved; pools' for a moment twice rather than not at all. */
static void move_charge(struct charge *charge, const struct parts *parts)
{
	charge_follow(charge->guest, charge->device, CAT_POOL, 0, parts->pools);
	charge_commit(charge, CAT_DATA, parts->data);
}

/* A piece that the driver does not take back stays, charged, and is written over on the way back.
 */
static void move_release(struct move *move, int i)
{
	struct cursor cursor = {.guest = move->guest, .device = i};
	struct guest_device *device = &move->guest->device[i];
	struct parts left = {0};

	charge_release_begin(device);
	while (move_next(&cursor) && cursor.device == i && cursor.piece.at < move->gone[i]) {
		if (!cursor.piece.resident ||
		    backing_detach(move->guest, device, cursor.piece.at))
			continue;
		FAULT_POINT(GUEST_SWAP_HALF_OUT);
		move_get_on(move, cursor.piece.bytes);
		move_count_part(&left, &cursor.piece);
	}
	FAULT_POINT(GUEST_SWAP_OUT);
	swap_set_out(atomic_load(&move->guest->slot), device->ledger, move_away_of(move->guest, i));
	move_uncharge(move->guest, device, &left);
}

/* If part is already out and no file is involved, free each piece on the device as soon as it is
 * copied. */
static bool move_follows(const struct move *move)
{
	return move->away && !move->unsure && move->stage.host_bytes == move->stage.bytes;
}

/* Frees the pieces of device i whose copy has completed. `at`: its first piece in the stage. */
static void move_follow(struct move *move, int i, uint64_t at)
{
	struct cursor cursor = {.guest = move->guest, .device = i, .at = at};

	while (move_next(&cursor) && cursor.device == i &&
	       cursor.at + cursor.piece.bytes <= move->copy.to)
		move->gone[i] = move->copied[i] = cursor.from;
	move_release(move, i);
}

/* Returns the end of the next batch: pieces from `from`, until they are a batch or `to` is reached.
 */
static CUdeviceptr move_follow_end(struct move *move, int i, CUdeviceptr from, CUdeviceptr to)
{
	struct cursor cursor = {.guest = move->guest, .device = i};
	uint64_t enough = min_u64(SOME_BYTES, move_bytes_of(move->guest, i) / FOLLOW_PART);
	uint64_t bytes = 0;

	while (bytes < enough && move_next_between(&cursor, i, from, to))
		bytes += cursor.piece.bytes;
	return bytes < enough ? to : cursor.from;
}

static enum swap_why move_copy_out_device(struct move *move, int i, uint64_t at, CUdeviceptr to)
{
	enum swap_why why = SWAP_FINE;

	for (CUdeviceptr from = move->copied[i], end; !why && from < to; from = end) {
		end = move_follows(move) ? move_follow_end(move, i, from, to) : to;
		why = move_copy_device(move, i, at, from, end, true);
		if (!why && move_follows(move))
			move_follow(move, i, at);
	}
	return why;
}

static enum swap_why move_copy_out(struct move *move, const CUdeviceptr to[GUEST_DEVICES])
{
	enum swap_why why = SWAP_FINE, ended;
	uint64_t at = 0;

	for (int i = 0; !why && i < move->guest->ndevices; i++) {
		why = move_copy_out_device(move, i, at, to[i]);
		at += move_bytes_of(move->guest, i);
	}
	ended = move_copy_close(move);
	why = why ? why : ended;
	if (!why && !stage_sync(&move->stage, move_synced, move))
		why = stage_why(&move->stage);
	return why;
}

static void move_release_all(struct move *move)
{
	if (!move->unsure)
		importer_detach(move->guest);
	memset(move->come, 0, sizeof(move->come));
	for (int i = 0; i < move->guest->ndevices; i++)
		move_release(move, i);
}

/*
 * The last step before the first piece is released. If the request was called off meanwhile, as for
 * a process that was stopped, nothing moves. But an exporter may have released its memory already,
 * and has other memory when it is back: an importer moves out all the same, keeps what it imports,
 * and asks the exporter on its way back. Returns true if pieces may be released.
 */
static bool move_let_go(struct move *move, uint32_t request, enum swap_why *ret_why)
{
	enum swap_why why;

	exporter_has_copied(move->guest, SHARE_MAGIC);
	why = borrow_why(importer_await_copies(move->guest));
	move->unsure = why && importer_any(move->guest);
	if (!why && !importer_any(move->guest) &&
	    word_acquire(swap_request(move->guest->policy_map)) != request)
		why = SWAP_BUSY;
	if ((!why || move->unsure) && mapping_detach(move->guest)) {
		move->unsure = false;
		why = SWAP_DRIVER;
	}
	*ret_why = why;
	return !why || move->unsure;
}

static void move_stay(struct move *move, uint32_t request)
{
	exporter_gives_up(move->guest, request);
	exporter_is_back(move->guest, SHARE_MAGIC, request);
	move_give_host(move);
	memset(move->copied, 0, sizeof(move->copied));
}

static bool move_kind_take(void *self, uint64_t host_bytes, const char *dir)
{
	struct move *move = self;
	uint64_t bytes = move_bytes(move->guest);

	/* Where that was, which was said, what was given is put again. */
	if (!move->given && !stage_suits(&move->stage, bytes, host_bytes))
		move_give_host(move);
	return stage_take(&move->stage, bytes) && !stage_take_file(&move->stage, host_bytes, dir);
}

/* Moves `part` of SWAP_ALL out; if more than that is out already, that stays out. */
static enum swap_why move_out(struct move *move, uint32_t part)
{
	uint32_t request = word_acquire(swap_request(move->guest->policy_map));
	uint64_t bytes = move_bytes(move->guest);
	CUdeviceptr to[GUEST_DEVICES];
	enum swap_why why = SWAP_FINE;

	for (int i = 0; i < move->guest->ndevices; i++)
		to[i] = max_u64(move_bound(move->guest, i, part), move->gone[i]);
	/* Nothing is there yet, or all of it has its place already. */
	if (move->stage.bytes < bytes)
		move_give_host(move);
	if (bytes && !stage_take(&move->stage, bytes))
		return SWAP_HOST;
	why = move_copy_out(move, to);
	FAULT_POINT(GUEST_SWAP_COPIED);
	if (why || ((!move->away || move->unsure) && !move_let_go(move, request, &why))) {
		if (!move->away)
			move_stay(move, request);
		return why;
	}
	for (int i = 0; i < move->guest->ndevices; i++) {
		move->gone[i] = to[i];
		move->copied[i] = max_u64(to[i], move->copied[i]);
	}
	move_release_all(move);
	move->away = true;
	return why;
}

/* --- Back ----------------------------------------------------------------------------------- */

static bool move_attach(struct move *move, int i)
{
	struct guest *guest = move->guest;
	struct cursor cursor = {.guest = guest, .device = i};

	while (move_next(&cursor) && cursor.device == i) {
		if (!cursor.piece.resident &&
		    backing_attach(guest, &guest->device[i], cursor.piece.at))
			return false;
		FAULT_POINT(GUEST_SWAP_HALF_IN);
		move_get_on(move, cursor.piece.bytes);
	}
	return true;
}

/*
 * A tenant that a person suspends gives its room up, and asks the quota for it again; one that left for
 * its turn does not. Memory that left stays in the driver's figure for a moment, as if the driver had it
 * for itself: a tenant that comes back at once to a quota that is nearly full is not refused for that.
 */
static bool move_reserve(struct guest *guest, struct guest_device *device, uint64_t bytes,
			 struct charge *ret)
{
	uint64_t until = now_monotonic_ns() + STALE_NS;

	while (guest->use ? !charge_take_back(guest, device, bytes, ret)
			  : charge_reserve(guest, device, bytes, ret) != CUDA_SUCCESS) {
		if (now_monotonic_ns() > until)
			return false;
		nap_ns(STALE_NAP_NS);
	}
	return true;
}

static enum swap_why move_attach_charged(struct move *move, int i)
{
	struct guest *guest = move->guest;
	struct guest_device *device = &guest->device[i];
	struct parts away = move_away_parts(guest, i);
	struct charge charge;

	if (!away.data && !away.pools)
		return SWAP_FINE;
	if (!move_reserve(guest, device, away.data + away.pools, &charge))
		return SWAP_QUOTA;
	if (move_attach(move, i)) {
		/*
		 * In this order: a reader of the used bytes and then of the bytes that are out
		 * counts nothing twice.
		 */
		swap_set_out(atomic_load(&guest->slot), device->ledger, 0);
		move_charge(&charge, &away);
		return SWAP_FINE;
	}
	/* Charged in full for a moment, and then less what leaves again. */
	move_charge(&charge, &away);
	away = move_away_parts(guest, i);
	charge_release_begin(device);
	move_uncharge(guest, device, &away);
	return SWAP_DEVICE;
}

/* Others are on their way out, for which the driver needs some of what is free. */
static uint64_t move_room(struct move *move, int i)
{
	size_t free = 0, total = 0;
	CUcontext context;

	if (!move_enter(move->guest, &move->guest->device[i], &context))
		return 0;
	if (DRIVER(cuMemGetInfo_v2, (&free, &total)))
		free = 0;
	DRIVER(cuCtxPopCurrent_v2, (&context));
	return sat_sub_u64(free, total / TUNING_RESIDENCY_COMES_PART);
}

/* `away`: of the device, with the piece. */
static bool move_come_piece(struct move *move, const struct backing_piece *piece, int i,
			    uint64_t away)
{
	struct guest_device *device = &move->guest->device[i];
	struct parts parts = {0};
	struct charge charge;

	if (charge_reserve(move->guest, device, piece->bytes, &charge))
		return false;
	if (backing_attach(move->guest, device, piece->at)) {
		charge_cancel(&charge);
		return false;
	}
	FAULT_POINT(GUEST_SWAP_HALF_IN);
	move_count_part(&parts, piece);
	swap_set_out(atomic_load(&move->guest->slot), device->ledger, away - piece->bytes);
	move_charge(&charge, &parts);
	return true;
}

/* Up to which address of a device there is all again. */
static CUdeviceptr move_come_pieces(struct move *move, int i)
{
	struct cursor cursor = {.guest = move->guest, .device = i, .from = move->come[i]};
	uint64_t away = move_away_of(move->guest, i);
	uint64_t room = move_room(move, i), came = 0;
	CUdeviceptr to = move->come[i];

	while (came < SOME_BYTES && move_next(&cursor) && cursor.device == i &&
	       cursor.piece.at < move->gone[i]) {
		uint64_t bytes = cursor.piece.resident ? 0 : cursor.piece.bytes;

		if (came + bytes > room ||
		    (bytes && !move_come_piece(move, &cursor.piece, i, away - came)))
			break;
		came += bytes;
		to = cursor.from;
	}
	return to;
}

static bool move_kind_come(void *self)
{
	struct move *move = self;
	uint64_t at = 0;
	bool any = false;

	for (int i = 0; move->away && !move->given && i < move->guest->ndevices; i++) {
		CUdeviceptr to = move->come[i] < move->gone[i] ? move_come_pieces(move, i) : 0;

		if (to > move->come[i] &&
		    !move_copy_device(move, i, at, move->come[i], to, false)) {
			move->come[i] = to;
			any = true;
		}
		at += move_bytes_of(move->guest, i);
	}
	return any;
}

enum swap_why move_ask_again(struct move *move)
{
	if (move->away || !importer_any(move->guest))
		return SWAP_FINE;
	if (mapping_detach(move->guest))
		return SWAP_DRIVER;
	move->away = move->unsure = true;
	return SWAP_FINE;
}

static enum swap_why move_kind_back(void *self)
{
	struct move *move = self;
	uint32_t request = word_acquire(swap_request(move->guest->policy_map));
	enum swap_why why = SWAP_FINE;

	if (!move->away)
		return SWAP_FINE;
	if (move->given)
		return SWAP_ELSEWHERE;
	for (int i = 0; !why && i < move->guest->ndevices; i++)
		why = move_attach_charged(move, i);
	if (!why)
		why = move_copy_back(move);
	if (!why)
		exporter_is_back(move->guest, SHARE_MAGIC, request);
	if (!why)
		why = borrow_why(importer_attach(move->guest));
	if (!why && mapping_attach(move->guest))
		why = SWAP_DRIVER;
	if (why) {
		/* Some importers may have it already: they wait for this word to leave again. */
		exporter_has_copied(move->guest, SHARE_MAGIC);
		move_release_all(move);
		exporter_gives_up(move->guest, request);
		return why;
	}
	FAULT_POINT(GUEST_SWAP_IN);
	move->away = move->unsure = false;
	memset(move->gone, 0, sizeof(move->gone));
	memset(move->come, 0, sizeof(move->come));
	return SWAP_FINE;
}

/* --- As the swap thread knows it ------------------------------------------------------------- */

/* Others of the tenant do not wait for what is spare until this one's work has ended. */
static enum swap_why move_kind_rest(void *self)
{
	struct guest *guest = ((struct move *)self)->guest;

	for (int i = 0; i < guest->ndevices; i++)
		linear_end_spare(guest, &guest->device[i]);
	spare_end(guest->claimed);
	return drain_work(guest);
}

static enum swap_why move_kind_prepare(void *self, uint64_t *ret_amount)
{
	const struct move *move = self;

	return obstacles_find(move->guest, move->contexts, ret_amount);
}

static uint64_t move_kind_bytes(void *self, uint32_t part)
{
	struct guest *guest = ((struct move *)self)->guest;
	uint64_t bytes = 0;

	for (int i = 0; i < guest->ndevices; i++)
		bytes += move_bytes_below(guest, i, move_bound(guest, i, part));
	return bytes;
}

/* A tenant that is out as a whole has no host memory beside the bytes that `allot ps` shows. */
static enum swap_why move_kind_out(void *self, uint32_t part)
{
	struct move *move = self;
	enum swap_why why = move_out(move, part);

	if (!why && part == SWAP_ALL)
		move_give_buffers(move);
	return why;
}

static struct mover_file move_kind_file(void *self)
{
	const struct move *move = self;
	const struct stage *stage = &move->stage;
	struct mover_file file = {.bytes = stage->bytes - stage->host_bytes, .error = stage->error};
	struct cursor cursor = {.guest = move->guest};

	while (file.bytes && move_next(&cursor))
		if (!cursor.piece.resident)
			file.holds += stage_filed(stage, cursor.at, cursor.piece.bytes);
	return file;
}

static void move_kind_come_end(void *self)
{
	move_copy_close(self);
}

static bool move_kind_is_away(const void *self)
{
	return ((const struct move *)self)->away;
}

static uint64_t move_kind_away(void *self)
{
	struct guest *guest = ((struct move *)self)->guest;
	uint64_t bytes = 0;

	for (int i = 0; i < guest->ndevices; i++)
		bytes += move_away_of(guest, i);
	return bytes;
}

static void move_kind_done(void *self)
{
	struct move *move = self;

	move_give_list(move);
	stage_give_file(&move->stage);
	memset(move->copied, 0, sizeof(move->copied));
}

static uint64_t move_kind_kept(const void *self)
{
	return stage_ready(&((const struct move *)self)->stage);
}

static bool move_kind_knows(const void *self)
{
	return stage_knows(&((const struct move *)self)->stage);
}

static uint64_t move_kind_empty(void *self)
{
	struct move *move = self;
	struct cursor cursor = {.guest = move->guest};
	uint64_t bytes = 0;

	while (move_next(&cursor))
		if (!cursor.piece.resident)
			bytes += stage_spared(&move->stage, cursor.at, cursor.at + cursor.piece.bytes);
	return bytes;
}

/* Buffers, and of each device what is behind its content: that was found ahead. */
static void move_give_rest(struct move *move)
{
	uint64_t at = 0, next;

	move_give_buffers(move);
	for (int i = 0; i < move->guest->ndevices; i++, at = next) {
		next = at + move_bytes_of(move->guest, i);
		stage_empty_part(&move->stage, at + move_bytes_below(move->guest, i, move->copied[i]),
				 i < move->guest->ndevices - 1 ? next : move->stage.bytes, copy_part,
				 NULL);
	}
}

static void move_end_call(struct move *move)
{
	atomic_store(&move->calling, 0);
	futex_wake_all(&move->calling);
}

/* First publish, then look: exit() waits for this call, or the end of the process does its work. */
static bool move_begin_call(struct move *move)
{
	atomic_store(&move->calling, 1);
	if (!atomic_load(&move->exits))
		return true;
	move_end_call(move);
	return false;
}

/* The program may run meanwhile, and capture: that must not forbid this, nor be spoiled by it. */
static void move_kind_forget(void *self)
{
	CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
	struct move *move = self;

	if (!move->stage.at)
		return;
	stage_end(&move->stage);
	if (!move_begin_call(move))
		return;
	DRIVER(cuThreadExchangeStreamCaptureMode, (&mode));
	if (move->away)
		move_give_rest(move);
	else
		move_give_host(move);
	DRIVER(cuThreadExchangeStreamCaptureMode, (&mode));
	move_end_call(move);
}

/*
 * The program runs meanwhile, and may end contexts: such a call waits for others that are under
 * way, as this one is.
 */
static bool move_register_ahead(void *arg, char *at, uint64_t bytes)
{
	CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
	struct cursor cursor = {.guest = ((struct move *)arg)->guest};
	struct guest_device *device;
	CUcontext context;
	bool known = false;

	if (!move_next(&cursor))
		return false;
	device = &cursor.guest->device[cursor.device];
	calls_begin(device);
	DRIVER(cuThreadExchangeStreamCaptureMode, (&mode));
	if (!atomic_load(&((struct move *)arg)->exits) &&
	    move_enter(cursor.guest, device, &context)) {
		known = !DRIVER(cuMemHostRegister_v2, (at, bytes, CU_MEMHOSTREGISTER_PORTABLE));
		DRIVER(cuCtxPopCurrent_v2, (&context));
	}
	DRIVER(cuThreadExchangeStreamCaptureMode, (&mode));
	calls_end(device);
	return known;
}

static bool move_kind_ahead(void *self, uint32_t part, uint64_t least)
{
	struct move *move = self;
	const struct residency_file *residency = atomic_load(&move->guest->residency);
	bool finished = stage_has_finished(&move->stage), all;
	uint64_t bytes, to;

	if (part && stage_is_at_work(&move->stage))
		return false;
	if (!finished || !part)
		stage_end(&move->stage);
	bytes = to = part ? move_bytes(move->guest) : 0;
	if (!bytes || atomic_load(&move->exits))
		return true;
	/* Whole pieces leave; but --host-memory bounds the processes of a tenant together. */
	if (part < SWAP_ALL && move->away)
		least = UINT64_MAX; /* nothing is found, and what is there is known */
	else if (part < SWAP_ALL && !move->guest->policy.host_bytes)
		to = move_kind_bytes(move, part);
	else if (part < SWAP_ALL)
		to = bytes / SWAP_ALL * part / STAGE_STEP_BYTES * STAGE_STEP_BYTES;
	/* With a reserve: a program that grows has its pages prepared anew only a few times. */
	if (!move->away && move->stage.bytes < bytes) {
		move_kind_forget(move);
		if (!stage_take(&move->stage, bytes / 4 * 5))
			return true;
	}
	all = least == UINT64_MAX ||
	      stage_ready(&move->stage) + stage_spared_steps(&move->stage) >=
		      min_u64(to, move->stage.host_bytes);
	if (finished && (all || host_memory_own_room() < least))
		return all;
	move->stage.busy = residency ? residency_file_moves(residency) : NULL;
	stage_begin_ahead(&move->stage, to, least, move_register_ahead, move);
	return false;
}

static void move_kind_yield(void *self)
{
	struct move *move = self;
	uint16_t number;

	if (!move->answer.begun && !spare_question(move->guest->claimed, &number))
		return;
	if (!move_begin_call(move))
		return;
	linear_answer_spare(move->guest, &move->answer);
	move_end_call(move);
}

void move_exit(struct move *move)
{
	atomic_store(&move->exits, true);
	stage_end(&move->stage);
	while (atomic_load(&move->calling))
		futex_wait(&move->calling, 1);
}

const struct mover_kind move_kind = {
	.rest = move_kind_rest,
	.prepare = move_kind_prepare,
	.bytes = move_kind_bytes,
	.take = move_kind_take,
	.file = move_kind_file,
	.out = move_kind_out,
	.come = move_kind_come,
	.come_end = move_kind_come_end,
	.back = move_kind_back,
	.is_away = move_kind_is_away,
	.away = move_kind_away,
	.done = move_kind_done,
	.ahead = move_kind_ahead,
	.yield = move_kind_yield,
	.kept = move_kind_kept,
	.empty = move_kind_empty,
	.knows = move_kind_knows,
	.forget = move_kind_forget,
};
