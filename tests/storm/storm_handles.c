/* SPDX-License-Identifier: Apache-2.0 */
/* Memory by handle: mapped or not, and dropped before its mapping or after it. */
#include "storm_work.h"

void storm_map_handle(struct block *b)
{
	CUmemAccessDesc access = {.location = storm_location(b->device),
				  .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};

	OK(cu.cuMemAddressReserve(&b->ptr, b->bytes, 0, 0, 0));
	OK(cu.cuMemMap(b->ptr, b->bytes, 0, b->handle, 0));
	OK(cu.cuMemSetAccess(b->ptr, b->bytes, &access, 1));
	b->mapped = true;
}

static void handles_unmap(struct block *b)
{
	OK(cu.cuMemUnmap(b->ptr, b->bytes));
	OK(cu.cuMemAddressFree(b->ptr, b->bytes));
	b->mapped = false;
}

bool storm_take_handle(struct worker *w, struct block *b)
{
	CUmemAllocationProp prop = {
		.type = CU_MEM_ALLOCATION_TYPE_PINNED,
		.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
		.location = storm_location(b->device)};

	b->bytes = storm_granules(b->bytes);
	if (REFUSED(w, cu.cuMemCreate(&b->handle, b->bytes, &prop, 0)))
		return false;
	if (pick(&w->seed, 3))
		storm_map_handle(b);
	return true;
}

static bool handles_take(struct worker *w, struct block *b)
{
	if (!storm_take_handle(w, b))
		return false;
	if (b->mapped && pick(&w->seed, 2)) {
		OK(cu.cuMemRelease(b->handle)); /* the mapping keeps it */
		b->handle = 0;
	}
	return true;
}

void storm_give_handle(struct worker *w, struct block *b)
{
	(void)w;
	if (b->mapped)
		handles_unmap(b);
	if (b->handle)
		OK(cu.cuMemRelease(b->handle));
}

const struct family storm_handle = {"handle", handles_take, storm_give_handle, NULL, NULL};
