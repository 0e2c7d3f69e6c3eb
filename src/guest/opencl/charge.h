/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Charges of one object on all accounted devices of its context: the driver makes a copy on each that
 * uses it, when it does, so each is charged from the beginning.
 */
#ifndef ALLOT_GUEST_OPENCL_CHARGE_H
#define ALLOT_GUEST_OPENCL_CHARGE_H

#include <stdbool.h>
#include <stdint.h>

#include "guest/account/uuid_charge.h"
#include "guest/core/guest.h"
#include "guest/core/object.h"
#include "guest/opencl/state.h"

struct opencl_charge {
	uint64_t devices; /* a bit each, by index in guest->opencl */
	uint64_t bytes;	  /* of each */
	struct uuid_charge of[OPENCL_ACCOUNTED];
};

/* `bytes` are rounded up. True ends in a commit or a cancel; false: not all of them have room. */
bool opencl_charge_reserve(struct guest *guest, uint64_t devices, uint64_t bytes,
			   struct opencl_charge *ret);
void opencl_charge_commit(struct opencl_charge *charge);
void opencl_charge_cancel(struct opencl_charge *charge);

/* Memory that is about to be freed, begun before the driver frees. */
struct opencl_release {
	uint64_t devices;
	uint64_t bytes[OPENCL_ACCOUNTED]; /* what the driver freed of each, added meanwhile */
	struct uuid_charge of[OPENCL_ACCOUNTED];
};

void opencl_release_begin(struct guest *guest, uint64_t devices, struct opencl_release *ret);
void opencl_release_add(struct opencl_release *release, uint64_t devices, uint64_t bytes);
void opencl_release_end(struct opencl_release *release);

/* Releases what an object of the table was charged, which the driver has freed. OBJECT_NONE: nothing. */
void opencl_release_object(struct guest *guest, const struct object *object);

#endif
