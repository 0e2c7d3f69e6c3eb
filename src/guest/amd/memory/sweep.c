/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/amd/memory/sweep.h"

#include "guest/amd/files.h"
#include "guest/amd/memory/charge.h"
#include "guest/amd/memory/svm.h"

#define BATCH 16

static bool amd_sweep_is_of_marks(const struct object *object, void *arg)
{
	return object->kind == OBJECT_GEM && amd_files_has_mark(object->key, arg);
}

static bool amd_sweep_is_of_file(uint64_t key, const void *marks)
{
	return amd_files_has_mark(key, marks);
}

/*
 * Looks at /proc without the lock, then counts off under the lock. A mark that another thread swept
 * in between may be another file's by now, with memory that is charged under it. So only marks
 * count that are the same as before the look (amd_files_keep_same).
 */
static void amd_sweep_files(struct guest *guest, struct amd *amd)
{
	struct object gone[BATCH];
	struct amd_marks closed;
	int n;

	amd_files_marks(amd, &closed);
	closed.set = amd_files_closed(&closed);
	do {
		lock_take(&amd->file_lock);
		amd_files_keep_same(amd, &closed);
		n = closed.set ? object_sweep(guest->objects, amd_sweep_is_of_marks, &closed, gone,
					      BATCH)
			       : 0;
		for (int i = 0; i < n; i++)
			amd_charge_drop(guest, amd, &gone[i]);
		addresses_forget_files(&amd->addresses, amd_sweep_is_of_file, &closed);
		if (n < BATCH)
			amd_files_forget(amd, closed.set);
		lock_drop(&amd->file_lock);
	} while (n == BATCH);
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
	amd_sweep_files(guest, amd);
	amd_sweep_dmabufs(guest, amd);
	amd_svm_sweep(amd, fd);
}
