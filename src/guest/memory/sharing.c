/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/memory/sharing.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

static bool sharing_number_key(pid_t owner, int number, struct shared_key *ret)
{
	if (owner <= 0 || number <= 0)
		return false;
	*ret = entry_key((int32_t[2]){owner, number}, 2 * sizeof(int32_t));
	return true;
}

bool sharing_stamp(int fd, int number, struct shared_key *ret)
{
	return !fcntl(fd, F_SETOWN, getpid()) && !fcntl(fd, F_SETSIG, number) &&
	       sharing_number_key(getpid(), number, ret);
}

/* Bit n of the mask is number n; signal 0 would mean "not set". */
static bool sharing_number_take(struct guest *guest, int number)
{
	uint64_t bit = UINT64_C(1) << number;

	return !(atomic_fetch_or(&guest->stamps, bit) & bit);
}

int sharing_stamp_new(struct guest *guest, int fd, struct shared_key *ret)
{
	struct shared_key key;

	/* In turns, so that a number is used again late: other tenants' tables are hidden. */
	for (int i = 0; i < 63; i++) {
		int number = 1 + (int)(atomic_fetch_add(&guest->stamp_next, 1) % 63);

		if (!sharing_number_take(guest, number))
			continue;
		if (sharing_stamp(fd, number, &key) && !shared_known(guest->ledger, key)) {
			*ret = key;
			return number;
		}
		sharing_number_drop(guest, number);
	}
	return 0;
}

void sharing_number_drop(struct guest *guest, int number)
{
	if (number)
		atomic_fetch_and(&guest->stamps, ~(UINT64_C(1) << number));
}

bool sharing_read(int fd, struct shared_key *ret)
{
	return sharing_number_key(fcntl(fd, F_GETOWN), fcntl(fd, F_GETSIG), ret);
}

static struct slot *sharing_slot(struct guest *guest)
{
	return atomic_load_explicit(&guest->slot, memory_order_acquire);
}

void sharing_export(struct guest *guest, struct guest_device *device, struct shared_key key,
		    uint64_t bytes, struct object *object)
{
	if (!shared_add(sharing_slot(guest), key, device->ledger, bytes, CAT_IMPORTED,
			SHARED_COVERED, charge_limit(guest, device)))
		entry_hold(guest, key, object);
}

CUresult sharing_import(struct guest *guest, struct guest_device *device, struct shared_key key,
			uint64_t bytes, struct object *object)
{
	struct charge charge;
	int r = shared_add(sharing_slot(guest), key, device->ledger, bytes, CAT_IMPORTED, 0,
			   charge_limit(guest, device));

	if (r == -EDQUOT) {
		quota_count_refusal(sharing_slot(guest), device->ledger);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	if (!r || r == -EEXIST) {
		entry_hold(guest, key, object);
		return CUDA_SUCCESS;
	}
	/* No entry to be had: charged to this process alone. */
	if (charge_reserve(guest, device, bytes, &charge))
		return CUDA_ERROR_OUT_OF_MEMORY;
	charge_commit(&charge, CAT_IMPORTED, bytes);
	object->bytes = bytes;
	return CUDA_SUCCESS;
}

void sharing_drop(struct guest *guest, const struct object *object)
{
	struct guest_device *device = guest_device(guest, object->device);

	entry_leave(guest, object);
	if (!device)
		return;
	charge_release_begin(device);
	charge_release_end(guest, device, object->category, object->bytes);
}
