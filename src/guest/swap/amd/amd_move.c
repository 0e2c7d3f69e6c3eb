/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/swap/amd/amd_move.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "base/fault.h"
#include "base/fd.h"
#include "base/futex.h"
#include "base/word.h"
#include "guest/amd/memory/charge.h"
#include "guest/amd/memory/lent.h"
#include "guest/amd/memory/reserve.h"
#include "guest/amd/queue/queues.h"
#include "guest/amd/queue/work.h"
#include "guest/core/object.h"
#include "guest/lend/borrow.h"
#include "guest/lend/exporter.h"
#include "guest/process/thread.h"
#include "guest/swap/amd/amd_node.h"
#include "guest/swap/amd/amd_obstacles.h"
#include "ledger/swap.h"

/* Host memory is shown to a GPU in steps of so much. */
#define WINDOW_BYTES (4 * STAGE_STEP_BYTES)

/* The kernel knows a process's memory by whichever descriptor, so ours is opened for a while. */
static int amd_move_open_kfd(void)
{
	int fd;

	guest_depth++;
	fd = fd_openat(AT_FDCWD, "/dev/kfd", O_RDWR, 0);
	guest_depth--;
	return fd;
}

/* --- Coming to rest --------------------------------------------------------------------------- */

/* Queues are taken off the hardware whatever they have to do, and go on with that later. */
static enum swap_why amd_move_rest(void *self)
{
	return SWAP_FINE;
}

static bool amd_move_open_lanes(struct amd_move *move, int kfd)
{
	for (uint64_t i = 0; i < move->pieces.n; i++) {
		int device = move->pieces.at[i].device;

		if (!move->lane[device].gpu_id &&
		    !amd_lane_open(kfd, &move->amd->device[device], &move->lane[device]))
			return false;
	}
	return true;
}

static enum swap_why amd_move_prepare_with(struct amd_move *move, int kfd, uint64_t *ret_amount)
{
	struct queues *queues = queues_made(move->amd);
	enum swap_why why;

	if (queues && queues_hold(queues, true))
		return SWAP_DRIVER;
	move->amid = queues && move->guest->use && queues_are_amid(queues, kfd);
	why = amd_obstacles_find(move->guest, move->amd, kfd, ret_amount);
	if (!why)
		why = amd_pieces_find(move->guest, move->amd, &move->pieces, ret_amount);
	if (!why)
		why = amd_views_find(move->amd, &move->pieces, &move->views, ret_amount);
	if (!why && !amd_move_open_lanes(move, kfd))
		why = SWAP_DRIVER;
	return why;
}

static enum swap_why amd_move_prepare(void *self, uint64_t *ret_amount)
{
	struct amd_move *move = self;
	enum swap_why why;
	int kfd;

	move->amd = atomic_load(&move->guest->amd);
	if (!move->amd || move->amd->error) {
		move->amd = NULL;
		return SWAP_FINE;
	}
	/* To open it is to be known to the driver, which who has nothing there may not want. */
	if (!object_count(move->guest->objects, OBJECT_KFD) &&
	    !object_count(move->guest->objects, OBJECT_GEM) && !queues_made(move->amd))
		return amd_obstacles_find(move->guest, move->amd, -EBADF, ret_amount);
	kfd = amd_move_open_kfd();
	if (kfd < 0)
		return SWAP_DRIVER;
	why = amd_move_prepare_with(move, kfd, ret_amount);
	close(kfd);
	return why;
}

static uint64_t amd_move_bytes(void *self, uint32_t part)
{
	return ((struct amd_move *)self)->pieces.bytes;
}

static bool amd_move_take(void *self, uint64_t host_bytes, const char *dir)
{
	struct amd_move *move = self;
	struct stage *stage = &move->stage;

	if (!stage_suits(stage, move->pieces.bytes, host_bytes))
		stage_give(stage);
	return stage_take(stage, move->pieces.bytes) && !stage_take_file(stage, host_bytes, dir);
}

/* --- Copies ----------------------------------------------------------------------------------- */

/* The step of host memory that a GPU reaches at the moment. */
struct window {
	uint64_t at, bytes;
	uint64_t handle;
};

static bool amd_move_open_window(struct amd_move *move, int kfd, struct amd_lane *lane,
				 uint64_t at, struct window *window, bool out)
{
	uint64_t begin = at / WINDOW_BYTES * WINDOW_BYTES, left = move->pieces.bytes - begin;

	if (window->handle && window->at == begin)
		return true;
	amd_lane_unregister(kfd, lane, window->handle);
	*window = (struct window){.at = begin, .bytes = left < WINDOW_BYTES ? left : WINDOW_BYTES};
	if (stage_await(&move->stage, window->at, window->at + window->bytes, out))
		window->handle = amd_lane_register(kfd, lane, move->stage.at + window->at,
						   window->bytes);
	return window->handle;
}

static enum swap_why amd_move_copy_piece(struct amd_move *move, int kfd, struct amd_piece *piece,
					 struct window *window, bool out)
{
	struct amd_lane *lane = &move->lane[piece->device];

	for (uint64_t done = 0, n; done < piece->bytes; done += n) {
		uint64_t at = piece->host + done, host = (uintptr_t)move->stage.at + at;

		if (!amd_move_open_window(move, kfd, lane, at, window, out))
			return stage_why(&move->stage);
		n = window->at + window->bytes - at;
		n = n < piece->bytes - done ? n : piece->bytes - done;
		if (!amd_lane_copy(lane, out ? host : piece->va + done,
				   out ? piece->va + done : host, n))
			return SWAP_DRIVER;
		swap_get_on(move->amd->slot, n);
	}
	return SWAP_FINE;
}

static enum swap_why amd_move_copy_node(struct amd_move *move, int kfd, struct amd_piece *piece,
					struct window *window, bool out)
{
	enum swap_why why = SWAP_DRIVER;

	if (!amd_node_reach(kfd, move->amd, &move->pieces, piece))
		why = amd_move_copy_piece(move, kfd, piece, window, out);
	if (amd_node_unreach(kfd, move->amd, piece) && !why)
		why = SWAP_DRIVER;
	return why;
}

/* What its own GPU does not map is mapped there for the copy. */
static enum swap_why amd_move_copy_mapped(struct amd_move *move, int kfd, struct amd_piece *piece,
					  struct window *window, bool out)
{
	uint64_t own = UINT64_C(1) << piece->device, more = own & ~piece->now;
	enum swap_why why;

	if (piece->file >= 0)
		return amd_move_copy_node(move, kfd, piece, window, out);
	if (amd_pieces_map(kfd, move->amd, piece, more))
		return SWAP_DRIVER;
	why = amd_move_copy_piece(move, kfd, piece, window, out);
	if (amd_pieces_unmap(kfd, move->amd, piece, more) && !why)
		why = SWAP_DRIVER;
	return why;
}

static enum swap_why amd_move_copy_of(struct amd_move *move, int kfd, int device, bool out)
{
	struct amd_lane *lane = &move->lane[device];
	const struct amd_lane ours = *lane;
	struct window window = {.handle = 0};
	enum swap_why why = SWAP_FINE;

	for (uint64_t i = 0; !why && i < move->pieces.n; i++)
		if (move->pieces.at[i].device == device && !move->pieces.at[i].borrowed)
			why = amd_move_copy_mapped(move, kfd, &move->pieces.at[i], &window, out);
	/* A queue that was stopped is ended before the memory goes that it writes to. */
	if (why == SWAP_DRIVER)
		amd_lane_close(kfd, lane);
	amd_lane_unregister(kfd, &ours, window.handle);
	return why;
}

static bool amd_move_has(const struct amd_move *move, uint32_t device)
{
	for (uint64_t i = 0; i < move->pieces.n; i++)
		if (move->pieces.at[i].device == (int)device)
			return true;
	return false;
}

/* The copies of one GPU, by a thread of their own while there are others. */
struct amd_flow {
	struct amd_move *move;
	int kfd, device;
	bool out;
	enum swap_why why;
	_Atomic uint32_t *left; /* threads at work; a futex */
};

static void *amd_move_flow(void *arg)
{
	struct amd_flow *flow = arg;
	_Atomic uint32_t *left = flow->left;

	prctl(PR_SET_NAME, "allot-copy");
	flow->why = amd_move_copy_of(flow->move, flow->kfd, flow->device, flow->out);
	if (atomic_fetch_sub(left, 1) == 1)
		futex_wake_all(left);
	return NULL;
}

/* Where no thread can be had the calling one copies. */
static void amd_move_start(struct amd_flow *flow)
{
	atomic_fetch_add(flow->left, 1);
	if (!thread_start(amd_move_flow, flow))
		return;
	atomic_fetch_sub(flow->left, 1);
	flow->why = amd_move_copy_of(flow->move, flow->kfd, flow->device, flow->out);
}

/* All GPUs at once: the last by the calling thread. Returns the first failure, in their order. */
static enum swap_why amd_move_copy(struct amd_move *move, int kfd, bool out)
{
	struct amd_flow flow[GUEST_DEVICES];
	_Atomic uint32_t left = 0;
	uint32_t working, n = 0;
	enum swap_why why = SWAP_FINE;

	if (!amd_move_open_lanes(move, kfd))
		return SWAP_DRIVER;
	for (uint32_t i = 0; i < move->amd->ndevices; i++)
		if (amd_move_has(move, i))
			flow[n++] = (struct amd_flow){move, kfd, (int)i, out, SWAP_FINE, &left};
	for (uint32_t i = 0; i + 1 < n; i++)
		amd_move_start(&flow[i]);
	if (n)
		flow[n - 1].why = amd_move_copy_of(move, kfd, flow[n - 1].device, out);
	while ((working = atomic_load(&left)))
		futex_wait(&left, working);
	for (uint32_t i = n; i-- > 0;)
		why = flow[i].why ? flow[i].why : why;
	return why;
}

/* --- Out -------------------------------------------------------------------------------------- */

/* The pieces of a GPU stand together in host memory. */
static bool amd_move_take_host(struct amd_move *move)
{
	uint64_t at = 0;

	if (!stage_take(&move->stage, move->pieces.bytes))
		return false;
	for (uint32_t device = 0; device < move->amd->ndevices; device++)
		for (uint64_t i = 0; i < move->pieces.n; i++)
			if (move->pieces.at[i].device == (int)device) {
				move->pieces.at[i].host = at;
				at += amd_piece_content(&move->pieces.at[i]);
			}
	return true;
}

static uint64_t amd_move_away_of(const struct amd_move *move, uint32_t device)
{
	uint64_t bytes = 0;

	for (uint64_t i = 0; i < move->pieces.n; i++)
		if (move->pieces.at[i].device == (int)device && move->pieces.at[i].away)
			bytes += amd_piece_content(&move->pieces.at[i]);
	return bytes;
}

/* Our own with its content on the host; what is borrowed, with it at its exporter's. */
static bool amd_move_may_leave(const struct amd_move *move, const struct amd_piece *piece)
{
	return !piece->away && (piece->borrowed ? !move->unsure : move->copied);
}

/* What the kernel does not take stays where it is, charged, and is written over on return. */
static void amd_move_release(struct amd_move *move, int kfd)
{
	uint64_t charged[GUEST_DEVICES];

	for (uint32_t i = 0; i < move->amd->ndevices; i++)
		charged[i] = amd_move_away_of(move, i);
	for (uint64_t i = 0; i < move->pieces.n; i++) {
		if (!amd_move_may_leave(move, &move->pieces.at[i]))
			continue;
		amd_pieces_leave(kfd, move->amd, &move->pieces, &move->pieces.at[i]);
		FAULT_POINT(GUEST_SWAP_HALF_OUT);
	}
	FAULT_POINT(GUEST_SWAP_OUT);
	for (uint32_t i = 0; i < move->amd->ndevices; i++) {
		struct amd_device *device = &move->amd->device[i];
		uint64_t away = amd_move_away_of(move, i);

		if (!away)
			continue;
		swap_set_out(move->amd->slot, device->ledger, away);
		amd_charge_release(move->amd, device, DEMAND_VRAM, CAT_DATA, away - charged[i]);
	}
}

static void amd_move_synced(void *arg, uint64_t bytes)
{
	struct amd_move *move = arg;

	swap_get_on(move->amd->slot, bytes);
}

static enum swap_why amd_move_copy_out(struct amd_move *move, int kfd)
{
	enum swap_why why;

	if (move->copied || !move->pieces.bytes)
		return SWAP_FINE;
	if (!amd_move_take_host(move))
		return SWAP_HOST;
	stage_begin(&move->stage, 0, move->pieces.bytes, NULL, NULL);
	why = amd_move_copy(move, kfd, true);
	stage_end(&move->stage);
	if (!why && !stage_sync(&move->stage, amd_move_synced, move))
		why = SWAP_FILE;
	move->copied = !why;
	return why;
}

/*
 * Others may have what was lent to them until it is copied. Called off, nothing has to leave any
 * more; but whose memory is borrowed may be past that. So who borrows leaves, keeps that until it
 * is told, and asks on its way back. Whether it leaves.
 */
static bool amd_move_let_go(struct amd_move *move, uint32_t request, enum swap_why *ret_why)
{
	bool any = amd_lent_any(move->guest);
	enum swap_why why;

	exporter_has_copied(move->guest, SHARE_MAGIC_AMD);
	why = borrow_why(amd_lent_await_copies(move->guest));
	move->unsure = why && any;
	/* It was stopped for so long that nobody waits for it any more. */
	if (!why && !any && word_acquire(swap_request(move->guest->policy_map)) != request)
		why = SWAP_BUSY;
	*ret_why = why;
	return !why || move->unsure;
}

static void amd_move_stay(struct amd_move *move, uint32_t request)
{
	exporter_gives_up(move->guest, request);
	exporter_is_back(move->guest, SHARE_MAGIC_AMD, request);
}

/* Always all of it. */
static enum swap_why amd_move_out(void *self, uint32_t part)
{
	struct amd_move *move = self;
	uint32_t request = word_acquire(swap_request(move->guest->policy_map));
	enum swap_why why;
	int kfd;

	if (!move->pieces.n || (move->away && !move->unsure))
		return SWAP_FINE;
	kfd = amd_move_open_kfd();
	if (kfd < 0)
		return SWAP_DRIVER;
	why = amd_views_take(&move->views);
	if (!why)
		why = amd_move_copy_out(move, kfd);
	FAULT_POINT(GUEST_SWAP_COPIED);
	if (!why && amd_move_let_go(move, request, &why)) {
		amd_move_release(move, kfd);
		move->away = true;
	} else if (!move->away) {
		amd_move_stay(move, request);
	}
	close(kfd);
	return why;
}

enum swap_why amd_move_ask_again(struct amd_move *move)
{
	enum swap_why why;

	if (move->away || !move->pieces.n || !amd_lent_any(move->guest))
		return SWAP_FINE;
	why = amd_views_take(&move->views);
	if (!why)
		move->away = move->unsure = true;
	return why;
}

/* --- Back ------------------------------------------------------------------------------------- */

/* Reserves all that is swapped out, on as many GPUs as it answers: see move_reserve in move.c. */
static enum swap_why amd_move_reserve(struct amd_move *move, int kfd,
				      struct amd_charge charge[static GUEST_DEVICES],
				      uint32_t *ret_n)
{
	struct amd *amd = move->amd;

	*ret_n = 0;
	for (uint32_t i = 0; i < amd->ndevices; i++) {
		uint64_t bytes = amd_move_away_of(move, i);

		if (!bytes)
			continue;
		if (move->guest->use
			    ? amd_take_back(move->guest, amd, &amd->device[i], bytes, &charge[*ret_n])
			    : amd_reserve(move->guest, amd, &amd->device[i], kfd, DEMAND_VRAM,
					  bytes, &charge[*ret_n]))
			return SWAP_QUOTA;
		++*ret_n;
	}
	return SWAP_FINE;
}

static enum swap_why amd_move_return_all(struct amd_move *move, int kfd)
{
	enum swap_why why = SWAP_FINE;

	for (uint64_t i = 0; !why && i < move->pieces.n; i++) {
		struct amd_piece *piece = &move->pieces.at[i];

		if (piece->borrowed)
			continue;
		if (piece->away)
			why = amd_pieces_return(kfd, move->guest, move->amd, &move->pieces, i);
		else if (piece->file < 0 &&
			 amd_pieces_map(kfd, move->amd, piece, piece->mapped & ~piece->now))
			why = SWAP_DRIVER;
		FAULT_POINT(GUEST_SWAP_HALF_IN);
	}
	return why;
}

static enum swap_why amd_move_borrow_all(struct amd_move *move, int kfd)
{
	enum swap_why why = SWAP_FINE;

	for (uint64_t i = 0; !why && i < move->pieces.n; i++)
		if (move->pieces.at[i].borrowed)
			why = amd_pieces_borrow(kfd, move->guest, move->amd, &move->pieces, i);
	return why;
}

static enum swap_why amd_move_back_with(struct amd_move *move, int kfd)
{
	uint32_t request = word_acquire(swap_request(move->guest->policy_map));
	struct amd_charge charge[GUEST_DEVICES];
	uint32_t n;
	enum swap_why why = amd_move_reserve(move, kfd, charge, &n);

	if (why) {
		while (n-- > 0)
			amd_charge_cancel(&charge[n]);
		return why;
	}
	/* In this order: whoever reads what is used and then what is out counts nothing twice. */
	for (uint32_t i = 0; i < n; i++) {
		swap_set_out(move->amd->slot, charge[i].device->ledger, 0);
		amd_charge_commit(&charge[i], CAT_DATA, charge[i].reserved);
	}
	why = amd_move_return_all(move, kfd);
	/* Charged in full: what did not come is given back now, the rest when it leaves again. */
	for (uint32_t i = 0; i < n; i++) {
		struct amd_device *device = charge[i].device;
		uint64_t away =
			amd_move_away_of(move, (uint32_t)(device - move->amd->device));

		amd_charge_release(move->amd, device, DEMAND_VRAM, CAT_DATA, away);
		swap_set_out(move->amd->slot, device->ledger, away);
	}
	if (!why)
		why = amd_move_copy(move, kfd, false);
	if (!why)
		exporter_is_back(move->guest, SHARE_MAGIC_AMD, request);
	if (!why)
		why = amd_move_borrow_all(move, kfd);
	amd_pieces_settle(kfd, &move->pieces);
	if (why) {
		/* Some may have it already: they wait for this word to leave again. */
		exporter_has_copied(move->guest, SHARE_MAGIC_AMD);
		amd_move_release(move, kfd);
		exporter_gives_up(move->guest, request);
	}
	return why;
}

static enum swap_why amd_move_back(void *self)
{
	struct amd_move *move = self;
	enum swap_why why;
	int kfd;

	if (!move->away)
		return SWAP_FINE;
	kfd = amd_move_open_kfd();
	if (kfd < 0)
		return SWAP_DRIVER;
	why = amd_move_back_with(move, kfd);
	close(kfd);
	if (why)
		return why;
	FAULT_POINT(GUEST_SWAP_IN);
	move->away = move->unsure = false;
	return SWAP_FINE;
}

/* Doorbells make no call, and neither does a processor that reads what it has mapped. */
static enum mover_work amd_move_look(void *self)
{
	struct amd_move *move = self;
	struct amd *amd = atomic_load(&move->guest->amd);
	struct queues *queues = amd && !amd->error ? queues_made(amd) : NULL;
	bool works;

	if (!amd || amd->error)
		return MOVER_BY_CALLS;
	if (move->amd)
		works = move->amid || amd_views_are_awaited(&move->views) ||
			(queues && queues_have_more(queues));
	else
		works = queues && queues_work(queues);
	return works ? MOVER_WORKS : MOVER_RESTS;
}

static bool amd_move_is_away(const void *self)
{
	return ((const struct amd_move *)self)->away;
}

static uint64_t amd_move_away(void *self)
{
	const struct amd_move *move = self;
	uint64_t bytes = 0;

	for (uint32_t i = 0; move->amd && i < move->amd->ndevices; i++)
		bytes += amd_move_away_of(move, i);
	return bytes;
}

static struct mover_file amd_move_file(void *self)
{
	const struct amd_move *move = self;
	const struct stage *stage = &move->stage;
	struct mover_file file = {.bytes = stage->bytes - stage->host_bytes, .error = stage->error};

	for (uint64_t i = 0; file.bytes && i < move->pieces.n; i++)
		if (move->pieces.at[i].away)
			file.holds += stage_filed(stage, move->pieces.at[i].host,
						  amd_piece_content(&move->pieces.at[i]));
	return file;
}

static void amd_move_done(void *self)
{
	struct amd_move *move = self;
	struct queues *queues = move->amd ? queues_made(move->amd) : NULL;
	int kfd = move->pieces.n ? amd_move_open_kfd() : -EBADF;

	amd_views_give(&move->views, &move->pieces);
	for (uint32_t i = 0; kfd >= 0 && i < move->amd->ndevices; i++)
		amd_lane_close(kfd, &move->lane[i]);
	if (kfd >= 0)
		close(kfd);
	amd_pieces_free(&move->pieces);
	stage_give_file(&move->stage);
	move->copied = false;
	if (queues)
		queues_hold(queues, false);
	move->amd = NULL;
}

static uint64_t amd_move_kept(const void *self)
{
	return stage_ready(&((const struct amd_move *)self)->stage);
}

static void amd_move_forget(void *self)
{
	struct amd_move *move = self;

	if (!amd_move_is_away(move))
		stage_give(&move->stage);
}

const struct mover_kind amd_move_kind = {
	.rest = amd_move_rest,
	.prepare = amd_move_prepare,
	.bytes = amd_move_bytes,
	.take = amd_move_take,
	.file = amd_move_file,
	.out = amd_move_out,
	.back = amd_move_back,
	.is_away = amd_move_is_away,
	.away = amd_move_away,
	.done = amd_move_done,
	.look = amd_move_look,
	.kept = amd_move_kept,
	.forget = amd_move_forget,
};
