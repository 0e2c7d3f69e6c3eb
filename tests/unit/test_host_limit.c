/* SPDX-License-Identifier: Apache-2.0 */
/* Memory of the machine that AMD's GPUs have pinned: its row of the ledger, and the limit on it. */
#include <string.h>

#include "base/host_memory.h"
#include "ledger/map.h"
#include "ledger/reader/snapshot.h"
#include "ledger/shared.h"
#include "tests/unit/tenant_fixture.h"

static uint64_t machine_room, cgroup_room;

static bool machine_tells = true;

bool __wrap_host_memory_tell_room(uint64_t *ret_bytes);
bool __wrap_host_memory_tell_room(uint64_t *ret_bytes)
{
	*ret_bytes = machine_room;
	return machine_tells;
}

uint64_t __wrap_host_memory_cgroup_room(void);
uint64_t __wrap_host_memory_cgroup_room(void)
{
	return cgroup_room;
}

/* No look for devices finds it, and its row is like one of theirs. */
static void check_row(void)
{
	struct slot *a = fixture_join(fixture_tenant("row"));
	struct ledger *l = slot_ledger(a), *reader;
	struct ledger_device_info info;
	int host;

	CHECK_EQ(ledger_host_info(l, &info), -ENODEV);
	CHECK_EQ(ledger_open(l->dir, LEDGER_READ, &reader), 0);
	CHECK_EQ(ledger_host(reader), -ENODEV);
	host = ledger_host(l);
	CHECK(host > 0);
	CHECK_EQ(ledger_host(l), host);
	CHECK_EQ(ledger_device_info(l, 1, &info), -ENODEV);
	CHECK_EQ(ledger_device_info(l, host, &info), -ENODEV);
	CHECK_EQ(ledger_device(l, (const uint8_t *)"device-1 (uuid)", 0), 1);
	CHECK_EQ(quota_reserve(a, host, 6 * MIB, 10 * MIB), 0);
	quota_commit(a, host, 6 * MIB, (enum category)HOST_USERPTR, 6 * MIB);
	CHECK_EQ(quota_reserve(a, host, 5 * MIB, 10 * MIB), -EDQUOT);
	CHECK_EQ(quota_reserve_slow(a, host, 5 * MIB, 10 * MIB), -EDQUOT);
	CHECK_EQ(ledger_host_info(l, &info), host);
	CHECK_EQ(info.refusals, 1);
	CHECK_EQ(ledger_refresh(reader), 0);
	CHECK_EQ(ledger_host(reader), host);
	CHECK_EQ(quota_used(reader, host), 6 * MIB);
	ledger_close(reader);
	/* A reader's memory is used again: nothing of the last one may be in it. */
	CHECK_EQ(ledger_open(fixture_tenant("other"), LEDGER_READ, &reader), 0);
	CHECK_EQ(quota_used(reader, host), 0);
	ledger_close(reader);
	ledger_close(l);
}

static void check_limit(void)
{
	struct slot *a = fixture_join(fixture_tenant("limit"));
	struct ledger *l = slot_ledger(a);
	uint64_t said = 512 * MIB;
	int host = ledger_host(l);

	machine_room = GIB;
	cgroup_room = 64 * MIB;
	CHECK_EQ(quota_host_limit(l, host, said, HOST_GTT), 512 * MIB);
	CHECK_EQ(quota_host_limit(l, host, said, HOST_USERPTR), 512 * MIB);
	said = 0;
	CHECK_EQ(quota_host_limit(l, host, said, HOST_USERPTR), UINT64_MAX);
	CHECK_EQ(quota_host_limit(l, host, said, HOST_GTT), 64 * MIB);
	/* What the tenant has is free no more, in either: what is free comes on top. */
	quota_charge(a, host, (enum category)HOST_USERPTR, 100 * MIB);
	CHECK_EQ(quota_host_limit(l, host, said, HOST_GTT), 164 * MIB);
	quota_charge(a, host, (enum category)HOST_GTT, 64 * MIB);
	CHECK_EQ(quota_host_limit(l, host, said, HOST_GTT), 228 * MIB);
	/* What is asked for and not there yet is to come out of what is free. */
	quota_publish(a, host, 60 * MIB);
	CHECK_EQ(quota_host_limit(l, host, said, HOST_GTT), 228 * MIB);
	CHECK_EQ(quota_reserve(a, host, 5 * MIB, quota_host_limit(l, host, said, HOST_GTT)),
		 -EDQUOT);
	quota_cancel(a, host, 60 * MIB);
	cgroup_room = UINT64_MAX;
	CHECK_EQ(quota_host_limit(l, host, said, HOST_GTT), GIB + 164 * MIB);
	machine_room = 0; /* nothing is free */
	CHECK_EQ(quota_host_limit(l, host, said, HOST_GTT), 164 * MIB);
	machine_tells = false;
	CHECK_EQ(quota_host_limit(l, host, said, HOST_GTT), UINT64_MAX);
	ledger_close(l);
}

/* With as many GPUs as there are places none is left for it, and the last GPU's is one of theirs.
 */
static void check_full(void)
{
	struct slot *a = fixture_join(fixture_tenant("full"));
	struct ledger *l = slot_ledger(a), *reader;
	char uuid[17];

	for (int i = 1; i < LEDGER_DEVICES; i++) {
		snprintf(uuid, sizeof(uuid), "device%02d (uuid) ", i);
		CHECK_EQ(ledger_device(l, (const uint8_t *)uuid, GIB), i);
	}
	CHECK_EQ(ledger_host(l), -ENOSPC);
	quota_charge(a, LEDGER_HOST, CAT_DATA, MIB);
	CHECK_EQ(ledger_open(l->dir, LEDGER_READ, &reader), 0);
	CHECK_EQ(quota_used(reader, LEDGER_HOST), MIB);
	CHECK_EQ(reader->most_devices, LEDGER_DEVICES);
	ledger_close(reader);
	ledger_close(l);
}

/* Living processes' alone, and what others hold of a dead one's. */
static void check_snapshot(void)
{
	const struct shared_key key = {{7, 7}};
	struct slot *a = fixture_join(fixture_tenant("snapshot"));
	struct ledger *l = slot_ledger(a);
	int host = ledger_host(l);
	struct snapshot *snapshot;
	pid_t pid = fork();

	if (pid == 0) {
		struct slot *b = fixture_join(l->dir);

		CHECK_EQ(ledger_host(slot_ledger(b)), host);
		quota_charge(b, host, (enum category)HOST_GTT, 50 * MIB);
		CHECK_EQ(shared_add(b, key, host, 20 * MIB, CAT_IMPORTED, SHARED_COVERED, GIB), 0);
		kill(getpid(), SIGSTOP);
		_exit(0);
	}
	CHECK_EQ(waitpid(pid, NULL, WUNTRACED), pid);
	CHECK_EQ(shared_device(l, key), host);
	CHECK_EQ(shared_add(a, key, host, 20 * MIB, CAT_IMPORTED, 0, GIB), 0);
	quota_charge(a, host, (enum category)HOST_USERPTR, MIB);
	quota_publish(a, host, 2 * MIB);
	CHECK_EQ(snapshot_read(l->dir, &snapshot), 0);
	CHECK(snapshot->host.known);
	CHECK_EQ(snapshot->ndevices, 1);
	CHECK_EQ(snapshot->host.limit_bytes, 0);
	CHECK_EQ(snapshot->host.gtt_bytes, 50 * MIB);
	CHECK_EQ(snapshot->host.userptr_bytes, MIB);
	CHECK_EQ(snapshot->host.used_bytes, 53 * MIB);
	CHECK_EQ(snapshot->host.peak_bytes, 51 * MIB);
	snapshot_free(snapshot);
	kill(pid, SIGKILL);
	fixture_wait(pid, SIGKILL);
	CHECK_EQ(snapshot_read(l->dir, &snapshot), 0);
	CHECK_EQ(snapshot->host.gtt_bytes, 20 * MIB);
	CHECK_EQ(snapshot->host.used_bytes, 23 * MIB);
	snapshot_free(snapshot);
	ledger_close(l);
}

int main(void)
{
	check_row();
	check_limit();
	check_full();
	check_snapshot();
	return 0;
}
