/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/account/context.h"

#include "base/number.h"
#include "guest/account/granule.h"
#include "guest/account/state.h"
#include "guest/core/object.h"

uint64_t context_size(struct guest *guest, struct guest_device *device)
{
	uint64_t size = atomic_load(&device->account->context_size);
	struct ledger_device_info info;

	if (!size && !ledger_device_info(guest->ledger, device->ledger, &info))
		size = atomic_load(&guest->space.confirmed) ? info.context_mps_bytes : info.context_bytes;
	return size < QUOTA_ABSURD_BYTES ? size : 0;
}

bool context_is_eager(struct guest *guest)
{
	CUmoduleLoadingMode mode;

	return !DRIVER(cuModuleGetLoadingMode, (&mode)) && mode == CU_MODULE_EAGER_LOADING;
}

static uint64_t context_code_on(struct guest *guest, const struct guest_device *device)
{
	struct slot *slot = atomic_load(&guest->slot);
	struct quota_row row;

	if (quota_process(guest->ledger, slot_index(slot), device->ledger, &row))
		return 0;
	return row.used[CAT_MODULE] < QUOTA_ABSURD_BYTES ? row.used[CAT_MODULE] : 0;
}

/*
 * Libraries that are loaded come into each new context at once, where loading is eager: on a device
 * that has none of them yet as much as on any other. By the driver's figure it is all the code of a
 * device, where that is asked, which may be more.
 */
static uint64_t context_code(struct guest *guest)
{
	uint64_t most = atomic_load(&guest->account->libraries_bytes);

	if (!atomic_load(&guest->account->libraries) || !context_is_eager(guest))
		return 0;
	for (int i = 0; i < guest->ndevices; i++)
		most = max_u64(most, context_code_on(guest, &guest->device[i]));
	return most;
}

uint64_t context_bound(struct guest *guest, struct guest_device *device)
{
	uint64_t size = context_size(guest, device), most = atomic_load(&device->account->context_most);

	if (!size)
		size = most && most < CONTEXT_BOUND ? most : CONTEXT_BOUND;
	return round_up(size + context_code(guest), GRANULE_BYTES);
}

void context_measure(struct guest *guest, struct guest_device *device, uint64_t rest, bool pure)
{
	uint64_t contexts = (uint64_t)atomic_load(&device->account->contexts), size;

	if (!contexts || !rest)
		return;
	atomic_store(&device->account->context_most, rest);
	if (!pure)
		return;
	size = round_up((rest + contexts - 1) / contexts, GRANULE_BYTES);
	if (atomic_exchange(&device->account->context_size, size) != size)
		ledger_learn_context(guest->ledger, device->ledger,
				     atomic_load(&guest->space.confirmed), size);
}

CUcontext context_of_memory(struct guest *guest)
{
	CUcontext context = NULL, primary;
	struct object green;

	if (DRIVER(cuCtxGetCurrent, (&context)) || !object_count(guest->objects, OBJECT_GREEN) ||
	    !object_get(guest->objects, OBJECT_GREEN, (uint64_t)(uintptr_t)context, &green))
		return context;
	primary = atomic_load(&guest->account->primary[green.device]);
	return primary ? primary : context;
}
