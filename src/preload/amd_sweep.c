/* SPDX-License-Identifier: Apache-2.0 */
#include "preload/amd_sweep.h"

#include "preload/amd_charge.h"
#include "preload/amd_files.h"
#include "preload/amd_memory.h"

#define BATCH 16

static bool is_of_marks(const struct object *object, void *arg)
{
	return object->kind == OBJECT_GEM && amd_files_has_mark(object->key, *(uint64_t *)arg);
}

/*
 * One at a time, and only marks that were there before the look: a mark may be used again as soon
 * as it is forgotten, and what is charged under it then is another file's.
 */
static void sweep_files(struct guest *guest, struct amd *amd)
{
	struct object gone[BATCH];
	uint64_t closed;
	int n;

	lock_take(&amd->file_lock);
	closed = amd_files_closed(amd_files_marks(amd));
	do {
		n = closed ? object_sweep(guest->objects, is_of_marks, &closed, gone, BATCH) : 0;
		for (int i = 0; i < n; i++)
			amd_charge_drop(guest, amd, &gone[i]);
	} while (n == BATCH);
	amd_files_forget(amd, closed);
	lock_drop(&amd->file_lock);
}

void amd_sweep_dmabufs(struct guest *guest, struct amd *amd)
{
	struct object held = {.key = 0}, gone;

	while (object_next(guest->objects, OBJECT_DMABUF, held.key, &held))
		if (!amd_files_has_inode(held.key) &&
		    object_take(guest->objects, OBJECT_DMABUF, held.key, &gone))
			amd_charge_drop(guest, amd, &gone);
}

void amd_sweep(struct guest *guest, struct amd *amd, int fd)
{
	sweep_files(guest, amd);
	amd_sweep_dmabufs(guest, amd);
	amd_memory_sweep_svm(amd, fd);
}
