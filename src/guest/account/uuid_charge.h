/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Charges for memory of a device that is known by its UUID alone: APIs beside CUDA take it, in a process
 * that may have no CUDA. Where it has, and CUDA knows the device, they are charges of charge.h, so that
 * looks at the driver's figure find both; else they are words of the same row of the ledger.
 *
 * The category is CAT_ARRAY: memory that has a size, is in the driver's figure, and cannot leave. (A
 * category of its own has no place: a process's row is one line of the cache.)
 */
#ifndef ALLOT_GUEST_ACCOUNT_UUID_CHARGE_H
#define ALLOT_GUEST_ACCOUNT_UUID_CHARGE_H

#include <stdbool.h>
#include <stdint.h>

#include "guest/account/charge.h"
#include "guest/core/guest.h"
#include "ledger/shared.h"

struct uuid_device {
	uint8_t uuid[16];
	uint64_t total_bytes; /* as the API has it; the ledger's goes first */
	unsigned int index;   /* as NVML counts; ~0: not known, and of no interest */
	_Atomic uint64_t looked_ns; /* at the driver's figure, where CUDA does not; CLOCK_MONOTONIC */
};

/*
 * Takes the first two as given, and finds the third. True if the tenant of this process has the device;
 * nobody has any where the tenant cannot be used.
 */
bool uuid_device_open(struct guest *guest, struct uuid_device *device);

/* The limit of the tenant, now; 0 for one that it was not given. */
uint64_t uuid_device_limit(struct guest *guest, const struct uuid_device *device);

/*
 * The device as the tenant sees it, where the driver says that `device_free` bytes of it are free:
 * its size, and what is free for the tenant (view.h).
 */
void uuid_device_view(struct guest *guest, const struct uuid_device *device, uint64_t device_free,
		      uint64_t *ret_total, uint64_t *ret_free);

/* Bytes asked for and not yet committed, or about to be released. */
struct uuid_charge {
	struct guest *guest;
	struct guest_device *cuda; /* CUDA's, which it goes by; NULL: it goes by the next two */
	struct slot *slot;
	int ledger;
	uint64_t reserved;
	struct charge charge;
};

/*
 * 0, -EDQUOT when the tenant's quota does not allow it, or another -errno of its ledger. Every success
 * ends in a commit or a cancel. Call no driver function with a lock held.
 *
 * Where this process has no context of CUDA's there, what drivers took for themselves is looked at by
 * this call, at most every 5 ms near the limit and every second elsewhere.
 */
int uuid_charge_reserve(struct guest *guest, struct uuid_device *device, uint64_t bytes,
			struct uuid_charge *ret);
/* The driver did it: all that was reserved is taken. */
void uuid_charge_commit(struct uuid_charge *charge);
void uuid_charge_cancel(struct uuid_charge *charge);

/*
 * Adds this process to the holders of memory that goes from process to process, by its key (ledger/shared.h).
 * `covered`: it is exported, and charged. Else it is imported, and admitted. Errors of shared_add.
 */
int uuid_charge_share(struct guest *guest, struct uuid_device *device, struct shared_key key,
		      uint64_t bytes, bool covered);

/*
 * A driver has taken memory for itself there, or given it back: the next reservation looks at its
 * figure first.
 */
void uuid_charge_stale(struct guest *guest, struct uuid_device *device);

/* Begin before the driver frees, end when it has freed `bytes` that were charged. */
void uuid_charge_release_begin(struct guest *guest, const struct uuid_device *device,
			       struct uuid_charge *ret);
void uuid_charge_release_end(struct uuid_charge *charge, uint64_t bytes);

#endif
