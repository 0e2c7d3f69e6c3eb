/* SPDX-License-Identifier: Apache-2.0 */
/* Memory in a stream's order: of the default pool, and of pools that end before or after it. */
#include "storm_work.h"

static bool pools_take_async(struct worker *w, struct block *b)
{
	return !REFUSED(w, cu.cuMemAllocAsync(&b->ptr, b->bytes, w->stream[b->device]));
}

static void pools_give_async(struct worker *w, struct block *b)
{
	storm_free(w, b->device, b->ptr, true);
}

static bool pools_take_own(struct worker *w, struct block *b)
{
	CUmemPoolProps props = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
				.location = storm_location(b->device)};
	CUstream stream = w->stream[b->device];
	cuuint64_t keep = pick(&w->seed, 2) ? UINT64_MAX : 0;
	CUmemoryPool pool;
	bool no;

	OK(cu.cuMemPoolCreate(&pool, &props));
	OK(cu.cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &keep));
	no = REFUSED(w, cu.cuMemAllocFromPoolAsync(&b->ptr, b->bytes, pool, stream));
	if (!no && REFUSED(w, cu.cuMemAllocFromPoolAsync(&b->second, b->bytes / 3 + 1, pool,
							 stream)))
		b->second = 0;
	if (no || pick(&w->seed, 2))
		OK(cu.cuMemPoolDestroy(pool));
	else
		b->object = pool;
	return !no;
}

static void pools_give_own(struct worker *w, struct block *b)
{
	storm_free(w, b->device, b->ptr, true);
	if (b->second && pick(&w->seed, 2) && b->object) {
		OK(cu.cuMemPoolDestroy(b->object));
		b->object = NULL;
	}
	if (b->second)
		storm_free(w, b->device, b->second, pick(&w->seed, 2));
	if (b->object)
		OK(cu.cuMemPoolDestroy(b->object));
}

const struct family storm_async = {"async", pools_take_async, pools_give_async, NULL, NULL};
const struct family storm_pool = {"pool", pools_take_own, pools_give_own, NULL, NULL};
