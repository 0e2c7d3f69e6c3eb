/* SPDX-License-Identifier: Apache-2.0 */
/* Memory by handle: mapped or not, and dropped before its mapping or after it. */
#include "storm_work.h"

static CUdeviceptr handles_map(const struct block *b)
{
	CUmemAccessDesc access = {.location = storm_location(b->device),
				  .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
	CUdeviceptr ptr;

	OK(cu.cuMemAddressReserve(&ptr, b->bytes, 0, 0, 0));
	OK(cu.cuMemMap(ptr, b->bytes, 0, b->handle, 0));
	OK(cu.cuMemSetAccess(ptr, b->bytes, &access, 1));
	return ptr;
}

static void handles_unmap(const struct block *b, CUdeviceptr *ptr)
{
	if (!*ptr)
		return;
	OK(cu.cuMemUnmap(*ptr, b->bytes));
	OK(cu.cuMemAddressFree(*ptr, b->bytes));
	*ptr = 0;
}

static void handles_release(CUmemGenericAllocationHandle *handle)
{
	if (*handle)
		OK(cu.cuMemRelease(*handle));
	*handle = 0;
}

void storm_map_handle(struct worker *w, struct block *b)
{
	b->ptr = handles_map(b);
	if (!storm_draws(DRAW_TWICE))
		return;
	if (pick(&w->seed, 2))
		b->second = handles_map(b);
	if (pick(&w->seed, 2))
		OK(cu.cuMemRetainAllocationHandle(&b->again, (void *)(uintptr_t)b->ptr));
}

bool storm_create_handle(struct worker *w, struct block *b)
{
	CUmemAllocationProp prop = {
		.type = CU_MEM_ALLOCATION_TYPE_PINNED,
		.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
		.location = storm_location(b->device)};

	b->bytes = storm_granules(b->bytes);
	return !REFUSED(w, cu.cuMemCreate(&b->handle, b->bytes, &prop, 0));
}

bool storm_take_handle(struct worker *w, struct block *b)
{
	if (!storm_create_handle(w, b))
		return false;
	if (pick(&w->seed, 3))
		storm_map_handle(w, b);
	return true;
}

static bool handles_take(struct worker *w, struct block *b)
{
	if (!storm_take_handle(w, b))
		return false;
	if (b->ptr && pick(&w->seed, 2))
		handles_release(&b->handle); /* the mapping keeps it */
	return true;
}

/* The memory goes with the last of up to two handles and two mappings. */
void storm_give_handle(struct worker *w, struct block *b)
{
	for (unsigned int i = 0, at = pick(&w->seed, 4); i < 4; i++, at = (at + 1) % 4)
		switch (at) {
		case 0: handles_unmap(b, &b->ptr); break;
		case 1: handles_release(&b->handle); break;
		case 2: handles_unmap(b, &b->second); break;
		default: handles_release(&b->again); break;
		}
}

const struct family storm_handle = {"handle", handles_take, storm_give_handle, NULL, NULL};
