/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/memory/sharing.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/fd.h"
#include "guest/memory/state.h"

/*
 * A stamp is a lock on one range of bytes, far behind whatever may be in a file. Its first byte
 * says the exporter's pid and the number, its last byte the exporter's random part.
 */
#define LOCK_FIRST  (INT64_C(3) << 60)
#define LOCK_LAST   (INT64_C(1) << 62)
#define RANDOM_MASK ((INT64_C(1) << 60) - 1)

static int64_t sharing_random(struct guest *guest)
{
	int64_t none = 0, fresh;

	if (!atomic_load(&guest->memory->stamp_random) &&
	    getrandom(&fresh, sizeof(fresh), 0) == (ssize_t)sizeof(fresh))
		atomic_compare_exchange_strong(&guest->memory->stamp_random, &none,
					       (fresh & RANDOM_MASK) | 1);
	return atomic_load(&guest->memory->stamp_random);
}

static struct shared_key sharing_stamp_key(const struct stamp *stamp)
{
	return entry_key(stamp, sizeof(*stamp));
}

uint32_t sharing_number(struct guest *guest)
{
	uint64_t number = 1 + atomic_fetch_add(&guest->memory->stamps, 1);

	return number <= INT32_MAX ? (uint32_t)number : 0;
}

bool sharing_stamp_as(int fd, const struct stamp *stamp)
{
	struct flock lock = {.l_type = F_RDLCK, .l_whence = SEEK_SET, .l_start = stamp->first,
			     .l_len = stamp->last - stamp->first + 1};

	return stamp->first && !fcntl(fd, F_OFD_SETLK, &lock);
}

bool sharing_stamp(struct guest *guest, int fd, uint32_t number, struct shared_key *ret)
{
	int64_t random = sharing_random(guest);
	struct stamp stamp = {.first = LOCK_FIRST | (int64_t)getpid() << 32 | number,
			      .last = LOCK_LAST | random};

	if (!random || !number || !sharing_stamp_as(fd, &stamp))
		return false;
	*ret = sharing_stamp_key(&stamp);
	return true;
}

static const char *sharing_parse_byte(const char *at, int64_t *ret)
{
	int64_t byte = 0;

	at += strspn(at, " ");
	for (; *at >= '0' && *at <= '9' && byte <= (INT64_MAX - 9) / 10; at++)
		byte = byte * 10 + (*at - '0');
	*ret = byte;
	return at;
}

/* "OFDLCK ADVISORY READ -1 00:05:1030 FIRST LAST". A byte that is no number becomes 0. */
static void sharing_parse_lock(const char *at, int64_t *ret_first, int64_t *ret_last)
{
	for (int word = 0; word < 5; word++) {
		at += strspn(at, " ");
		at += strcspn(at, " ");
	}
	at = sharing_parse_byte(at, ret_first);
	sharing_parse_byte(at, ret_last);
}

bool sharing_read(int fd, struct stamp *ret_stamp, struct shared_key *ret)
{
	char path[40], text[2048];
	struct stamp stamp;

	snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", fd);
	if (fd_read_text(AT_FDCWD, path, text, sizeof(text)) < 0)
		return false;
	for (const char *at = text; (at = strstr(at, "OFDLCK ")); at++) {
		sharing_parse_lock(at, &stamp.first, &stamp.last);
		if (stamp.first > LOCK_FIRST && stamp.first < LOCK_LAST && stamp.last > LOCK_LAST) {
			if (ret_stamp)
				*ret_stamp = stamp;
			*ret = sharing_stamp_key(&stamp);
			return true;
		}
	}
	return false;
}

void sharing_export(struct guest *guest, struct guest_device *device, struct shared_key key,
		    uint64_t bytes, struct object *object)
{
	entry_hold(guest, key, object);
	if (shared_add(guest_slot(guest), key, device->ledger, bytes, CAT_IMPORTED,
		       SHARED_COVERED, charge_limit(guest, device)))
		entry_unhold(guest, object);
}

static int sharing_add(struct guest *guest, struct guest_device *device, struct shared_key key,
		       uint64_t bytes, uint64_t limit)
{
	return shared_add(guest_slot(guest), key, device->ledger, bytes, CAT_IMPORTED, 0, limit);
}

static int sharing_add_by_ledger(struct guest *guest, struct guest_device *device,
				 struct shared_key key, uint64_t bytes)
{
	int r = sharing_add(guest, device, key, bytes, charge_limit(guest, device));

	if (r != -EDQUOT)
		return r;
	charge_begin_again(guest, device);
	charge_await_others(guest);
	r = sharing_add(guest, device, key, bytes, charge_limit(guest, device));
	charge_end_again(guest);
	if (r == -EDQUOT)
		quota_count_refusal(guest_slot(guest), device->ledger);
	return r;
}

/*
 * With accounting by the driver's figure: an entry that is there is joined at no charge, and a new one
 * is admitted by that figure. Memory by legacy IPC needs no entry: the exporter's figure has it, and
 * an importer's when the exporter has let go of it (-ECHILD). External memory has one while it is
 * imported, and from when its handle is destroyed (external.h).
 */
static int sharing_add_by_driver(struct guest *guest, struct guest_device *device,
				 struct shared_key key, uint64_t bytes, bool inherits)
{
	struct charge charge;
	int r;

	if (inherits && shared_covered(guest->ledger, key))
		return -ECHILD;
	r = sharing_add(guest, device, key, bytes, 0);
	if (r != -EDQUOT)
		return r;
	if (charge_reserve(guest, device, bytes, &charge))
		return -EDQUOT;
	r = sharing_add(guest, device, key, bytes, UINT64_MAX);
	charge_cancel(&charge);
	return r;
}

CUresult sharing_import(struct guest *guest, struct guest_device *device, struct shared_key key,
			uint64_t bytes, struct object *object)
{
	struct charge charge;
	int r;

	entry_hold(guest, key, object);
	r = guest_by_driver(guest) ? sharing_add_by_driver(guest, device, key, bytes,
							   object->kind == OBJECT_IPC)
				   : sharing_add_by_ledger(guest, device, key, bytes);
	if (!r || r == -EEXIST)
		return CUDA_SUCCESS;
	entry_unhold(guest, object);
	if (r == -ECHILD)
		return CUDA_SUCCESS;
	/* No entry to be had: charged to this process alone. */
	if (r == -EDQUOT || charge_reserve(guest, device, bytes, &charge))
		return CUDA_ERROR_OUT_OF_MEMORY;
	charge_commit(&charge, CAT_IMPORTED, bytes);
	object->bytes = bytes;
	return CUDA_SUCCESS;
}

void sharing_begin_drop(struct guest *guest, const struct object *object)
{
	if (guest_by_driver(guest) && object->flags & OBJECT_SHARED)
		shared_uncover(guest_slot(guest), object->shared);
}

void sharing_import_anyway(struct guest *guest, struct guest_device *device, struct shared_key key,
			   uint64_t bytes, struct object *object)
{
	int r;

	entry_hold(guest, key, object);
	r = sharing_add(guest, device, key, bytes, UINT64_MAX);
	if (!r || r == -EEXIST)
		return;
	entry_unhold(guest, object);
	quota_charge(guest_slot(guest), device->ledger, CAT_IMPORTED, bytes);
	object->bytes = bytes;
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
