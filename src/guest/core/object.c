/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/core/object.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "base/hash.h"
#include "base/lock.h"
#include "base/pages.h"
#include "base/word.h"

#define SHARDS 64
#define FILTER 64

/* Linear probing, at most three quarters full; removal shifts back, so there are no tombstones. */
struct shard {
	struct lock_objects lock;
	uint32_t count;
	uint32_t capacity; /* power of two, or 0 */
	struct object *slots;
	uint32_t own[OBJECT_KINDS]; /* of kinds that are frequent */
	uint32_t filter[FILTER];    /* objects by their hash: see object_may_be_in */
} __attribute__((aligned(64)));

struct object_table {
	struct shard shard[SHARDS + 1]; /* the last one: see object_is_listed */
	uint32_t kinds[OBJECT_KINDS]; /* of the others */
};

/*
 * Kinds that are listed often and are few. They have a shard of their own, so that listing them
 * does not look through the program's other allocations, of which there may be a hundred thousand.
 */
static bool object_is_listed(enum object_kind kind)
{
	return kind == OBJECT_POOL || kind == OBJECT_PARTING || kind == OBJECT_IPC ||
	       kind == OBJECT_POINTER || kind == OBJECT_EXTERNAL || kind == OBJECT_LOAN ||
	       kind == OBJECT_DMABUF || kind == OBJECT_IMPORT;
}

/* Kinds that are made and freed most: each shard counts its own objects of them. */
static bool object_is_frequent(enum object_kind kind)
{
	return kind == OBJECT_MEMORY || kind == OBJECT_GRANULE || kind == OBJECT_KFD;
}

uint64_t object_generation(void)
{
	static _Atomic uint64_t last;

	return atomic_fetch_add_explicit(&last, 1, memory_order_relaxed) + 1;
}

int object_table_new(struct object_table **ret)
{
	struct object_table *table = pages_map(sizeof(*table));

	if (!table)
		return -ENOMEM;
	*ret = table;
	return 0;
}

/* Addresses differ in their middle bits. */
static uint64_t object_hash(enum object_kind kind, uint64_t key)
{
	return hash_mix(key + (uint64_t)kind * UINT64_C(0x9e3779b97f4a7c15));
}

static struct shard *object_shard(struct object_table *table, enum object_kind kind, uint64_t hash)
{
	return &table->shard[object_is_listed(kind) ? SHARDS : hash % SHARDS];
}

static uint32_t object_home(const struct shard *shard, uint64_t hash)
{
	return (uint32_t)(hash / SHARDS) & (shard->capacity - 1);
}

/* The object, or the free place where it would go; NULL when there is no array yet. */
static struct object *object_find(struct shard *shard, enum object_kind kind, uint64_t key,
				  uint64_t hash)
{
	if (!shard->capacity)
		return NULL;
	for (uint32_t i = object_home(shard, hash);; i = (i + 1) & (shard->capacity - 1)) {
		struct object *o = &shard->slots[i];

		if (o->kind == OBJECT_NONE || (o->kind == kind && o->key == key))
			return o;
	}
}

static uint32_t *object_filter(struct shard *shard, uint64_t hash)
{
	return &shard->filter[hash >> 32 & (FILTER - 1)];
}

/*
 * An address that is freed in a stream's order mostly is a pool's and not in here: the filter
 * answers that without the lock. A thread that frees an address got it after it was put, by the
 * program's own order.
 */
static bool object_may_be_in(struct shard *shard, uint64_t hash)
{
	return word_read(object_filter(shard, hash)) != 0;
}

/* Under the shard's lock, which makes plain additions of its own counters. */
static void object_add_count(struct object_table *table, struct shard *shard, enum object_kind kind,
			     uint64_t hash, uint32_t n)
{
	shard->count += n;
	word_write(object_filter(shard, hash), *object_filter(shard, hash) + n);
	if (object_is_frequent(kind))
		word_write(&shard->own[kind], shard->own[kind] + n);
	else
		word_add(&table->kinds[kind], n);
}

static void object_erase(struct object_table *table, struct shard *shard, struct object *o)
{
	uint32_t mask = shard->capacity - 1;
	uint32_t hole = (uint32_t)(o - shard->slots);

	object_add_count(table, shard, o->kind, object_hash(o->kind, o->key), (uint32_t)-1);
	for (uint32_t i = (hole + 1) & mask;; i = (i + 1) & mask) {
		struct object *next = &shard->slots[i];
		uint32_t want;

		if (next->kind == OBJECT_NONE)
			break;
		want = object_home(shard, object_hash(next->kind, next->key));
		/* It may move back only if its home is not between the hole and itself. */
		if (((i - want) & mask) >= ((i - hole) & mask)) {
			shard->slots[hole] = *next;
			hole = i;
		}
	}
	shard->slots[hole].kind = OBJECT_NONE;
}

/*
 * Takes the shard's lock with room for one more object in it. The bigger array is mapped while the
 * lock is free. If another thread was faster, this one gives its own array back.
 */
static int object_lock_with_room(struct shard *shard)
{
	lock_take(&shard->lock);
	while (shard->count + 1 > shard->capacity / 4 * 3) {
		uint32_t capacity = shard->capacity ? shard->capacity * 2 : 64;
		struct object *bigger, *old;
		uint32_t old_capacity;

		lock_drop(&shard->lock);
		bigger = pages_map(capacity * sizeof(*bigger));
		if (!bigger)
			return -ENOMEM;
		lock_take(&shard->lock);
		old = bigger;
		old_capacity = capacity;
		if (shard->capacity < capacity) {
			old = shard->slots;
			old_capacity = shard->capacity;
			shard->slots = bigger;
			shard->capacity = capacity;
			for (uint32_t i = 0; i < old_capacity; i++)
				if (old[i].kind != OBJECT_NONE)
					*object_find(shard, old[i].kind, old[i].key,
						     object_hash(old[i].kind, old[i].key)) = old[i];
		}
		lock_drop(&shard->lock);
		if (old)
			munmap(old, old_capacity * sizeof(*old));
		lock_take(&shard->lock);
	}
	return 0;
}

static int object_store(struct object_table *table, const struct object *object, bool replace,
			struct object *ret_before)
{
	uint64_t hash = object_hash(object->kind, object->key);
	struct shard *shard = object_shard(table, object->kind, hash);
	struct object *o;
	int r = object_lock_with_room(shard);

	if (r)
		return r;
	o = object_find(shard, object->kind, object->key, hash);
	*ret_before = *o;
	if (o->kind == OBJECT_NONE)
		object_add_count(table, shard, object->kind, hash, 1);
	if (o->kind == OBJECT_NONE || replace)
		*o = *object;
	lock_drop(&shard->lock);
	return 0;
}

int object_put(struct object_table *table, const struct object *object)
{
	struct object before;

	return object_store(table, object, true, &before);
}

int object_exchange(struct object_table *table, const struct object *object,
		    struct object *ret_before)
{
	return object_store(table, object, true, ret_before);
}

int object_add(struct object_table *table, const struct object *object)
{
	struct object before;
	int r = object_store(table, object, false, &before);

	return r ? r : before.kind == OBJECT_NONE ? 0 : -EEXIST;
}

static bool object_look_up(struct object_table *table, enum object_kind kind, uint64_t key,
			   bool take, struct object *ret)
{
	uint64_t hash = object_hash(kind, key);
	struct shard *shard = object_shard(table, kind, hash);
	struct object *o;
	bool found;

	if (!object_may_be_in(shard, hash))
		return false;
	lock_take(&shard->lock);
	o = object_find(shard, kind, key, hash);
	found = o && o->kind != OBJECT_NONE;
	if (found) {
		*ret = *o;
		if (take)
			object_erase(table, shard, o);
	}
	lock_drop(&shard->lock);
	return found;
}

bool object_get(struct object_table *table, enum object_kind kind, uint64_t key,
		struct object *ret)
{
	return object_look_up(table, kind, key, false, ret);
}

bool object_take(struct object_table *table, enum object_kind kind, uint64_t key,
		 struct object *ret)
{
	return object_look_up(table, kind, key, true, ret);
}

bool object_change(struct object_table *table, enum object_kind kind, uint64_t key, bool create,
		   bool (*change)(struct object *object, void *arg), void *arg)
{
	uint64_t hash = object_hash(kind, key);
	struct shard *shard = object_shard(table, kind, hash);
	struct object *o;
	bool found;

	if (!create)
		lock_take(&shard->lock);
	else if (object_lock_with_room(shard))
		return false;
	o = object_find(shard, kind, key, hash);
	if (!o) {
		lock_drop(&shard->lock);
		return false;
	}
	found = o->kind != OBJECT_NONE;
	if (!found && create) {
		memset(o, 0, sizeof(*o));
		o->kind = (uint8_t)kind;
		o->key = key;
		object_add_count(table, shard, kind, hash, 1);
	}
	if ((found || create) && !change(o, arg))
		object_erase(table, shard, o);
	lock_drop(&shard->lock);
	return found;
}

int object_sweep(struct object_table *table, bool (*match)(const struct object *object, void *arg),
		 void *arg, struct object *out, int max)
{
	int n = 0;

	for (int s = 0; s <= SHARDS && n < max; s++) {
		struct shard *shard = &table->shard[s];

		lock_take(&shard->lock);
		for (uint32_t i = 0; i < shard->capacity && n < max;) {
			struct object *o = &shard->slots[i];

			if (o->kind == OBJECT_NONE || !match(o, arg)) {
				i++;
				continue;
			}
			out[n++] = *o;
			object_erase(table, shard, o); /* another may have moved here: look again */
		}
		lock_drop(&shard->lock);
	}
	return n;
}

/* Into a list in the order of keys; the highest may fall out. Answers how many there are then. */
static int object_insert(struct object *out, int n, int max, const struct object *o)
{
	int at = n;

	while (at > 0 && o->key < out[at - 1].key)
		at--;
	if (at == max)
		return n;
	if (n < max)
		n++;
	memmove(&out[at + 1], &out[at], (size_t)(n - 1 - at) * sizeof(*out));
	out[at] = *o;
	return n;
}

int object_list(struct object_table *table, enum object_kind kind, uint64_t above,
		struct object *out, int max)
{
	int n = 0;

	if (!object_count(table, kind))
		return 0;
	for (int s = object_is_listed(kind) ? SHARDS : 0; s <= SHARDS; s++) {
		struct shard *shard = &table->shard[s];

		lock_take(&shard->lock);
		for (uint32_t i = 0; i < shard->capacity; i++)
			if (shard->slots[i].kind == kind && shard->slots[i].key > above)
				n = object_insert(out, n, max, &shard->slots[i]);
		lock_drop(&shard->lock);
	}
	return n;
}

bool object_next(struct object_table *table, enum object_kind kind, uint64_t above,
		 struct object *ret)
{
	return object_list(table, kind, above, ret, 1) == 1;
}

struct object *object_walk_next(struct object_walk *walk)
{
	if (walk->at == walk->n && !walk->last) {
		walk->at = 0;
		walk->n = walk->match ? object_sweep(walk->table, walk->match, walk->arg,
						     walk->batch, OBJECT_BATCH)
				      : object_list(walk->table, walk->kind, walk->above,
						    walk->batch, OBJECT_BATCH);
		walk->last = walk->n < OBJECT_BATCH;
	}
	if (walk->at == walk->n)
		return NULL;
	walk->above = walk->batch[walk->at].key;
	return &walk->batch[walk->at++];
}

unsigned int object_count(struct object_table *table, enum object_kind kind)
{
	unsigned int n = word_read(&table->kinds[kind]);

	for (int s = 0; object_is_frequent(kind) && s < SHARDS; s++)
		n += word_read(&table->shard[s].own[kind]);
	return n;
}
