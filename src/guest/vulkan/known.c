/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/vulkan/known.h"

#include <stddef.h>
#include <string.h>

#include "base/hash.h"
#include "base/pages.h"

#define BUCKETS 64

static _Atomic(struct known *) buckets[BUCKETS];

/* The handle of a record that somebody fills. */
static char known_busy;

static _Atomic(struct known *) *known_bucket(const void *handle)
{
	return &buckets[hash_mix((uintptr_t)handle) % BUCKETS];
}

static struct known *known_first(const void *handle)
{
	return atomic_load_explicit(known_bucket(handle), memory_order_acquire);
}

struct known *known_find(const void *handle)
{
	struct known *known = handle ? known_first(handle) : NULL;

	while (known && atomic_load_explicit(&known->handle, memory_order_acquire) != handle)
		known = known->next;
	return known;
}

static struct known *known_take_unused(const void *handle)
{
	for (struct known *known = known_first(handle); known; known = known->next) {
		void *nothing = NULL;

		if (atomic_compare_exchange_strong(&known->handle, &nothing, &known_busy))
			return known;
	}
	return NULL;
}

static struct known *known_make(const void *handle)
{
	_Atomic(struct known *) *bucket = known_bucket(handle);
	struct known *known = pages_map(sizeof(*known));

	if (!known)
		return NULL;
	atomic_init(&known->handle, &known_busy);
	known->next = atomic_load(bucket);
	while (!atomic_compare_exchange_weak(bucket, &known->next, known))
		;
	return known;
}

struct known *known_begin(const void *handle)
{
	struct known *known = known_take_unused(handle);
	size_t from = offsetof(struct known, kind); /* others are on their way through `next` */

	if (!known)
		return known_make(handle);
	memset((char *)known + from, 0, sizeof(*known) - from);
	return known;
}

void known_publish(struct known *known, void *handle)
{
	atomic_store_explicit(&known->handle, handle, memory_order_release);
}

void known_forget(struct known *known)
{
	atomic_store_explicit(&known->handle, NULL, memory_order_release);
}

static bool known_is_published(struct known *known)
{
	void *handle = atomic_load_explicit(&known->handle, memory_order_acquire);

	return handle && handle != &known_busy;
}

void known_forget_instance(struct known *instance)
{
	for (int i = 0; i < BUCKETS; i++)
		for (struct known *known = atomic_load(&buckets[i]); known; known = known->next)
			if (known != instance && known_is_published(known) && known->instance == instance)
				known_forget(known);
	known_forget(instance);
}
