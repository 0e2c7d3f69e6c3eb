/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/lend/entry.h"

#include "base/hash.h"

/* Spread over all bits, of which tables take the lowest; never the empty key. */
static uint64_t entry_hash(const void *data, size_t len, uint64_t seed)
{
	uint64_t h = hash_bytes(seed, data, len);

	h = (h ^ h >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	return (h ^ h >> 31) | 1;
}

struct shared_key entry_key(const void *data, size_t len)
{
	return (struct shared_key){{entry_hash(data, len, HASH_SEED),
				    entry_hash(data, len, UINT64_C(0x9e3779b97f4a7c15))}};
}

/* How many objects of this process hold one entry. */
static bool entry_refs_add(struct object *share, void *arg)
{
	share->refs += *(const uint32_t *)arg;
	return share->refs != 0;
}

void entry_hold(struct guest *guest, struct shared_key key, struct object *object)
{
	uint32_t one = 1;

	object_change(guest->objects, OBJECT_SHARE, key.word[0], true, entry_refs_add, &one);
	object->shared = key;
	object->flags |= OBJECT_SHARED;
}

void entry_rename(struct guest *guest, struct shared_key key, struct object *object)
{
	uint32_t less = (uint32_t)-1;

	object_change(guest->objects, OBJECT_SHARE, object->shared.word[0], false, entry_refs_add,
		      &less);
	entry_hold(guest, key, object);
}

struct leaving {
	struct guest *guest;
	struct shared_key key;
	bool last;
};

/* Under the table's lock, so that no object comes between the last one and the process's leaving. */
static bool entry_leave_one(struct object *share, void *arg)
{
	struct leaving *leaving = arg;

	leaving->last = !--share->refs;
	if (leaving->last)
		shared_drop(leaving->guest->claimed, leaving->key);
	return !leaving->last;
}

/* Returns true if that was the last object of the process. */
static bool entry_leave_by(struct guest *guest, const struct object *object)
{
	struct leaving leaving = {guest, object->shared, .last = false};

	object_change(guest->objects, OBJECT_SHARE, object->shared.word[0], false, entry_leave_one,
		      &leaving);
	return leaving.last;
}

void entry_unhold(struct guest *guest, struct object *object)
{
	entry_leave_by(guest, object);
	object->flags &= (uint16_t)~OBJECT_SHARED;
}

void entry_leave(struct guest *guest, const struct object *object)
{
	/* Where we import it, too, our row lets go. */
	if (object->flags & OBJECT_SHARED && !entry_leave_by(guest, object) &&
	    !(object->flags & OBJECT_IMPORTED))
		shared_uncover(guest->claimed, object->shared);
}
