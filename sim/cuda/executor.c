/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A context's executor: a discrete-event simulation of the device's time. Works of different
 * streams run side by side, as on a device with multiprocessors to spare (the device counts as
 * busy once), until the slice ends; then what is left of each waits for the next turn. A work
 * starts when the one before it in its stream ended, however late this thread was told, so a row
 * of kernels takes exactly the sum of their times.
 *
 * The thread sleeps to absolute times. Only before the end of a last work, for which somebody is
 * likely to wait, does it spin for the last microseconds.
 */
#include "base/now.h"
#include "base/number.h"
#include "sim/cuda/exec.h"
#include "sim/cuda/settings.h"
#include "sim/cuda/stream.h"

#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <time.h>

#define SPIN_NS 25000u	     /* a sleep overshoots by about as much */
#define BATCH_NS 50000u	     /* with works lined up behind, look no more often than this */
#define PUBLISH_NS 5000000u  /* let busy time be seen at least so often */
#define POLL_NS 50000u	     /* for a value in memory */

static __thread bool on_executor;

bool executor_is_me(void)
{
	return on_executor;
}

void executor_ring(struct sim_exec *exec)
{
	engine_ring(exec->seat.seat);
}

/* A mark that a host thread waits for is no work of the driver's: it takes no time. */
static bool executor_is_free(const struct sim_op *op)
{
	return op->work.kind == WORK_MARK && !op->work.recorded;
}

/* How long the device takes to record an event. */
static uint64_t executor_record_ns(const struct sim_op *op)
{
	return op->work.kind == WORK_MARK && !executor_is_free(op) ? sim_settings()->event_device_ns
								   : 0;
}

/* The instant from which on the device knows of the work. */
static uint64_t executor_known_ns(const struct sim_op *op)
{
	return op->enqueued_ns + (executor_is_free(op) ? 0 : sim_settings()->launch_ns);
}

/*
 * A mark behind work is made as that ends, or a little later where a record takes time. One in an
 * idle stream, or behind a wait, waits for the context's turn, as the channel that would write it does.
 */
static bool executor_is_device_work(const struct sim_op *op)
{
	const struct sim_stream *stream = op->stream;

	if (op->work.kind != WORK_MARK)
		return op->work.kind <= WORK_SET;
	return executor_record_ns(op) || executor_known_ns(op) > stream->clock_ns ||
	       (stream->waited && op->work.recorded);
}

static bool executor_is_blocking(const struct sim_stream *stream)
{
	return !(stream->flags & CU_STREAM_NON_BLOCKING);
}

/*
 * The legacy stream's rule: its work starts after all earlier work of blocking streams, and theirs
 * after all its earlier work. *when moves to where those ended.
 */
static bool executor_behind_barrier(const struct sim_op *op, uint64_t *when)
{
	struct sim_stream *stream = op->stream;
	struct sim_exec *exec = stream->exec;

	if (stream != exec->legacy) {
		if (!executor_is_blocking(stream))
			return false;
		if (exec->legacy->head && exec->legacy->head->stamp < op->stamp)
			return true;
		*when = max_u64(*when, exec->legacy->clock_ns);
		return false;
	}
	for (struct sim_stream *s = exec->streams; s; s = s->next) {
		if (s == stream || !executor_is_blocking(s))
			continue;
		if (s->head && s->head->stamp < op->stamp)
			return true;
		*when = max_u64(*when, s->clock_ns);
	}
	return false;
}

static bool executor_value_arrived(const struct sim_work *work)
{
	uint64_t mask = work->value.wide ? UINT64_MAX : UINT32_MAX;
	uint64_t value = work->value.value & mask, is;

	if (work->value.wide)
		is = atomic_load((_Atomic uint64_t *)(uintptr_t)work->value.address);
	else
		is = atomic_load((_Atomic uint32_t *)(uintptr_t)work->value.address);
	switch (work->value.flags & 3) {
	case 0: /* CU_STREAM_WAIT_VALUE_GEQ, cyclic */
		return work->value.wide ? (int64_t)(is - value) >= 0 :
					  (int32_t)((uint32_t)is - (uint32_t)value) >= 0;
	case 1: /* _EQ */
		return is == value;
	case 2: /* _AND */
		return is & value;
	default: /* _NOR */
		return ~(is | value) & mask;
	}
}

static void executor_write_value(const struct sim_work *work)
{
	if (work->value.wide)
		atomic_store((_Atomic uint64_t *)(uintptr_t)work->value.address, work->value.value);
	else
		atomic_store((_Atomic uint32_t *)(uintptr_t)work->value.address,
			     (uint32_t)work->value.value);
}

static void *executor_host_main(void *arg);

/*
 * Hands a work to the thread for host functions. Its stream goes on when the function has returned.
 */
static void executor_send_to_host(struct sim_exec *exec, struct sim_op *op)
{
	op->running = NULL;
	op->state = OP_RUNNING;
	if (exec->host_op)
		exec->host_last->running = op;
	else
		exec->host_op = op;
	exec->host_last = op;
	if (!exec->host_started) {
		sigset_t all, before;

		sigfillset(&all);
		pthread_sigmask(SIG_SETMASK, &all, &before);
		exec->host_started =
			!pthread_create(&exec->host_thread, NULL, executor_host_main, exec);
		pthread_sigmask(SIG_SETMASK, &before, NULL);
	}
	pthread_cond_signal(&exec->host_work);
}

/* Announces a completion. Its work goes first, so the thread that waited finds the stream idle. */
static void executor_announce(struct sim_op *op, uint64_t ns)
{
	struct sim_mark *mark = mark_ref(op->work.mark);

	stream_pop(op->stream, ns);
	mark_set(mark, ns);
	mark_unref(mark);
}

static void executor_finish(struct sim_op *op, uint64_t ns)
{
	op->stream->waited = false;
	if (op->work.kind == WORK_MARK)
		executor_announce(op, ns);
	else
		stream_pop(op->stream, ns);
}

/* Bookkeeping of other modules, which take locks of their own: not under exec->lock. */
static void executor_run_unlocked(struct sim_exec *exec, struct sim_work *work)
{
	pthread_mutex_unlock(&exec->lock);
	if (work->kind == WORK_CALL)
		work->call.fn(work->call.arg);
	else if (work->kind == WORK_ALLOC)
		sim_graph_mem_alloc(work->mem.mem);
	else if (work->kind == WORK_FREE && sim_graph_mem_in_use(work->mem.mem))
		sim_graph_mem_free(work->mem.mem);
	else if (work->kind == WORK_UNBACK)
		sim_graph_mem_unback(work->mem.mem);
	pthread_mutex_lock(&exec->lock);
}

/* After a fault nothing runs any more, but whoever waits is let go and books are kept. */
static bool executor_survives_fault(const struct sim_op *op)
{
	return op->work.kind == WORK_MARK || op->work.kind == WORK_CALLBACK ||
	       op->work.kind == WORK_CALL || op->work.kind == WORK_UNBACK;
}

/*
 * A work at the head of its stream, with nothing before it: start it, or, when it takes no time,
 * run it at once. True when it is gone. exec->lock held, and given up at times; the head stays
 * where it is meanwhile.
 */
static bool executor_begin(struct sim_exec *exec, struct sim_op *op)
{
	struct sim_work *work = &op->work;
	uint64_t when = max_u64(op->stream->clock_ns, op->enqueued_ns);

	if (executor_behind_barrier(op, &when))
		return false;
	op->stream->waited |= when > max_u64(op->stream->clock_ns, op->enqueued_ns);
	if (atomic_load(&exec->error) && !executor_survives_fault(op)) {
		stream_pop(op->stream, when);
		return true;
	}
	if (executor_is_device_work(op)) {
		op->state = OP_READY;
		op->ready_ns = max_u64(when, executor_known_ns(op));
		op->running = exec->active;
		exec->active = op;
		return false;
	}
	switch (work->kind) {
	case WORK_HOST:
	case WORK_CALLBACK:
		executor_send_to_host(exec, op);
		return false;
	case WORK_WAIT:
		if (mark_watch(work->mark, exec))
			return false;
		when = max_u64(when, work->mark->ns);
		op->stream->waited = true;
		break;
	case WORK_READ_VALUE:
		if (!executor_value_arrived(work)) {
			exec->polls = true;
			return false;
		}
		when = max_u64(when, now_monotonic_ns());
		op->stream->waited = true;
		break;
	case WORK_WRITE_VALUE:
		executor_write_value(work);
		break;
	case WORK_MARK:
		executor_announce(op, when);
		return true;
	default:
		executor_run_unlocked(exec, work);
		break;
	}
	stream_pop(op->stream, when);
	return true;
}

/* Begin whatever can begin, until nothing more does. */
static void executor_begin_what_can(struct sim_exec *exec)
{
	bool again;

	pthread_mutex_lock(&exec->lock);
	do {
		again = false;
		exec->polls = false;
		for (struct sim_stream *s = exec->streams, *next; s; s = next) {
			while (s->head && s->head->state == OP_QUEUED &&
			       executor_begin(exec, s->head))
				again = true;
			next = s->next;
			if (s->closing && !s->head)
				stream_free(s);
		}
	} while (again);
	pthread_mutex_unlock(&exec->lock);
}

static void *executor_host_main(void *arg)
{
	struct sim_exec *exec = arg;

	pthread_mutex_lock(&exec->lock);
	for (;;) {
		struct sim_op *op = exec->host_op;

		if (!op) {
			if (exec->stopping)
				break;
			pthread_cond_wait(&exec->host_work, &exec->lock);
			continue;
		}
		exec->host_op = op->running;
		pthread_mutex_unlock(&exec->lock);
		if (op->work.kind == WORK_HOST)
			op->work.host.fn(op->work.host.userData);
		else
			op->work.callback.fn(op->work.callback.stream,
					     (CUresult)atomic_load(&exec->error),
					     op->work.callback.data);
		pthread_mutex_lock(&exec->lock);
		op->stream->waited = true;
		stream_pop(op->stream, now_monotonic_ns());
		executor_ring(exec);
	}
	pthread_mutex_unlock(&exec->lock);
	return NULL;
}

static void executor_note_fault(struct sim_exec *exec, CUresult error)
{
	int none = CUDA_SUCCESS;

	atomic_compare_exchange_strong(&exec->error, &none, (int)error);
}

/* The current step of a work is over: the next one, or it is done (false). */
static bool executor_step(struct sim_exec *exec, struct sim_op *op)
{
	CUresult error = CUDA_SUCCESS;
	bool last = op->state == OP_RUNNING && op->cursor == UINT64_MAX;

	if (last || (op->work.kind == WORK_MARK && !executor_record_ns(op)) ||
	    atomic_load(&exec->error))
		return false;
	if (op->work.kind == WORK_MARK) {
		op->left_ns = executor_record_ns(op);
		last = true;
	} else if (op->work.kind == WORK_KERNEL) {
		error = kernel_step(op, exec->clock_ns, &op->left_ns, &last);
	} else if (op->work.kind == WORK_COPY) {
		error = copy_step(op, &op->left_ns, &last);
	} else {
		error = set_step(op, &op->left_ns, &last);
	}
	if (error) {
		executor_note_fault(exec, error);
		return false;
	}
	op->state = OP_RUNNING;
	if (last)
		op->cursor = UINT64_MAX;
	return true;
}

/* Start what is due and end what is over at the executor's time; the times of the next such. */
static uint64_t executor_settle(struct sim_exec *exec, bool *ret_runs)
{
	uint64_t next;
	bool ended;

	do {
		struct sim_op **link = &exec->active;

		ended = *ret_runs = false;
		next = UINT64_MAX;
		while (*link) {
			struct sim_op *op = *link;
			bool due = op->state == OP_READY ? op->ready_ns <= exec->clock_ns :
							   !op->left_ns;

			if (due && !executor_step(exec, op)) {
				*link = op->running;
				pthread_mutex_lock(&exec->lock);
				executor_finish(op, exec->clock_ns);
				pthread_mutex_unlock(&exec->lock);
				ended = true;
				continue;
			}
			if (op->state == OP_RUNNING) {
				*ret_runs = true;
				next = min_u64(next, exec->clock_ns + op->left_ns);
			} else {
				next = min_u64(next, op->ready_ns);
			}
			link = &op->running;
		}
		if (ended)
			executor_begin_what_can(exec);
	} while (ended);
	return next;
}

/* The kinds of the works that run now, a bit each, as device_time.h counts them. */
static uint32_t executor_kinds_running(const struct sim_exec *exec)
{
	uint32_t kinds = 0;

	for (const struct sim_op *op = exec->active; op; op = op->running) {
		if (op->state != OP_RUNNING)
			continue;
		if (op->work.kind == WORK_KERNEL)
			kinds |= 1u << SIM_TIME_KERNEL;
		else if (op->work.kind == WORK_SET)
			kinds |= 1u << SIM_TIME_SET;
		else if (op->work.kind == WORK_COPY)
			kinds |= 1u << (copy_on_device(&op->work.copy) ? SIM_TIME_DEVICE_COPY :
									 SIM_TIME_HOST_COPY);
	}
	return kinds;
}

/* Run the context's works on the device up to `to`. When something next happens. */
static uint64_t executor_advance(struct sim_exec *exec, uint64_t to)
{
	for (;;) {
		bool runs;
		uint64_t next = executor_settle(exec, &runs);
		uint64_t end = min_u64(next, to);

		if (end <= exec->clock_ns || next == UINT64_MAX)
			return next;
		if (runs) {
			engine_add_busy(&exec->seat, exec->clock_ns, end,
					executor_kinds_running(exec));
			for (struct sim_op *op = exec->active; op; op = op->running)
				if (op->state == OP_RUNNING)
					op->left_ns -= end - exec->clock_ns;
		}
		exec->clock_ns = end;
	}
}

static void executor_relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
	__builtin_ia32_pause();
#endif
}

static void executor_wait_until(struct sim_exec *exec, uint32_t heard, uint64_t until, uint64_t now)
{
	uint32_t pending;

	pthread_mutex_lock(&exec->lock);
	pending = exec->pending;
	pthread_mutex_unlock(&exec->lock);
	if (pending > 4) {
		engine_sleep(&exec->seat, heard, max_u64(until, now + BATCH_NS));
		return;
	}
	if (until > now + 2 * SPIN_NS)
		engine_sleep(&exec->seat, heard, until - SPIN_NS);
	while (engine_listen(&exec->seat) == heard && now_monotonic_ns() < until)
		executor_relax();
}

/* There is work for the device: run it while it is ours. */
static void executor_run_device(struct sim_exec *exec, uint32_t heard)
{
	struct engine_turn turn;
	uint64_t ready = UINT64_MAX, next, now;

	for (struct sim_op *op = exec->active; op; op = op->running)
		ready = min_u64(ready, op->state == OP_READY ? op->ready_ns : exec->clock_ns);
	engine_turn(&exec->seat, max_u64(ready, exec->clock_ns), &turn);
	exec->asked = true;
	if (!turn.mine) {
		engine_sleep(&exec->seat, heard, turn.look_ns);
		return;
	}
	exec->clock_ns = max_u64(exec->clock_ns, turn.from_ns);
	now = now_monotonic_ns();
	/* While the device is on its way here nothing begins, nor ends: not even an event. */
	next = exec->clock_ns > now ? exec->clock_ns :
				      executor_advance(exec, min_u64(now, turn.to_ns));
	if (!exec->active)
		return;
	if (exec->clock_ns >= turn.to_ns) {
		engine_pass(&exec->seat, exec->clock_ns, true);
		return;
	}
	now = now_monotonic_ns();
	executor_wait_until(exec, heard, min_u64(min_u64(next, turn.to_ns), now + PUBLISH_NS), now);
}

static void *executor_main(void *arg)
{
	struct sim_exec *exec = arg;

	on_executor = true;
	prctl(PR_SET_TIMERSLACK, 1000);
	for (;;) {
		uint32_t heard = engine_listen(&exec->seat);
		bool stop;

		executor_begin_what_can(exec);
		if (exec->active) {
			executor_run_device(exec, heard);
			continue;
		}
		if (exec->asked)
			engine_pass(&exec->seat, exec->clock_ns, false);
		exec->asked = false;
		pthread_mutex_lock(&exec->lock);
		stop = exec->stopping && !exec->pending;
		pthread_mutex_unlock(&exec->lock);
		if (stop)
			break;
		engine_sleep(&exec->seat, heard,
			     exec->polls ? now_monotonic_ns() + POLL_NS : UINT64_MAX);
	}
	return NULL;
}

int executor_start(struct sim_exec *exec)
{
	sigset_t all, before;
	int err;

	while (engine_sit(&exec->seat, exec->device)) {
		const struct timespec a_moment = {.tv_nsec = 1000000};

		nanosleep(&a_moment, NULL);
	}
	/* The program's signals are for the program's threads. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	err = pthread_create(&exec->thread, NULL, executor_main, exec);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (err) {
		engine_leave(&exec->seat);
		return -err;
	}
	exec->started = true;
	return 0;
}

void executor_stop(struct sim_exec *exec)
{
	bool host;

	if (!exec->started)
		return;
	pthread_mutex_lock(&exec->lock);
	exec->stopping = true;
	pthread_mutex_unlock(&exec->lock);
	executor_ring(exec);
	pthread_join(exec->thread, NULL);
	pthread_mutex_lock(&exec->lock);
	host = exec->host_started;
	pthread_cond_signal(&exec->host_work);
	pthread_mutex_unlock(&exec->lock);
	if (host)
		pthread_join(exec->host_thread, NULL);
	engine_leave(&exec->seat);
}
