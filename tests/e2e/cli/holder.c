/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cli_holder TENANT_DIR [DEVICE:CATEGORY:BYTES]...: a process of a tenant, without any GPU: claims
 * a slot, holds these amounts in the ledger, says "held" and waits until its stdin is closed. With
 * "refuse" for a category it asks for that many bytes above a limit of 1, to be refused; "host" is
 * the machine's memory, pinned for an AMD GPU. Of compute: "busy", a permille of each of the last
 * 62 seconds; "owed" to the deficit controller, "held" and "longest", in nanoseconds; "launches";
 * and of AMD GPUs "units". With "pid" it says in its slot that it is that process.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "amd/identity.h"
#include "base/now.h"
#include "ledger/cu_grant.h"
#include "ledger/device_time.h"
#include "ledger/ledger.h"
#include "ledger/map.h"
#include "ledger/quota.h"
#include "ledger/slot.h"
#include "nvidia/uuid.h"
#include "tests/check.h"

static int category_named(const char *name)
{
	for (int c = 0; c < CAT_N; c++)
		if (!strcmp(category_name((enum category)c), name))
			return c;
	return -1;
}

/* Whether the category was one of compute's. */
static int compute(struct device_time *c, const char *category, uint64_t amount)
{
	static const struct share_params params = {.share_permille = 250, .slice_ns = 4000000};
	uint64_t now = now_monotonic_ns();

	if (!strcmp(category, "busy")) {
		for (uint64_t s = 62; s > 0; s--)
			device_time_add_busy(c, now - (s - 1) * 1000000000, amount * 1000000);
	} else if (!strcmp(category, "owed")) {
		c->hot = controller_deficit.bill(c->hot, &params, now, now + amount);
	} else if (!strcmp(category, "held")) {
		c->throttles++;
		c->throttled_ns += amount;
	} else if (!strcmp(category, "longest")) {
		c->longest_ns = amount;
	} else if (!strcmp(category, "launches")) {
		c->launches += amount;
	} else {
		return 0;
	}
	return 1;
}

/* The first of an AMD GPU, by one queue. */
static void give_units(struct ledger *ledger, struct slot *slot, int device, uint64_t n)
{
	struct cu_grant grant = {.made_ns = 1, .permille = 250, .duty_permille = 1000};

	for (uint64_t i = 0; i < n; i++)
		grant.word[i / 32] |= 1u << i % 32;
	cu_grant_write(device_time_of(ledger, device), &grant);
	cu_grant_set_queues(slot, device, 1);
}

static void hold(struct ledger *ledger, struct slot *slot, char *amount)
{
	/* An AMD device's name may be a PCI address. */
	char *number = strrchr(amount, ':'), *end;
	const char *category;
	uint8_t uuid[16];
	uint64_t bytes;
	int device;

	CHECK(number);
	*number++ = 0;
	end = strrchr(amount, ':');
	CHECK(end);
	*end = 0;
	category = end + 1;
	bytes = strtoull(number, NULL, 10);
	CHECK(!amd_identity_parse(amount, uuid) || !uuid_parse(amount, uuid));
	device = ledger_device(ledger, uuid, 0);
	CHECK(device >= 0);
	if (!strcmp(category, "host")) {
		quota_host_add(slot, device, bytes);
		return;
	}
	if (!strcmp(category, "gtt") || !strcmp(category, "userptr")) {
		quota_charge(slot, ledger_host(ledger),
			     (enum category)(*category == 'g' ? HOST_GTT : HOST_USERPTR), bytes);
		return;
	}
	if (!strcmp(category, "refuse")) {
		CHECK_EQ(quota_reserve_slow(slot, device, bytes, 1), -EDQUOT);
		return;
	}
	if (!strcmp(category, "pid")) {
		ledger->map->slots[slot_index(slot)].pid = (uint32_t)bytes;
		return;
	}
	if (compute(device_time_of(ledger, device), category, bytes))
		return;
	if (!strcmp(category, "units")) {
		give_units(ledger, slot, device, bytes);
		return;
	}
	/* A context is charged by a guess where none was measured. */
	if (!strcmp(category, "guess"))
		category = "context";
	else if (!strcmp(category, "context"))
		ledger_learn_context(ledger, device, false, bytes);
	CHECK(category_named(category) >= 0);
	CHECK_EQ(quota_reserve(slot, device, bytes, UINT64_MAX), 0);
	quota_commit(slot, device, bytes, (enum category)category_named(category), bytes);
}

int main(int argc, char **argv)
{
	struct ledger *ledger;
	struct slot *slot;
	char byte;

	CHECK(argc > 1);
	CHECK_EQ(ledger_open(argv[1], LEDGER_GUEST, &ledger), 0);
	CHECK_EQ(slot_claim(ledger, &slot), 0);
	for (int i = 2; i < argc; i++)
		hold(ledger, slot, argv[i]);
	puts("held");
	fflush(stdout);
	while (read(0, &byte, 1) > 0)
		;
	return 0;
}
