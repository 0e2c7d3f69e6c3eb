/* SPDX-License-Identifier: Apache-2.0 */
/*
 * guard [CALLS]: microseconds for an ioctl, as medians over batches, one line of JSON. Run bare and
 * by `allot run --guard` with emulated AMD devices: see bench/run-guard. As bare system calls:
 *
 *   not asked	a request whose number is none of the guard's: what the filter costs
 *   no device	one whose number is, for a file that is none of AMD's
 *   device	one that demands nothing of /dev/kfd, which is judged and let through
 *   take, give	memory of a GPU, with the ledger; the emulator's own work is in it
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "amd/abi/kfd.h"
#include "amd/kfd_ioctl.h"
#include "tests/e2e/guard/bare.h"

#define BATCHES 51
#define GPU_ID	10111 /* of the first emulated device */

static int kfd, null;

static double now_us(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

static void not_asked(void)
{
	bare_ioctl(null, _IO('K', KFD_NR_GET_VERSION), NULL);
}

static void no_device(void)
{
	bare_ioctl(null, _IO('K', KFD_NR_SVM), NULL);
}

static void device(void)
{
	struct kfd_ioctl_free_memory_of_gpu_args a = {UINT64_MAX};

	bare_ioctl(kfd, _IOW('K', KFD_NR_FREE_MEMORY_OF_GPU, a), &a);
}

/* And gives it back, which is an ioctl of its own. */
static void take(void)
{
	struct kfd_ioctl_alloc_memory_of_gpu_args a = {
		.size = 4096, .gpu_id = GPU_ID, .flags = KFD_IOC_ALLOC_MEM_FLAGS_VRAM};
	struct kfd_ioctl_free_memory_of_gpu_args f;

	if (bare_ioctl(kfd, _IOWR('K', KFD_NR_ALLOC_MEMORY_OF_GPU, a), &a) < 0)
		return;
	f.handle = a.handle;
	bare_ioctl(kfd, _IOW('K', KFD_NR_FREE_MEMORY_OF_GPU, f), &f);
}

static const struct item {
	const char *name;
	void (*call)(void);
	int ioctls;
} items[] = {
	{"not asked", not_asked, 1},
	{"no device", no_device, 1},
	{"device", device, 1},
	{"take, give", take, 2},
};

static int ascending(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static double median_us(const struct item *item, int calls)
{
	double us[BATCHES];

	for (int b = 0; b < BATCHES; b++) {
		double began = now_us();

		for (int c = 0; c < calls; c++)
			item->call();
		us[b] = (now_us() - began) / (calls * item->ioctls);
	}
	qsort(us, BATCHES, sizeof(us[0]), ascending);
	return us[BATCHES / 2];
}

int main(int argc, char **argv)
{
	int calls = argc > 1 ? atoi(argv[1]) : 100;

	kfd = open_device("kfd");
	null = open("/dev/null", O_RDWR | O_CLOEXEC);
	if (kfd < 0 || null < 0 || calls < 1)
		return 1;
	for (size_t i = 0; i < sizeof(items) / sizeof(items[0]); i++)
		printf("%s\"%s\": %.3f", i ? ", " : "{", items[i].name,
		       median_us(&items[i], calls));
	printf("}\n");
	return 0;
}
