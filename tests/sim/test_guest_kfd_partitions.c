/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A board in three partitions, which have its unique id and its place: a tenant has each of them with a
 * quota of its own, or the last one alone.
 *
 *     test_guest_kfd_partitions all|last
 */
#include <stdlib.h>
#include <string.h>

#include "tests/sim/kfd_program.h"

static const uint64_t quota[GPUS] = {32 * MIB, 16 * MIB, 8 * MIB};

/* All of its quota, and no page more. */
static void fill(int gpu)
{
	uint64_t handle, more;

	CHECK_EQ(available(gpu), quota[gpu]);
	CHECK_EQ(alloc_vram(gpu, quota[gpu], &handle), 0);
	CHECK_EQ(alloc_vram(gpu, 4096, &more), -ENOMEM);
	CHECK_EQ(available(gpu), 0);
}

static void run_all(void)
{
	open_devices();
	acquire_devices();
	for (int i = GPUS - 1; i >= 0; i--)
		fill(i);
}

/* As a GPU of another board that the tenant does not have. */
static void run_last(void)
{
	const int last = GPUS - 1;
	struct kfd_ioctl_acquire_vm_args a;

	CHECK_EQ(open("/dev/dri/renderD129", O_RDWR | O_CLOEXEC), -1);
	CHECK_EQ(open("/dev/dri/renderD130", O_RDWR | O_CLOEXEC), -1);
	kfd = open("/dev/kfd", O_RDWR | O_CLOEXEC);
	render[last] = open("/dev/dri/renderD131", O_RDWR | O_CLOEXEC);
	CHECK(kfd >= 0 && render[last] >= 0);
	ids[last] = 10111 + 111 * (uint32_t)last;
	a = (struct kfd_ioctl_acquire_vm_args){(uint32_t)render[last], ids[last]};
	CHECK_EQ(call(_IOW('K', KFD_NR_ACQUIRE_VM, a), &a), 0);
	fill(last);
}

int main(int argc, char *argv[])
{
	CHECK_EQ(argc, 2);
	if (!strcmp(argv[1], "all"))
		run_all();
	else
		run_last();
	return 0;
}
