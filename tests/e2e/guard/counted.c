/* SPDX-License-Identifier: Apache-2.0 */
/*
 * counted: a guarded program that counts for itself in the tenant's ledger, as the library does,
 * and then takes memory beside that. Its ioctls are bare system calls, which the guard sees.
 */
#include <errno.h>
#include <stdint.h>

#include "amd/abi/kfd.h"
#include "amd/identity.h"
#include "amd/kfd_ioctl.h"
#include "amd/topology_read.h"
#include "ledger/ledger.h"
#include "ledger/quota.h"
#include "ledger/slot.h"
#include "tests/check.h"
#include "tests/e2e/guard/bare.h"

#define MIB   (UINT64_C(1) << 20)
#define LIMIT (64 * MIB)

static struct ledger *ledger;
static struct slot *slot;
static uint32_t gpu_id;
static int device, kfd;

static void join(void)
{
	struct topology_complaint complaint;
	const struct topology_node *node;
	struct topology *topology;
	uint8_t uuid[16];

	CHECK_EQ(topology_read(NULL, &topology, &complaint), 0);
	node = topology->nodes;
	while (!node->gpu_id)
		node++;
	gpu_id = node->gpu_id;
	amd_identity(node, uuid);
	CHECK_EQ(ledger_open(getenv("ALLOT_TENANT_DIR"), LEDGER_GUEST, &ledger), 0);
	CHECK_EQ(slot_claim(ledger, &slot), 0);
	device = ledger_device(ledger, uuid, topology_vram_bytes(node));
	CHECK(device >= 0);
	topology_free(topology);
}

static long take(uint64_t bytes)
{
	struct kfd_ioctl_alloc_memory_of_gpu_args a = {
		.size = bytes, .gpu_id = gpu_id, .flags = KFD_IOC_ALLOC_MEM_FLAGS_VRAM};
	long r = bare_ioctl(kfd, _IOWR('K', KFD_NR_ALLOC_MEMORY_OF_GPU, a), &a);

	return r < 0 ? r : (long)a.handle;
}

static long give(long handle)
{
	struct kfd_ioctl_free_memory_of_gpu_args a = {(uint64_t)handle};

	return bare_ioctl(kfd, _IOW('K', KFD_NR_FREE_MEMORY_OF_GPU, a), &a);
}

/* As a hook does: reserve, ask, commit. */
static long take_counted(uint64_t bytes)
{
	long handle;
	int r = quota_reserve(slot, device, bytes, LIMIT);

	if (r == -EDQUOT)
		r = quota_reserve_slow(slot, device, bytes, LIMIT);
	if (r < 0)
		return r;
	handle = take(bytes);
	if (handle < 0)
		quota_cancel(slot, device, bytes);
	else
		quota_commit(slot, device, bytes, CAT_DATA, bytes);
	return handle;
}

static void give_counted(long handle, uint64_t bytes)
{
	CHECK_EQ(give(handle), 0);
	quota_release(slot, device, CAT_DATA, bytes);
}

/* What the guard counts goes down when it has looked: wait for that, not for long. */
static void settle(uint64_t bytes)
{
	for (int i = 0; i < 500 && quota_used(ledger, device) != bytes; i++)
		usleep(10000);
	CHECK_EQ(quota_used(ledger, device), bytes);
}

int main(void)
{
	long first, second, third;

	join();
	kfd = open_device("kfd");
	first = take_counted(48 * MIB);
	CHECK(first > 0);
	CHECK_EQ(quota_used(ledger, device), 48 * MIB); /* once */
	/* All of it is there already, as far as it says. The emulator plays it no further. */
	CHECK_EQ(bare_fetch(kfd, gpu_id, 48 * MIB), -ENOTTY);
	second = take(16 * MIB);
	CHECK(second > 0);
	CHECK_EQ(quota_used(ledger, device), LIMIT);
	CHECK_EQ(take(4096), -ENOMEM);
	CHECK_EQ(take_counted(4096), -EDQUOT);
	CHECK_EQ(give(second), 0);
	settle(48 * MIB);
	third = take_counted(16 * MIB);
	CHECK(third > 0);
	CHECK_EQ(quota_used(ledger, device), LIMIT);
	CHECK_EQ(take(4096), -ENOMEM);
	for (int i = 0; i < 200; i++) { /* never twice, whatever is under way */
		give_counted(third, 16 * MIB);
		third = take_counted(16 * MIB);
		CHECK(third > 0);
	}
	give_counted(first, 48 * MIB);
	give_counted(third, 16 * MIB);
	settle(0);
	ledger_close(ledger);
	return 0;
}
