/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory of another API, or of a descriptor that is taken for such. The driver holds it until the
 * import is destroyed and every buffer and mipmapped array mapped from it is freed, in whatever
 * order. Each of these is a view (OBJECT_VIEW); the import (OBJECT_EXTERNAL) has the charge until
 * its last view goes.
 */
#ifndef ALLOT_GUEST_MEMORY_EXTERNAL_H
#define ALLOT_GUEST_MEMORY_EXTERNAL_H

#include "guest/memory/charge.h"

/*
 * Before the driver imports: charges it, and makes the import's first view, which has no key yet.
 * CUDA_ERROR_OUT_OF_MEMORY when the quota does not allow it.
 */
CUresult external_import(struct guest *guest, struct guest_device *device,
			 const CUDA_EXTERNAL_MEMORY_HANDLE_DESC *desc, struct object *ret_view);

/* Before the driver maps: one more view, likewise. False: the import is none of ours. */
bool external_map(struct guest *guest, CUexternalMemory memory, struct object *ret_view);

/*
 * After the driver let go of a view that is in no table any more. Answers the bytes that are to be
 * taken off the charge.
 */
uint64_t external_leave(struct guest *guest, const struct object *view);

#endif
