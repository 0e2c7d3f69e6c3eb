/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/swap/obstacles.h"

#include "guest/account/holder.h"
#include "guest/account/state.h"
#include "guest/core/object.h"
#include "guest/memory/state.h"
#include "guest/movable/importer.h"
#include "guest/movable/own_pool.h"

/* Which kind of obstacle an object is; SWAP_FINE: none. */
static enum swap_why obstacles_kind(const struct object *object)
{
	switch (object->kind) {
	case OBJECT_MEMORY:
		if (object->flags & OBJECT_BACKED)
			return SWAP_FINE;
		return object->flags & OBJECT_UNSEEN ? SWAP_MANAGED : SWAP_FIXED;
	case OBJECT_ARRAY:
		return SWAP_ARRAYS;
	case OBJECT_OPENCL:
	case OBJECT_VULKAN:
		return SWAP_OTHERS;
	case OBJECT_HANDLE:
		if (!(object->flags & OBJECT_BACKED))
			return object->flags & OBJECT_IMPORTED ? SWAP_IMPORTS : SWAP_HANDLES;
		return object->flags & OBJECT_GIVEN ? SWAP_EXPORTS : SWAP_FINE;
	case OBJECT_IPC:
		return object->flags & OBJECT_BACKED ? SWAP_FINE : SWAP_IMPORTS;
	case OBJECT_EXTERNAL: /* a pool without pointers has nothing of anybody */
		return object->flags & OBJECT_SHARED || object->bytes ? SWAP_IMPORTS : SWAP_FINE;
	case OBJECT_LOAN:
		return SWAP_IMPORTS;
	case OBJECT_POINTER:
		return SWAP_POOLS;
	case OBJECT_POOL:
		return object->bytes ? SWAP_POOLS : SWAP_FINE;
	default:
		return SWAP_FINE;
	}
}

static bool obstacles_is_counted(enum swap_why why)
{
	return why == SWAP_ARRAYS || why == SWAP_IMPORTS;
}

static bool obstacles_add(const struct object *object, void *arg)
{
	uint64_t *amount = arg;
	enum swap_why why = obstacles_kind(object);

	amount[why] += obstacles_is_counted(why) ? 1 : object->bytes;
	if (!obstacles_is_counted(why) && !object->bytes)
		amount[why] += object->size;
	return false; /* it stays in the table */
}

/* The driver's checkpoint takes what is this process's alone. */
static bool obstacles_driver_takes(const struct guest *guest, enum swap_why why)
{
	return why == SWAP_ARRAYS || why == SWAP_GRAPHS || why == SWAP_FIXED ||
	       (why == SWAP_POOLS && !atomic_load(&guest->memory->pool_exported));
}

/* Imports that nobody could bring back. */
static uint64_t obstacles_imports(struct guest *guest)
{
	struct object import[OBJECT_BATCH];
	uint64_t above = 0, count = 0;
	int n;

	do {
		n = object_list(guest->objects, OBJECT_IMPORT, above, import, OBJECT_BATCH);
		for (int i = 0; i < n; i++) {
			above = import[i].key;
			count += !importer_can_leave(guest, &import[i]);
		}
	} while (n == OBJECT_BATCH);
	return count;
}

enum swap_why obstacles_find(struct guest *guest, bool contexts, uint64_t *ret_amount)
{
	uint64_t amount[SWAP_WHYS] = {0};
	struct object none;

	for (int i = 0; i < guest->ndevices; i++)
		if (atomic_load(&guest->device[i].account->contexts))
			holder_give_back(guest, &guest->device[i]);
	own_pools_drained(guest);
	object_sweep(guest->objects, obstacles_add, amount, &none, 1);
	amount[SWAP_IMPORTS] += obstacles_imports(guest);
	for (int i = 0; i < guest->ndevices; i++)
		amount[SWAP_GRAPHS] += atomic_load(&guest->device[i].memory->graph_charged);
	for (int why = SWAP_FINE + 1; why < SWAP_WHYS; why++)
		if (amount[why] &&
		    !(contexts && obstacles_driver_takes(guest, (enum swap_why)why))) {
			*ret_amount = amount[why];
			return (enum swap_why)why;
		}
	*ret_amount = 0;
	return SWAP_FINE;
}
