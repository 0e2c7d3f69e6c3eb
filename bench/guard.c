/* SPDX-License-Identifier: Apache-2.0 */
/*
 * guard [CALLS]: nanoseconds for an ioctl, as medians over batches of so many calls, one line of
 * JSON. Run bare and by `allot run --guard` with emulated AMD devices: see bench/run-guard. As bare
 * system calls:
 *
 *   not asked	a request whose number is none of the guard's: what the filter costs
 *   no device	one whose number is, for a file that is none of AMD's
 *   device	one that demands nothing of /dev/kfd, which is judged and let through
 *   take, give	memory of a GPU, with the ledger; the emulator's own work is in it
 */
#include <stdint.h>
#include <stdio.h>

#include "amd/abi/kfd.h"
#include "amd/kfd_ioctl.h"
#include "bench/batch.h"
#include "tests/e2e/guard/bare.h"

#define BATCHES 51
#define ITEMS	4
#define GPU_ID	10111 /* of the first emulated device */

static int kfd, null;

static void guard_not_asked(void)
{
	bare_ioctl(null, _IO('K', KFD_NR_GET_VERSION), NULL);
}

static void guard_no_device(void)
{
	bare_ioctl(null, _IO('K', KFD_NR_SVM), NULL);
}

static void guard_device(void)
{
	struct kfd_ioctl_free_memory_of_gpu_args a = {UINT64_MAX};

	bare_ioctl(kfd, _IOW('K', KFD_NR_FREE_MEMORY_OF_GPU, a), &a);
}

/* And gives it back, which is a second ioctl. */
static void guard_take(void)
{
	struct kfd_ioctl_alloc_memory_of_gpu_args a = {
		.size = 4096, .gpu_id = GPU_ID, .flags = KFD_IOC_ALLOC_MEM_FLAGS_VRAM};
	struct kfd_ioctl_free_memory_of_gpu_args f;

	if (bare_ioctl(kfd, _IOWR('K', KFD_NR_ALLOC_MEMORY_OF_GPU, a), &a) < 0)
		return;
	f.handle = a.handle;
	bare_ioctl(kfd, _IOW('K', KFD_NR_FREE_MEMORY_OF_GPU, f), &f);
}

int main(int argc, char **argv)
{
	int calls = batch_count(argc, argv, 100, 1000000);
	const struct batch_item items[] = {
		{"not asked", guard_not_asked, calls, 1},
		{"no device", guard_no_device, calls, 1},
		{"device", guard_device, calls, 1},
		{"take, give", guard_take, calls, 2},
	};
	double ns[ITEMS];

	kfd = open_device("kfd");
	null = open("/dev/null", O_RDWR | O_CLOEXEC);
	if (kfd < 0 || null < 0 || !calls || batch_measure(items, ITEMS, BATCHES, ns) < 0)
		return 1;
	batch_print(items, ITEMS, ns);
	return 0;
}
