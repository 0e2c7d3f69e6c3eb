/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/memory/sharing.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/fd.h"

static bool sharing_number_key(pid_t owner, int number, struct shared_key *ret)
{
	if (owner <= 0 || number <= 0)
		return false;
	*ret = entry_key((int32_t[2]){owner, number}, 2 * sizeof(int32_t));
	return true;
}

/*
 * The last signal says that the number is in a lock. All descriptors of an object hold it, so it is
 * one that many may hold. It is far behind whatever may be in a file, and goes with the last
 * descriptor.
 */
#define SIGNALS	  63
#define IN_LOCK	  64
#define LOCK_BASE (INT64_C(3) << 60)

static bool sharing_lock(int fd, int number)
{
	struct flock lock = {.l_type = F_RDLCK, .l_whence = SEEK_SET,
			     .l_start = LOCK_BASE | (int64_t)getpid() << 32 | number, .l_len = 1};

	return !fcntl(fd, F_OFD_SETLK, &lock);
}

bool sharing_stamp(int fd, int number, struct shared_key *ret)
{
	return (number <= SIGNALS || sharing_lock(fd, number)) && !fcntl(fd, F_SETOWN, getpid()) &&
	       !fcntl(fd, F_SETSIG, number <= SIGNALS ? number : IN_LOCK) &&
	       sharing_number_key(getpid(), number, ret);
}

/* "OFDLCK ADVISORY READ -1 00:05:1030 FIRST LAST": the first byte, or 0. */
static int64_t sharing_parse_lock(const char *at)
{
	int64_t first = 0;

	for (int word = 0; word < 5; word++) {
		at += strcspn(at, " ");
		at += strspn(at, " ");
	}
	for (; *at >= '0' && *at <= '9' && first <= INT64_MAX / 10 - 1; at++)
		first = first * 10 + (*at - '0');
	return first;
}

static int sharing_locked_number(int fd, pid_t owner)
{
	int64_t base = LOCK_BASE | (int64_t)owner << 32;
	char path[40], text[2048];

	snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", fd);
	if (fd_read_text(AT_FDCWD, path, text, sizeof(text)) < 0)
		return 0;
	for (const char *at = text; (at = strstr(at, "OFDLCK ")); at++) {
		int64_t first = sharing_parse_lock(at);

		if (first > base && first - base <= INT32_MAX)
			return (int)(first - base);
	}
	return 0;
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
	for (int i = 0; i < SIGNALS; i++) {
		int number = 1 + (int)(atomic_fetch_add(&guest->stamp_next, 1) % SIGNALS);

		if (!sharing_number_take(guest, number))
			continue;
		if (sharing_stamp(fd, number, &key) && !shared_known(guest->ledger, key)) {
			*ret = key;
			return number;
		}
		sharing_number_drop(guest, number);
	}
	for (int i = 0; i < SIGNALS; i++) {
		int number = IN_LOCK + 1 +
			     (int)(atomic_fetch_add(&guest->stamp_more, 1) % (INT32_MAX - IN_LOCK));

		if (sharing_stamp(fd, number, &key) && !shared_known(guest->ledger, key)) {
			*ret = key;
			return number;
		}
	}
	return 0;
}

void sharing_number_drop(struct guest *guest, int number)
{
	if (number && number <= SIGNALS)
		atomic_fetch_and(&guest->stamps, ~(UINT64_C(1) << number));
}

bool sharing_read(int fd, struct shared_key *ret)
{
	pid_t owner = fcntl(fd, F_GETOWN);
	int number = fcntl(fd, F_GETSIG);

	return sharing_number_key(
		owner, number == IN_LOCK ? sharing_locked_number(fd, owner) : number, ret);
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

static int sharing_add(struct guest *guest, struct guest_device *device, struct shared_key key,
		       uint64_t bytes)
{
	return shared_add(sharing_slot(guest), key, device->ledger, bytes, CAT_IMPORTED, 0,
			  charge_limit(guest, device));
}

CUresult sharing_import(struct guest *guest, struct guest_device *device, struct shared_key key,
			uint64_t bytes, struct object *object)
{
	struct charge charge;
	int r = sharing_add(guest, device, key, bytes);

	if (r == -EDQUOT) {
		charge_begin_again(guest, device);
		charge_await_others(guest);
		r = sharing_add(guest, device, key, bytes);
		charge_end_again(guest);
	}
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
