/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Limits of contexts: stacks, which a driver backs when their depth is set, and the heap and the
 * buffer of printf, which it backs no later than at the first launch of code that uses them.
 */
#include <pthread.h>

#include "storm_work.h"

static struct {
	pthread_once_t once;
	size_t bytes[CU_LIMIT_MAX];
} limits_default = {.once = PTHREAD_ONCE_INIT};

static void limits_read(void)
{
	static const CUlimit known[] = {CU_LIMIT_STACK_SIZE, CU_LIMIT_PRINTF_FIFO_SIZE,
					CU_LIMIT_MALLOC_HEAP_SIZE};

	for (int i = 0; i < 3; i++)
		OK(cu.cuCtxGetLimit(&limits_default.bytes[known[i]], known[i]));
}

void storm_begin_limits(void)
{
	pthread_once(&limits_default.once, limits_read);
}

CUlimit storm_pick_limit(struct worker *w)
{
	switch (pick(&w->seed, 3)) {
	case 0: return CU_LIMIT_STACK_SIZE;
	case 1: return CU_LIMIT_PRINTF_FIFO_SIZE;
	default: return CU_LIMIT_MALLOC_HEAP_SIZE;
	}
}

/*
 * A heap and a printf buffer can not be changed once code that uses them is loaded, which is
 * answered with an invalid value; a stack can.
 */
#define LIMITED(w, limit, call)                                                            \
	({                                                                                 \
		CUresult said_ = CUDA_SUCCESS;                                             \
		GIVES((said_ = got_, !got_ || got_ == CUDA_ERROR_OUT_OF_MEMORY ||          \
					     (got_ == CUDA_ERROR_INVALID_VALUE &&          \
					      (limit) != CU_LIMIT_STACK_SIZE)),            \
		      call);                                                               \
		storm_refused(w, said_);                                                   \
	})

/* A stack has its depth for each thread that the device can run: 128 KiB to 264 KiB a byte. */
bool storm_set_limit(struct worker *w, CUlimit limit, uint64_t bytes)
{
	if (limit == CU_LIMIT_STACK_SIZE)
		bytes = bytes >> 18 & ~UINT64_C(15);
	bytes += limits_default.bytes[limit];
	return !LIMITED(w, limit, cu.cuCtxSetLimit(limit, bytes));
}

/* Sets a limit of the primary context, which other threads may set, too. */
static bool limits_take(struct worker *w, struct block *b)
{
	b->limit = storm_pick_limit(w);
	return storm_set_limit(w, b->limit, b->bytes);
}

/* Up or down from what it is. */
static void limits_use(struct worker *w, struct block *b)
{
	storm_set_limit(w, b->limit, b->bytes >> pick(&w->seed, 3));
}

/* The way back is never refused for want of memory. */
static void limits_give(struct worker *w, struct block *b)
{
	(void)w;
	GIVES(got_ == CUDA_SUCCESS ||
		      (got_ == CUDA_ERROR_INVALID_VALUE && b->limit != CU_LIMIT_STACK_SIZE),
	      cu.cuCtxSetLimit(b->limit, limits_default.bytes[b->limit]));
}

const struct family storm_limit = {"limit", limits_take, limits_give, limits_use, NULL};
