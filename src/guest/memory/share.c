/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/memory/share.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "base/hash.h"

static uint64_t mix(uint64_t h, const void *data, size_t len)
{
	h = hash_bytes(h, data, len);
	h = (h ^ h >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	return (h ^ h >> 31) | 1; /* never the empty key */
}

struct shared_key share_key(const void *data, size_t len)
{
	return (struct shared_key){{mix(HASH_SEED, data, len),
				    mix(UINT64_C(0x9e3779b97f4a7c15), data, len)}};
}

static bool key_of(pid_t owner, int number, struct shared_key *ret)
{
	if (owner <= 0 || number <= 0)
		return false;
	*ret = share_key((int32_t[2]){owner, number}, 2 * sizeof(int32_t));
	return true;
}

bool share_stamp(int fd, int number, struct shared_key *ret)
{
	return !fcntl(fd, F_SETOWN, getpid()) && !fcntl(fd, F_SETSIG, number) &&
	       key_of(getpid(), number, ret);
}

/* Bit n of the mask is number n; signal 0 would mean "not set". */
static bool number_take(struct guest *guest, int number)
{
	uint64_t bit = UINT64_C(1) << number;

	return !(atomic_fetch_or(&guest->stamps, bit) & bit);
}

int share_stamp_new(struct guest *guest, int fd, struct shared_key *ret)
{
	struct shared_key key;

	/* In turns, so that a number is used again late: other tenants' tables are hidden. */
	for (int i = 0; i < 63; i++) {
		int number = 1 + (int)(atomic_fetch_add(&guest->stamp_next, 1) % 63);

		if (!number_take(guest, number))
			continue;
		if (share_stamp(fd, number, &key) && !shared_known(guest->ledger, key)) {
			*ret = key;
			return number;
		}
		share_number_drop(guest, number);
	}
	return 0;
}

void share_number_drop(struct guest *guest, int number)
{
	if (number)
		atomic_fetch_and(&guest->stamps, ~(UINT64_C(1) << number));
}

bool share_read(int fd, struct shared_key *ret)
{
	return key_of(fcntl(fd, F_GETOWN), fcntl(fd, F_GETSIG), ret);
}

static struct slot *slot_of(struct guest *guest)
{
	return atomic_load_explicit(&guest->slot, memory_order_acquire);
}

/* How many objects of this process hold one entry. */
static bool refs_add(struct object *share, void *arg)
{
	share->refs += *(const uint32_t *)arg;
	return share->refs != 0;
}

void share_enter(struct guest *guest, struct shared_key key, struct object *object)
{
	uint32_t one = 1;

	object_change(guest->objects, OBJECT_SHARE, key.word[0], true, refs_add, &one);
	object->shared = key;
	object->flags |= OBJECT_SHARED;
}

void share_leave(struct guest *guest, const struct object *object)
{
	uint32_t less = (uint32_t)-1;
	struct object share;

	if (!(object->flags & OBJECT_SHARED))
		return;
	object_change(guest->objects, OBJECT_SHARE, object->shared.word[0], false, refs_add, &less);
	if (!object_get(guest->objects, OBJECT_SHARE, object->shared.word[0], &share))
		shared_drop(guest->claimed, object->shared);
	else if (!(object->flags & OBJECT_IMPORTED)) /* we import it too, and our row lets go */
		shared_uncover(guest->claimed, object->shared);
}

void share_export(struct guest *guest, struct guest_device *device, struct shared_key key,
		  uint64_t bytes, struct object *object)
{
	if (!shared_add(slot_of(guest), key, device->ledger, bytes, CAT_IMPORTED, SHARED_COVERED,
			charge_limit(guest, device)))
		share_enter(guest, key, object);
}

CUresult share_import(struct guest *guest, struct guest_device *device, struct shared_key key,
		      uint64_t bytes, struct object *object)
{
	struct charge charge;
	int r = shared_add(slot_of(guest), key, device->ledger, bytes, CAT_IMPORTED, 0,
			   charge_limit(guest, device));

	if (r == -EDQUOT) {
		quota_count_refusal(slot_of(guest), device->ledger);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	if (!r || r == -EEXIST) {
		share_enter(guest, key, object);
		return CUDA_SUCCESS;
	}
	/* No entry to be had: charged to this process alone. */
	if (charge_reserve(guest, device, bytes, &charge))
		return CUDA_ERROR_OUT_OF_MEMORY;
	charge_commit(&charge, CAT_IMPORTED, bytes);
	object->bytes = bytes;
	return CUDA_SUCCESS;
}

void share_drop(struct guest *guest, const struct object *object)
{
	struct guest_device *device = guest_device(guest, object->device);

	share_leave(guest, object);
	if (!device)
		return;
	charge_release_begin(device);
	charge_release_end(guest, device, object->category, object->bytes);
}
