/* SPDX-License-Identifier: Apache-2.0 */
/* Completions that threads and executors wait for. */
#include "sim/cuda/exec.h"

#include <limits.h>
#include <linux/futex.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

enum mark_state { MARK_PENDING, MARK_AWAITED, MARK_DONE };

struct mark_waiter {
	struct mark_waiter *next;
	struct sim_exec *exec;
};

/*
 * Over every mark's waiters and its setting. Rings go out under it, so that an executor that has
 * seen its mark done and passed through this lock is not rung any more.
 */
static pthread_mutex_t marks_lock = PTHREAD_MUTEX_INITIALIZER;

struct sim_mark *mark_new(void)
{
	struct sim_mark *mark = calloc(1, sizeof(*mark));

	if (mark)
		atomic_init(&mark->refs, 1);
	return mark;
}

struct sim_mark *mark_ref(struct sim_mark *mark)
{
	atomic_fetch_add_explicit(&mark->refs, 1, memory_order_relaxed);
	return mark;
}

void mark_unref(struct sim_mark *mark)
{
	if (mark && atomic_fetch_sub_explicit(&mark->refs, 1, memory_order_acq_rel) == 1)
		free(mark);
}

bool mark_done(struct sim_mark *mark)
{
	/*
	 * Pairs with the exchange in mark_set: a thread that sees MARK_DONE also sees the mark's
	 * time.
	 */
	return atomic_load_explicit(&mark->state, memory_order_acquire) == MARK_DONE;
}

void mark_set(struct sim_mark *mark, uint64_t ns)
{
	pthread_mutex_lock(&marks_lock);
	mark->ns = ns;
	if (atomic_exchange_explicit(&mark->state, MARK_DONE, memory_order_acq_rel) == MARK_AWAITED)
		syscall(SYS_futex, &mark->state, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
	while (mark->waiters) {
		struct mark_waiter *waiter = mark->waiters;

		mark->waiters = waiter->next;
		engine_ring(waiter->exec->seat.seat);
		free(waiter);
	}
	pthread_mutex_unlock(&marks_lock);
}

void mark_wait(struct sim_mark *mark)
{
	while (!mark_done(mark)) {
		uint32_t pending = MARK_PENDING;

		atomic_compare_exchange_strong(&mark->state, &pending, MARK_AWAITED);
		syscall(SYS_futex, &mark->state, FUTEX_WAIT_PRIVATE, MARK_AWAITED, NULL, NULL, 0);
	}
}

bool mark_watch(struct sim_mark *mark, struct sim_exec *exec)
{
	struct mark_waiter *waiter;
	bool done;

	if (mark_done(mark))
		return false;
	pthread_mutex_lock(&marks_lock);
	done = mark_done(mark);
	for (waiter = mark->waiters; !done && waiter; waiter = waiter->next)
		if (waiter->exec == exec)
			break;
	if (!done && !waiter) {
		waiter = malloc(sizeof(*waiter));
		if (waiter) {
			waiter->exec = exec;
			waiter->next = mark->waiters;
			mark->waiters = waiter;
		} else {
			engine_ring(exec->seat.seat); /* no memory: look again soon */
		}
	}
	pthread_mutex_unlock(&marks_lock);
	return !done;
}

void mark_quiesce(void)
{
	pthread_mutex_lock(&marks_lock);
	pthread_mutex_unlock(&marks_lock);
}
