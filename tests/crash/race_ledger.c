/* SPDX-License-Identifier: Apache-2.0 */
/* A remainder of the quota itself: reserve, at the second try if need be, and commit. */
#include "tests/crash/race.h"
#include "tests/unit/tenant_fixture.h"

#define LIMIT	(100 * MIB)
#define SETTLED (60 * MIB)
#define PENDING (RACE_DEVICES - 1)

static char dir[PATH_MAX + 8];
static struct slot *slot;

void race_join(void)
{
	uint8_t uuid[16];

	slot = fixture_join(dir);
	for (int d = 1; d < RACE_DEVICES; d++) {
		memset(uuid, d, sizeof(uuid));
		CHECK_EQ(ledger_device(slot_ledger(slot), uuid, GIB), d); /* index = number */
	}
}

struct race race_begin(void)
{
	snprintf(dir, sizeof(dir), "%s", fixture_tenant("race"));
	race_join();
	for (int d = 0; d < RACE_DEVICES; d++)
		quota_charge(slot, d, CAT_DATA, SETTLED);
	return (struct race){.devices = RACE_DEVICES, .batches = 400,
			     .least_bytes = 21 * MIB, .most_bytes = 40 * MIB};
}

bool race_take(int device, uint64_t bytes, bool *slow)
{
	*slow = false;
	if (quota_reserve(slot, device, bytes, LIMIT) < 0) {
		*slow = true;
		if (quota_reserve_slow(slot, device, bytes, LIMIT) < 0)
			return false;
	}
	/*
	 * Committed while the other may be looking; or left pending, as in a long call to the
	 * driver, for which the second try waits a millisecond (the last one, or they fall out of
	 * step).
	 */
	if (device != PENDING)
		quota_commit(slot, device, bytes, CAT_DATA, bytes);
	return true;
}

void race_give(int device, uint64_t bytes)
{
	if (device != PENDING)
		quota_release(slot, device, CAT_DATA, bytes);
	else
		quota_cancel(slot, device, bytes);
}

void race_check(int device, uint64_t bytes)
{
	CHECK_EQ(quota_used(slot_ledger(slot), device), SETTLED + bytes);
}

void race_end(void)
{
	struct ledger *ledger = slot_ledger(slot);

	for (int d = 0; d < RACE_DEVICES; d++)
		CHECK_EQ(quota_used_live(ledger, d), SETTLED);
	ledger_close(ledger);
}
