/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/amd/addresses.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "base/pages.h"

#define ROOM_FIRST 100 /* a page */

/*
 * Found by its magic in a page of its own: a reader from outside has no symbol table, and looks at
 * the beginnings of pages alone.
 */
__attribute__((used)) static _Alignas(4096) struct {
	struct amd_addresses_at at;
	char rest[4096 - sizeof(struct amd_addresses_at)];
} addresses_place = {
	.at = {.magic = {AMD_ADDRESSES_MAGIC_FIRST, AMD_ADDRESSES_MAGIC_SECOND}},
};

void addresses_publish(const struct addresses *a)
{
	__atomic_store_n(&addresses_place.at.addresses_at, (uintptr_t)&a->is, __ATOMIC_RELEASE);
}

static struct amd_address *addresses_list(const struct addresses *a)
{
	return (struct amd_address *)(uintptr_t)a->is.list_at;
}

static size_t addresses_bytes(uint32_t n)
{
	return n * sizeof(struct amd_address);
}

/* --- Under the lock ---------------------------------------------------------------------------- */

/* A reader that stops the process between the two sees that the list is not to be read. */
static void addresses_begin(struct addresses *a)
{
	__atomic_store_n(&a->is.changing, a->is.changing + 1, __ATOMIC_SEQ_CST);
}

static void addresses_end(struct addresses *a)
{
	__atomic_store_n(&a->is.changing, a->is.changing + 1, __ATOMIC_SEQ_CST);
}

static bool addresses_is_before(const struct amd_address *one, const struct amd_address *other)
{
	if (one->file != other->file)
		return one->file < other->file;
	return one->handle != other->handle ? one->handle < other->handle : one->at < other->at;
}

/* The place of the first that is not before `what`. */
static uint32_t addresses_find(const struct addresses *a, const struct amd_address *what)
{
	uint32_t low = 0, high = a->is.n;

	while (low < high) {
		uint32_t middle = low + (high - low) / 2;

		if (addresses_is_before(&addresses_list(a)[middle], what))
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/* There is room. */
static void addresses_insert(struct addresses *a, const struct amd_address *what)
{
	uint32_t i = addresses_find(a, what);
	struct amd_address *list = addresses_list(a);

	memmove(&list[i + 1], &list[i], addresses_bytes(a->is.n - i));
	list[i] = *what;
	a->is.n++;
}

static void addresses_remove(struct addresses *a, uint32_t i, uint32_t n)
{
	struct amd_address *list = addresses_list(a);

	if (n)
		memmove(&list[i], &list[i + n], addresses_bytes(a->is.n - i - n));
	a->is.n -= n;
}

/* Of that file nothing is there any more, whatever buffer it was of. One may become two. */
static void addresses_clear(struct addresses *a, uint64_t file, uint64_t first, uint64_t end)
{
	const struct amd_address from = {.file = file};

	for (uint32_t i = addresses_find(a, &from); i < a->is.n; i++) {
		struct amd_address *one = &addresses_list(a)[i], behind = *one;

		if (one->file != file)
			break;
		if (one->at + one->bytes <= first || one->at >= end)
			continue;
		if (one->at + one->bytes > end) {
			behind.offset += end - one->at;
			behind.bytes -= end - one->at;
			behind.at = end;
		}
		if (one->at < first) {
			one->bytes = first - one->at;
			if (behind.at == end)
				addresses_insert(a, &behind);
		} else if (behind.at == end) {
			*one = behind;
		} else {
			addresses_remove(a, i--, 1);
		}
	}
}

static void addresses_do(struct addresses *a, const struct amd_address *what, uint32_t operation)
{
	uint32_t i;

	switch (operation) {
	case AMDGPU_VA_OP_UNMAP:
		i = addresses_find(a, what);
		if (i < a->is.n && !addresses_is_before(what, &addresses_list(a)[i]))
			addresses_remove(a, i, 1);
		break;
	case AMDGPU_VA_OP_CLEAR:
	case AMDGPU_VA_OP_REPLACE:
		addresses_clear(a, what->file, what->at, what->at + what->bytes);
		break;
	}
	/* A mapping without a buffer is not kept: the reader finds that the kernel has more. */
	if ((operation == AMDGPU_VA_OP_MAP || operation == AMDGPU_VA_OP_REPLACE) &&
	    !(what->flags & AMDGPU_VM_PAGE_PRT))
		addresses_insert(a, what);
}

/* --- Room -------------------------------------------------------------------------------------- */

/* The lock is free while memory is mapped, so the caller looks again behind it. */
static bool addresses_grow(struct addresses *a)
{
	uint32_t had = a->room, room = had ? 2 * had : ROOM_FIRST;
	struct amd_address *bigger, *old;

	if (room > AMD_ADDRESSES_MOST)
		return false;
	lock_drop(&a->lock);
	bigger = pages_map(addresses_bytes(room));
	lock_take(&a->lock);
	if (!bigger)
		return false;
	old = bigger;
	if (a->room == had) {
		old = addresses_list(a);
		if (old)
			memcpy(bigger, old, addresses_bytes(a->is.n));
		__atomic_store_n(&a->is.list_at, (uintptr_t)bigger, __ATOMIC_RELEASE);
		a->room = room;
	} else {
		had = room; /* another thread was first */
	}
	lock_drop(&a->lock);
	if (old)
		munmap(old, addresses_bytes(had));
	lock_take(&a->lock);
	return true;
}

/* Takes the lock, with room for what one call can add. */
static bool addresses_lock(struct addresses *a)
{
	bool room = true;

	lock_take(&a->lock);
	while (room && a->room < a->is.n + 2)
		room = addresses_grow(a);
	return room;
}

/* --- What is noted ----------------------------------------------------------------------------- */

void addresses_note(struct addresses *a, uint64_t key, const struct drm_amdgpu_gem_va *done)
{
	const struct amd_address what = {.file = key >> 32,
					 .handle = (uint32_t)key,
					 .flags = done->flags & ~(uint32_t)AMDGPU_VM_DELAY_UPDATE,
					 .at = done->va_address & AMD_ADDRESSES_MASK &
					       ~(AMD_ADDRESSES_PAGE - 1),
					 .bytes = done->map_size,
					 .offset = done->offset_in_bo};
	int saved = errno;

	if (addresses_lock(a)) {
		addresses_begin(a);
		addresses_do(a, &what, done->operation);
		addresses_end(a);
	} else {
		a->is.lost = 1;
	}
	lock_drop(&a->lock);
	errno = saved;
}

void addresses_forget(struct addresses *a, uint64_t key)
{
	struct amd_address what = {.file = key >> 32, .handle = (uint32_t)key};
	uint32_t i, n = 0;

	lock_take(&a->lock);
	i = addresses_find(a, &what);
	while (i + n < a->is.n && addresses_list(a)[i + n].file == what.file &&
	       addresses_list(a)[i + n].handle == what.handle)
		n++;
	addresses_begin(a);
	addresses_remove(a, i, n);
	addresses_end(a);
	lock_drop(&a->lock);
}

void addresses_forget_files(struct addresses *a, bool (*gone)(uint64_t key, const void *arg),
			    const void *arg)
{
	lock_take(&a->lock);
	addresses_begin(a);
	for (uint32_t i = a->is.n; i-- > 0;)
		if (gone(addresses_list(a)[i].file << 32, arg))
			addresses_remove(a, i, 1);
	addresses_end(a);
	lock_drop(&a->lock);
}
