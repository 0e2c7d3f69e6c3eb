/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/swap/amd/amd_obstacles.h"

#include "guest/amd/files.h"
#include "guest/amd/memory/lent.h"
#include "guest/amd/memory/sweep.h"
#include "guest/core/object.h"

/* Which kind of obstacle an object is; SWAP_FINE: none. */
static enum swap_why amd_obstacles_kind(const struct object *object)
{
	if (object->kind != OBJECT_KFD && object->kind != OBJECT_GEM && object->kind != OBJECT_DMABUF)
		return SWAP_FINE;
	if (object->flags & OBJECT_HOST) /* it is not a GPU's, and stays */
		return SWAP_FINE;
	if (object->kind == OBJECT_DMABUF)
		return SWAP_DMABUFS;
	if (object->flags & OBJECT_IMPORTED && !object->amd.lent)
		return SWAP_IMPORTS;
	if (!object->amd.lent && (object->flags & OBJECT_SHARED || object->amd.inode))
		return SWAP_DMABUFS;
	if (object->kind == OBJECT_GEM)
		return amd_files_is_shared(object->key) ? SWAP_NODES : SWAP_FINE;
	return object->amd.va && object->size ? SWAP_FINE : SWAP_ADDRESS;
}

static bool amd_obstacles_add(const struct object *object, void *arg)
{
	uint64_t *amount = arg;
	enum swap_why why = amd_obstacles_kind(object);

	amount[why] += why == SWAP_IMPORTS ? 1 : object->bytes;
	return false; /* it stays in the table */
}

static uint64_t amd_obstacles_svm_bytes(struct amd *amd)
{
	uint64_t bytes = 0;

	lock_take(&amd->ranges.lock);
	for (uint32_t i = 0; i < amd->ndevices; i++)
		bytes += amd_ranges_bytes(&amd->ranges, (int)i);
	lock_drop(&amd->ranges.lock);
	return bytes;
}

enum swap_why amd_obstacles_find(struct guest *guest, struct amd *amd, int kfd,
				 uint64_t *ret_amount)
{
	uint64_t amount[SWAP_WHYS] = {0};
	struct object none;

	amd_sweep(guest, amd, kfd);
	object_sweep(guest->objects, amd_obstacles_add, amount, &none, 1);
	amount[SWAP_IMPORTS] += amd_lent_lost(guest);
	amount[SWAP_SVM] = amd_obstacles_svm_bytes(amd);
	amount[SWAP_RINGS] = atomic_load(&amd->rings);
	for (int why = SWAP_FINE + 1; why < SWAP_WHYS; why++)
		if (amount[why]) {
			*ret_amount = amount[why];
			return (enum swap_why)why;
		}
	return SWAP_FINE;
}
