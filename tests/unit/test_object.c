/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The object table: random operations against a plain model, keys that collide, sweeping, growth,
 * and threads that each own their keys while others make the arrays move.
 */
#include "guest/core/object.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>

#include "tests/check.h"

#define KEYS 600
#define KINDS 3

static const enum object_kind kinds[KINDS] = {OBJECT_MEMORY, OBJECT_HANDLE, OBJECT_MAPPING};

static uint64_t seed = 88172645463325252u;

static uint64_t next(uint64_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return *state;
}

/* What should be there: bytes by kind and key, 0 for nothing. */
static uint64_t model[KINDS][KEYS];

/* Some near each other, some a granule apart, as addresses and handles are. */
static uint64_t key_of(unsigned int i)
{
	return i % 2 ? 0x7f0000000000u + (uint64_t)i * (2u << 20) : 0x555500000000u + i * 16u;
}

static struct object object_of(int k, unsigned int i, uint64_t bytes)
{
	return (struct object){.kind = (uint8_t)kinds[k], .key = key_of(i), .bytes = bytes,
			       .size = bytes ^ i, .context = (uint64_t)(i % 7)};
}

static bool add_bytes(struct object *object, void *arg)
{
	const uint64_t *add = arg;

	object->bytes += *add;
	object->size = object->bytes ^ (uint64_t)0;
	return object->bytes % 5 != 0;
}

static void check_one(struct object_table *t, int k, unsigned int i)
{
	struct object o;

	CHECK_EQ(object_get(t, kinds[k], key_of(i), &o), model[k][i] != 0);
	if (model[k][i]) {
		CHECK_EQ(o.bytes, model[k][i]);
		CHECK_EQ(o.key, key_of(i));
		CHECK_EQ(o.kind, kinds[k]);
	}
}

static void check_all(struct object_table *t)
{
	for (int k = 0; k < KINDS; k++) {
		unsigned int n = 0;

		for (unsigned int i = 0; i < KEYS; i++) {
			check_one(t, k, i);
			n += model[k][i] != 0;
		}
		CHECK_EQ(object_count(t, kinds[k]), n);
	}
}

struct mod {
	uint64_t context;
	enum object_kind kind;
};

static bool matches(const struct object *object, void *arg)
{
	const struct mod *mod = arg;

	return object->context == mod->context && object->kind == mod->kind;
}

static void sweep(struct object_table *t, int k, uint64_t context, int batch)
{
	struct mod mod = {context, kinds[k]};
	struct object out[16];
	int n;

	do {
		n = object_sweep(t, matches, &mod, out, batch);
		CHECK(n <= batch);
		for (int j = 0; j < n; j++)
			for (unsigned int i = 0; i < KEYS; i++)
				if (key_of(i) == out[j].key) {
					CHECK_EQ(model[k][i], out[j].bytes);
					model[k][i] = 0;
				}
	} while (n == batch);
}

static void random_operations(void)
{
	struct object o, before;
	struct object_table *t;

	CHECK_EQ(object_table_new(&t), 0);
	for (int round = 0; round < 200000; round++) {
		int k = (int)(next(&seed) % KINDS);
		/* Phases: mostly few, so that arrays are sparse; then all: they are full. */
		unsigned int i = (unsigned int)(next(&seed) % (round / 20000 % 2 ? KEYS : 40));
		uint64_t bytes = 1 + next(&seed) % 1000;
		bool found;

		switch (next(&seed) % 8) {
		case 0:
			o = object_of(k, i, bytes);
			CHECK_EQ(object_put(t, &o), 0);
			model[k][i] = bytes;
			break;
		case 1:
			o = object_of(k, i, bytes);
			CHECK_EQ(object_exchange(t, &o, &before), 0);
			CHECK_EQ(before.kind, model[k][i] ? kinds[k] : OBJECT_NONE);
			CHECK(before.kind == OBJECT_NONE || before.bytes == model[k][i]);
			model[k][i] = bytes;
			break;
		case 2:
			o = object_of(k, i, bytes);
			CHECK_EQ(object_add(t, &o), model[k][i] ? -EEXIST : 0);
			model[k][i] = model[k][i] ? model[k][i] : bytes;
			break;
		case 3:
		case 4:
			CHECK_EQ(object_take(t, kinds[k], key_of(i), &o), model[k][i] != 0);
			if (model[k][i])
				CHECK_EQ(o.bytes, model[k][i]);
			model[k][i] = 0;
			break;
		case 5:
		case 6:
			found = object_change(t, kinds[k], key_of(i), bytes % 2, add_bytes, &bytes);
			CHECK_EQ(found, model[k][i] != 0);
			if (found || bytes % 2)
				model[k][i] = (model[k][i] + bytes) % 5 ? model[k][i] + bytes : 0;
			break;
		default:
			check_one(t, k, i);
			if (round % 64 == 0)
				sweep(t, k, next(&seed) % 7, 1 + (int)(next(&seed) % 16));
		}
		if (round % 5000 == 0)
			check_all(t);
	}
	check_all(t);
}

/* All objects of a kind are seen, each once, however many fit into one list. */
static void lists(void)
{
	enum { N = 777 };
	struct object out[OBJECT_BATCH], o;
	struct object_table *t;

	CHECK_EQ(object_table_new(&t), 0);
	for (uint64_t i = 0; i < N; i++) {
		o = (struct object){.kind = OBJECT_PARTING, .key = 1 + i * 389 % N};
		CHECK_EQ(object_put(t, &o), 0);
	}
	for (int max = 1; max <= OBJECT_BATCH; max++) {
		uint64_t above = 0;
		int n;

		do {
			n = object_list(t, OBJECT_PARTING, above, out, max);
			CHECK(n <= max);
			for (int i = 0; i < n; i++) {
				CHECK_EQ(out[i].key, above + 1);
				above = out[i].key;
			}
		} while (n == max);
		CHECK_EQ(above, N);
	}
}

static bool is_odd(const struct object *object, void *arg)
{
	++*(int *)arg;
	return object->kind == OBJECT_PARTING && object->key % 2;
}

/* A walk meets each object once, for whole batches and for a rest, and for none. */
static void walks(void)
{
	for (uint64_t n = 0; n <= 3 * OBJECT_BATCH; n++) {
		struct object_table *t;
		struct object o, *at;
		uint64_t sum = 0;
		int asked = 0;

		CHECK_EQ(object_table_new(&t), 0);
		for (uint64_t i = 1; i <= n; i++) {
			o = (struct object){.kind = OBJECT_PARTING, .key = i};
			CHECK_EQ(object_put(t, &o), 0);
			o.kind = OBJECT_MEMORY;
			CHECK_EQ(object_put(t, &o), 0);
		}
		OBJECT_EACH (at, t, OBJECT_PARTING)
			CHECK_EQ(at->key, ++sum);
		CHECK_EQ(sum, n);
		sum = 0;
		OBJECT_SWEEP (at, t, is_odd, &asked) {
			sum += at->key;
			CHECK(!object_get(t, OBJECT_PARTING, at->key, &o));
		}
		CHECK_EQ(sum, (n + 1) / 2 * ((n + 1) / 2));
		CHECK_EQ(object_count(t, OBJECT_PARTING), n / 2);
		CHECK_EQ(object_count(t, OBJECT_MEMORY), n);
	}
}

/* Removing from a full table one by one: what follows in an array moves up and is still found. */
static void shrinks(void)
{
	enum { N = 20000 };
	struct object_table *t;
	struct object o, out[100];

	CHECK_EQ(object_table_new(&t), 0);
	for (uint64_t i = 0; i < N; i++) {
		o = (struct object){.kind = OBJECT_MEMORY, .key = i << 21, .bytes = i + 1};
		CHECK_EQ(object_put(t, &o), 0);
	}
	CHECK_EQ(object_count(t, OBJECT_MEMORY), N);
	CHECK_EQ(object_list(t, OBJECT_MEMORY, 0, out, 100), 100);
	CHECK_EQ(object_list(t, OBJECT_POOL, 0, out, 100), 0);
	for (uint64_t i = 0; i < N; i += 3)
		CHECK(object_take(t, OBJECT_MEMORY, i << 21, &o) && o.bytes == i + 1);
	for (uint64_t i = 0; i < N; i++) {
		CHECK_EQ(object_get(t, OBJECT_MEMORY, i << 21, &o), i % 3 != 0);
		CHECK(i % 3 == 0 || o.bytes == i + 1);
	}
	/* Key 0 and the largest are keys like any other; kinds do not meet. */
	o = (struct object){.kind = OBJECT_POOL, .key = 0, .bytes = 7};
	CHECK_EQ(object_put(t, &o), 0);
	CHECK(!object_get(t, OBJECT_MEMORY, 0, &o));
	CHECK(object_get(t, OBJECT_POOL, 0, &o) && o.bytes == 7);
	o = (struct object){.kind = OBJECT_POOL, .key = UINT64_MAX, .bytes = 8};
	CHECK_EQ(object_put(t, &o), 0);
	CHECK(object_take(t, OBJECT_POOL, UINT64_MAX, &o) && o.bytes == 8);
	CHECK_EQ(object_list(t, OBJECT_POOL, 0, out, 100), 0); /* above 0 is not 0 */
	o = (struct object){.kind = OBJECT_POOL, .key = 1};
	CHECK_EQ(object_put(t, &o), 0);
	CHECK_EQ(object_list(t, OBJECT_POOL, 0, out, 100), 1);
	/* In the order of keys, whatever lies between them. */
	o = (struct object){.key = (uint64_t)(N - 10) << 21};
	for (uint64_t i = N - 9; i < N; i++) {
		if (i % 3 == 0)
			continue;
		CHECK(object_next(t, OBJECT_MEMORY, o.key, &o));
		CHECK_EQ(o.key, i << 21);
	}
	CHECK(!object_next(t, OBJECT_MEMORY, o.key, &o));
	CHECK(!object_next(t, OBJECT_DMABUF, 0, &o));
}

/* Threads */
#define THREADS 4
#define ROUNDS 30000

static struct object_table *shared_table;
static unsigned int taken[ROUNDS];

static bool count_up(struct object *object, void *arg)
{
	object->refs++;
	return true;
}

static void *churn(void *arg)
{
	uint64_t me = (uint64_t)(uintptr_t)arg, state = me * 7919 + 1;
	struct object o;

	for (uint64_t i = 0; i < ROUNDS; i++) {
		uint64_t key = (i << 8 | me) * 512;

		o = (struct object){.kind = OBJECT_MEMORY, .key = key, .bytes = i + me};
		CHECK_EQ(object_put(shared_table, &o), 0);
		object_change(shared_table, OBJECT_GRANULE, i % 16, true, count_up, NULL);
		/* Everybody frees these: each goes to one. */
		if (object_take(shared_table, OBJECT_HANDLE, i, &o))
			__atomic_fetch_add(&taken[i], 1, __ATOMIC_RELAXED);
		CHECK(object_get(shared_table, OBJECT_MEMORY, key, &o) && o.bytes == i + me);
		if (next(&state) % 4)
			CHECK(object_take(shared_table, OBJECT_MEMORY, key, &o));
	}
	return NULL;
}

static void threads(void)
{
	pthread_t thread[THREADS];
	struct object o;
	uint32_t refs = 0;

	CHECK_EQ(object_table_new(&shared_table), 0);
	for (uint64_t i = 0; i < ROUNDS; i++) {
		o = (struct object){.kind = OBJECT_HANDLE, .key = i};
		CHECK_EQ(object_put(shared_table, &o), 0);
	}
	for (uintptr_t i = 0; i < THREADS; i++)
		CHECK_EQ(pthread_create(&thread[i], NULL, churn, (void *)(i + 1)), 0);
	for (int i = 0; i < THREADS; i++)
		CHECK_EQ(pthread_join(thread[i], NULL), 0);
	for (int i = 0; i < ROUNDS; i++)
		CHECK_EQ(taken[i], 1);
	CHECK_EQ(object_count(shared_table, OBJECT_HANDLE), 0);
	for (uint64_t i = 0; i < 16; i++) {
		CHECK(object_get(shared_table, OBJECT_GRANULE, i, &o));
		refs += o.refs;
	}
	CHECK_EQ(refs, THREADS * ROUNDS);
}

int main(void)
{
	random_operations();
	lists();
	walks();
	shrinks();
	threads();
	return 0;
}
