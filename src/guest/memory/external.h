/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Imports that the driver holds until they are destroyed and all that the program got of them is
 * freed, in whatever order. What is imported is a view (OBJECT_VIEW) of the import, and so is each
 * thing of it; the import (OBJECT_EXTERNAL) has the charge until its last view goes.
 *
 * Memory of another API, or of a descriptor that is taken for such: the views are its handle, and
 * the buffers and mipmapped arrays that are mapped from it.
 *
 * A pool of another process: the views are the pool, and its pointers. The import keeps what the
 * pool grew by when these pointers' memory was made, however many of them are freed, and nothing
 * before the first of them. It stands in no process's figure when the exporter has let go of it.
 */
#ifndef ALLOT_GUEST_MEMORY_EXTERNAL_H
#define ALLOT_GUEST_MEMORY_EXTERNAL_H

#include "guest/account/charge.h"

/*
 * Before the driver imports: charges it, and makes the import's first view, which has no key yet.
 * CUDA_ERROR_OUT_OF_MEMORY when the quota does not allow it. Otherwise a call of the device has begun,
 * since a look that found the import ahead of the driver would miss it in the figure.
 */
CUresult external_import(struct guest *guest, struct guest_device *device,
			 const CUDA_EXTERNAL_MEMORY_HANDLE_DESC *desc, struct object *ret_view);

/*
 * After the driver imported a pool: the import, without a charge. Its key is all zero where the
 * handle told none.
 */
CUresult external_import_pool(struct guest *guest, CUmemoryPool pool, struct shared_key key);

/* Before the driver maps: one more view of the same import. False: it is none of ours. */
bool external_map(struct guest *guest, uint64_t key, struct object *ret_view);

/*
 * Before the driver imports a pointer into a pool: the import holds the pool's entry from now on.
 * False: nobody has made one, since the exporter is none of this tenant. Then external_borrow,
 * after the driver's call, charges the pointer alone. CUDA_ERROR_OUT_OF_MEMORY when the quota does
 * not allow that: it is charged nevertheless, since the import keeps the memory until its end.
 */
bool external_join(struct guest *guest, const struct object *view);
CUresult external_borrow(struct guest *guest, const struct object *view, CUdeviceptr at,
			 const CUmemPoolPtrExportData *data);

/* Puts a view into the table, after the driver gave it. False: there is no room. */
bool external_record(struct guest *guest, const struct object *view);

/*
 * With --accounting driver: the driver's figure contains external memory from its import until its
 * handle is destroyed; buffers that outlive the handle are charged in the ledger. Call the first after
 * the driver's import, the second before it destroys the handle. If the driver refuses to destroy it,
 * call the first again.
 */
void external_imported(struct guest *guest, const struct object *view);
void external_destroy(struct guest *guest, const struct object *view);

/* After the driver destroyed what was imported: what is mapped from it stands in no figure then. */
void external_destroyed(struct guest *guest, const struct object *view);

/*
 * Count and uncount a view that is freed in a stream and becomes OBJECT_PARTING; external_leave
 * uncounts it, too. external_is_parting returns true if all other views of the import are such.
 */
void external_part(struct guest *guest, const struct object *view);
void external_stay(struct guest *guest, const struct object *view);
bool external_is_parting(struct guest *guest, const struct object *view);

/*
 * After the driver let go of a view that is in no table any more. Answers the bytes that are to be
 * taken off the charge.
 */
uint64_t external_leave(struct guest *guest, const struct object *view);

#endif
