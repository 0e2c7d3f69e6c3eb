/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/memory/external.h"

#include "guest/core/hook.h"
#include "guest/memory/sharing.h"

static struct shared_key external_key(struct guest *guest, uint64_t number,
				      const CUDA_EXTERNAL_MEMORY_HANDLE_DESC *desc)
{
	struct shared_key key;

	if (desc->type == CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD &&
	    sharing_read(desc->handle.fd, &key))
		return key;
	/* A key that nobody else has. */
	return entry_key((uint64_t[2]){KEY(guest), number}, 16);
}

CUresult external_import(struct guest *guest, struct guest_device *device,
			 const CUDA_EXTERNAL_MEMORY_HANDLE_DESC *desc, struct object *ret_view)
{
	uint64_t number = 1 + atomic_fetch_add(&guest->imports, 1), known;
	struct shared_key key = external_key(guest, number, desc);
	struct object import = {.kind = OBJECT_EXTERNAL, .key = number, .category = CAT_IMPORTED,
				.flags = OBJECT_IMPORTED, .device = (int16_t)device->ordinal,
				.refs = 1, .size = desc->size};
	CUcontext context = NULL;
	CUresult e;

	/* The program may say less than there is. */
	known = shared_bytes(guest->ledger, key);
	if (import.size < known)
		import.size = known;
	e = sharing_import(guest, device, key, round_up(import.size, GRANULE_BYTES), &import);
	if (e)
		return e;
	if (object_put(guest->objects, &import)) {
		sharing_drop(guest, &import);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	DRIVER(cuCtxGetCurrent, (&context));
	*ret_view = (struct object){.kind = OBJECT_VIEW, .category = CAT_IMPORTED,
				    .device = import.device, .size = import.size,
				    .view = {.import = number, .context = KEY(context)}};
	return CUDA_SUCCESS;
}

struct views {
	int add;
	struct object after;
};

static bool external_count(struct object *import, void *arg)
{
	struct views *views = arg;

	import->refs += (uint32_t)views->add;
	views->after = *import;
	return import->refs;
}

static bool external_add(struct guest *guest, uint64_t number, struct views *views)
{
	return object_change(guest->objects, OBJECT_EXTERNAL, number, false, external_count, views);
}

bool external_map(struct guest *guest, CUexternalMemory memory, struct object *ret_view)
{
	struct views one = {.add = 1};
	struct object view;

	if (!object_get(guest->objects, OBJECT_VIEW, KEY(memory), &view) ||
	    !external_add(guest, view.view.import, &one))
		return false;
	/* The mapping goes with the context. */
	view.context = view.view.context;
	*ret_view = view;
	return true;
}

uint64_t external_leave(struct guest *guest, const struct object *view)
{
	struct views less = {.add = -1};

	if (!external_add(guest, view->view.import, &less) || less.after.refs)
		return 0;
	entry_leave(guest, &less.after);
	return less.after.bytes;
}
