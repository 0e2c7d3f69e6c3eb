/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A forged ledger. The input is a list of 64-bit words to put somewhere in a good one: a byte says
 * where (header, devices, slots, shared objects, rows, figures, compute), two which word there,
 * eight its value. Then a guest joins and allocates, and a reader takes a snapshot.
 */
#include "ledger/layout.h"
#include "ledger/quota.h"
#include "ledger/reader/snapshot.h"
#include "ledger/shared.h"
#include "ledger/slot.h"
#include "tests/fuzz/tenant.h"

#define RECORD 11
#define LIMIT  (UINT64_C(1) << 30)
#define PIECE  (UINT64_C(1) << 21)

static void forge(int fd, const uint8_t *data, size_t size)
{
	static const struct {
		size_t offset, words;
	} part[] = {
		{0, sizeof(struct ledger_header) / 8},
		{offsetof(struct ledger_file, devices), sizeof(struct ledger_device) * 2 / 8},
		{offsetof(struct ledger_file, slots), sizeof(struct ledger_slot) * 4 / 8},
		{offsetof(struct ledger_file, shared), sizeof(struct ledger_shared) * 4 / 8},
		{offsetof(struct ledger_file, rows), sizeof(struct ledger_row) * 4 / 8},
		{offsetof(struct ledger_file, info), sizeof(struct ledger_info) * 4 / 8},
		{offsetof(struct ledger_file, device_time), sizeof(struct device_time) / 8},
	};
	const size_t parts = sizeof(part) / sizeof(part[0]);

	for (; size >= RECORD; data += RECORD, size -= RECORD) {
		size_t p = data[0] % parts, word = (data[1] | data[2] << 8) % part[p].words;

		MUST(pwrite(fd, data + 3, 8, (off_t)(part[p].offset + word * 8)) == 8);
	}
}

static void allocate(struct slot *slot, int device)
{
	struct ledger *ledger = slot_ledger(slot);
	uint64_t before;

	if (quota_reserve(slot, device, PIECE, LIMIT) == 0) {
		MUST(quota_used(ledger, device) <= LIMIT);
		quota_commit(slot, device, PIECE, CAT_DATA, PIECE);
		quota_release(slot, device, CAT_DATA, PIECE);
	}
	if (quota_reserve_slow(slot, device, PIECE, LIMIT) == 0) {
		MUST(quota_used_live(ledger, device) <= LIMIT);
		quota_cancel(slot, device, PIECE);
	}
	/* An object that a forged holder has is joined at no charge, as it is counted already. */
	before = quota_used(ledger, device);
	if (shared_add(slot, (struct shared_key){{1, 2}}, device, PIECE, CAT_IMPORTED, 0,
		       LIMIT) == 0) {
		MUST(before > LIMIT || quota_used(ledger, device) <= LIMIT);
		shared_drop(slot, (struct shared_key){{1, 2}});
	}
	quota_reclaim(ledger);
}

static void join(void)
{
	static const uint8_t uuid[16] = "device-0 (uuid)";
	struct ledger *ledger = NULL;
	struct slot *slot;
	int device;

	if (ledger_open(tenant_dir, LEDGER_GUEST, &ledger) < 0)
		return;
	if (slot_claim(ledger, &slot) == 0) {
		device = ledger_device(ledger, uuid, LIMIT);
		if (device >= 0)
			allocate(slot, device);
	}
	ledger_close(ledger);
}

static void look_at_compute(const struct snapshot_compute *compute)
{
	MUST(compute->target_permille <= 1000);
	MUST(compute->achieved_1s_bp <= 10000 && compute->achieved_60s_bp <= 10000);
	for (int i = 0; i < SNAPSHOT_SECONDS; i++)
		MUST(compute->history_bp[i] <= 10000);
}

static void look(void)
{
	struct snapshot *snapshot = NULL;

	if (snapshot_read(tenant_dir, &snapshot) < 0)
		return;
	for (int d = 0; d < snapshot->ndevices; d++)
		look_at_compute(&snapshot->device[d].compute);
	for (int p = 0; p < snapshot->nprocesses; p++) {
		const struct slot_info *info = &snapshot->process[p].info;

		MUST(memchr(info->comm, 0, sizeof(info->comm)));
		MUST(memchr(info->command, 0, sizeof(info->command)));
	}
	snapshot_free(snapshot);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct policy policy = tenant_policy();
	int fd;

	policy.compute = POLICY_COMPUTE_CAP;
	policy.device[0].share_permille = 250;
	tenant_begin();
	tenant_forget("policy");
	tenant_forget("ledger");
	MUST(policy_create(tenant_dir, &policy) == 0);
	MUST(ledger_create(tenant_dir) == 0);
	join(); /* so that the rows of a device exist */
	fd = tenant_open("ledger", O_RDWR);
	forge(fd, data, size);
	look();
	join();
	look();
	if (size % RECORD) {
		MUST(ftruncate(fd, data[size - 1] * 64) == 0);
		join();
		look();
	}
	close(fd);
	return 0;
}
