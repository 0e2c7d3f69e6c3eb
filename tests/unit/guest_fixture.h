/* SPDX-License-Identifier: Apache-2.0 */
/* The guest of a tenant of its own, on one device of 24 GiB, before a driver that the test plays. */
#ifndef ALLOT_TESTS_UNIT_GUEST_FIXTURE_H
#define ALLOT_TESTS_UNIT_GUEST_FIXTURE_H

#include <stdlib.h>

#include "guest/core/guest.h"
#include "guest/core/object.h"
#include "guest/core/rooms.h"
#include "guest/movable/movable.h"
#include "tests/unit/tenant_fixture.h"

/* What a driver that the test plays has; the last has no name. For cuda_driver_bind. */
struct fixture_symbol {
	const char *name;
	void *address;
};

static inline void *fixture_symbol(void *exported, const char *name)
{
	for (const struct fixture_symbol *symbol = exported; symbol->name; symbol++)
		if (!strcmp(symbol->name, name))
			return symbol->address;
	return NULL;
}

/* Gives it the structures of rooms, as guest_start does. */
static inline void fixture_rooms(struct guest *guest)
{
	void *at = calloc(1, guest_rooms.bytes);

	CHECK(at);
	guest_rooms.hang(guest, at);
}

/* `guest` is all zero; its tenant has that quota. */
static inline void fixture_guest(struct guest *guest, const char *name, uint64_t limit_bytes)
{
	struct slot *slot;

	fixture_rooms(guest);
	guest->policy = fixture_policy(limit_bytes);
	CHECK_EQ(tenant_create(fixture_runtime_dir(), name, &guest->policy, guest->dir,
			       sizeof(guest->dir)),
		 0);
	slot = fixture_join(guest->dir);
	guest->mode = GUEST_LIMITED;
	guest->ledger = slot_ledger(slot);
	CHECK_EQ(policy_open(guest->dir, &guest->policy_map), 0);
	guest->ndevices = 1;
	memcpy(guest->device[0].uuid, fixture_uuid, sizeof(fixture_uuid));
	guest->device[0].total_bytes = 24 * GIB;
	CHECK_EQ(object_table_new(&guest->objects), 0);
	movable_choose_allocator(guest);
	atomic_store(&guest->slot, slot);
}

#endif
