/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For test programs in a tenant with emulated AMD GPUs: what the tenant's ledger says beside what
 * the emulated machine counts. They run by `allot sim --amd 3 --memory 256MiB -- allot run --memory
 * 64MiB --`, so that it is the quota that refuses.
 */
#ifndef ALLOT_TESTS_SIM_KFD_TENANT_H
#define ALLOT_TESTS_SIM_KFD_TENANT_H

#include <stdlib.h>
#include <string.h>

#include "amd/identity.h"
#include "amd/topology_read.h"
#include "ledger/reader/snapshot.h"
#include "sim/kfd/bank.h"
#include "tests/sim/kfd_program.h"

#define QUOTA (64 * MIB)
#define PAGE  UINT64_C(4096)

static uint8_t uuids[GPUS][16];

/* Of the GPUs in the order of their render nodes: after open_devices. */
static inline void name_devices(void)
{
	struct topology_complaint complaint;
	struct topology *t;
	int n = 0;

	CHECK_EQ(topology_read(NULL, &t, &complaint), 0);
	for (uint32_t i = 0; i < t->node_count; i++) {
		if (!t->nodes[i].gpu_id)
			continue;
		CHECK_EQ(t->nodes[i].gpu_id, ids[n]);
		amd_identity(&t->nodes[i], uuids[n++]);
	}
	CHECK_EQ(n, GPUS);
	topology_free(t);
}

/* What the ledger says of a GPU. */
static inline struct snapshot_device device_view(int gpu)
{
	struct snapshot *snapshot;
	struct snapshot_device found = {.index = -1};

	CHECK_EQ(snapshot_read(getenv("ALLOT_TENANT_DIR"), &snapshot), 0);
	for (int i = 0; i < snapshot->ndevices; i++)
		if (!memcmp(snapshot->device[i].uuid, uuids[gpu], sizeof(uuids[gpu])))
			found = snapshot->device[i];
	snapshot_free(snapshot);
	return found;
}

/* The same of the machine's memory that GPUs have. */
static inline struct snapshot_host host_view(void)
{
	struct snapshot *snapshot;
	struct snapshot_host found;

	CHECK_EQ(snapshot_read(getenv("ALLOT_TENANT_DIR"), &snapshot), 0);
	found = snapshot->host;
	snapshot_free(snapshot);
	return found;
}

/* Charged to the tenant, for its living processes. */
static inline uint64_t charged(int gpu)
{
	return device_view(gpu).used_bytes;
}

/* What the machine counts, whatever the tenant is told. */
static inline struct bank *machine(void)
{
	static struct bank *bank;
	char root[256];

	snprintf(root, sizeof(root), "%s/amd", getenv("ALLOT_SIM_DIR"));
	if (!bank)
		CHECK_EQ(bank_open(root, &bank), 0);
	return bank;
}

static inline uint64_t taken(int gpu)
{
	return bank_used(machine(), (uint32_t)gpu, VRAM);
}

/* All of the quota can be had, and no more. */
static inline void check_all_free(int gpu)
{
	uint64_t handle;

	CHECK_EQ(charged(gpu), 0);
	CHECK_EQ(taken(gpu), 0);
	CHECK_EQ(alloc_vram(gpu, QUOTA, &handle), 0);
	CHECK_EQ(free_memory(handle), 0);
	CHECK_EQ(alloc_vram(gpu, QUOTA + PAGE, &handle), -ENOMEM);
}

#endif
