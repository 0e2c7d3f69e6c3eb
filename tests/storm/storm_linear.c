/* SPDX-License-Identifier: Apache-2.0 */
/* Linear memory of cuMemAlloc and its kin. */
#include "storm_work.h"

static bool linear_take_large(struct worker *w, struct block *b)
{
	return !REFUSED(w, cu.cuMemAlloc_v2(&b->ptr, b->bytes));
}

/* Small allocations share a granule. */
static bool linear_take_small(struct worker *w, struct block *b)
{
	return !REFUSED(w, cu.cuMemAlloc_v2(&b->ptr, 512 + pick(&w->seed, 1 << 19)));
}

static bool linear_take_pitch(struct worker *w, struct block *b)
{
	size_t pitch;

	return !REFUSED(w, cu.cuMemAllocPitch_v2(&b->ptr, &pitch, 5000, 1 + b->bytes / 5120, 4));
}

static bool linear_take_managed(struct worker *w, struct block *b)
{
	return !REFUSED(w, cu.cuMemAllocManaged(&b->ptr, b->bytes, CU_MEM_ATTACH_GLOBAL));
}

static bool linear_may_managed(const struct worker *w)
{
	(void)w;
	return storm->options.managed;
}

static void linear_give(struct worker *w, struct block *b)
{
	storm_free(w, b->device, b->ptr, false);
}

/* The driver frees managed memory by one call alone. */
static void linear_give_managed(struct worker *w, struct block *b)
{
	(void)w;
	OK(cu.cuMemFree_v2(b->ptr));
}

/* cuMemAlloc memory that is freed in a stream's order. */
static void linear_give_mixed(struct worker *w, struct block *b)
{
	storm_free(w, b->device, b->ptr, true);
}

const struct family storm_large = {"large", linear_take_large, linear_give, NULL, NULL};
const struct family storm_small = {"small", linear_take_small, linear_give, NULL, NULL};
const struct family storm_pitch = {"pitch", linear_take_pitch, linear_give, NULL, NULL};
const struct family storm_mixed = {"mixed", linear_take_large, linear_give_mixed, NULL, NULL};
const struct family storm_managed = {"managed", linear_take_managed, linear_give_managed,
				     NULL, linear_may_managed};
