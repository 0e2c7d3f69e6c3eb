/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program's own memory on emulated AMD GPUs, in a tenant with a quota: charged where it is
 * fetched to or may go, page for page, and free when it is unmapped.
 */
#include <sys/mman.h>

#include "tests/sim/kfd_tenant.h"

#define PREFERRED KFD_IOCTL_SVM_ATTR_PREFERRED_LOC
#define PREFETCH  KFD_IOCTL_SVM_ATTR_PREFETCH_LOC
#define NOWHERE	  UINT32_MAX

static int set_both(char *at, uint64_t size, struct kfd_ioctl_svm_attribute one,
		    struct kfd_ioctl_svm_attribute two)
{
	struct kfd_ioctl_svm_attribute both[] = {one, two};

	return svm_set(at, size, 2, both);
}

static int set(char *at, uint64_t size, uint32_t type, uint32_t value)
{
	struct kfd_ioctl_svm_attribute a = {type, value};

	return svm_set(at, size, 1, &a);
}

static char *memory_at(char *at, uint64_t size)
{
	char *here = mmap(at, size, PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS | (at ? MAP_FIXED : 0), -1, 0);

	CHECK(here != MAP_FAILED);
	return here;
}

static void test_limit(void)
{
	char *here = memory_at(NULL, 2 * QUOTA);

	CHECK_EQ(set(here, 2 * QUOTA, PREFETCH, ids[0]), -ENOMEM);
	CHECK_EQ(set(here, 2 * QUOTA, PREFERRED, ids[0]), -ENOMEM);
	CHECK_EQ(charged(0), 0);
	CHECK_EQ(taken(0), 0);
	CHECK_EQ(set(here, QUOTA, PREFETCH, ids[0]), 0);
	CHECK_EQ(charged(0), QUOTA);
	CHECK_EQ(taken(0), QUOTA);
	CHECK_EQ(set(here, QUOTA, PREFETCH, ids[0]), 0); /* it is there already */
	CHECK_EQ(set(here + PAGE, QUOTA, PREFETCH, ids[0]), -ENOMEM);
	CHECK_EQ(charged(0), QUOTA);
	CHECK_EQ(set(here, QUOTA, PREFETCH, 0), 0);
	CHECK_EQ(munmap(here, 2 * QUOTA), 0);
	check_all_free(0);
}

/* Parts of ranges, from one GPU to another and back to the host. */
static void test_parts(void)
{
	char *here = memory_at(NULL, 16 * MIB);

	CHECK_EQ(set(here, 16 * MIB, PREFETCH, ids[0]), 0);
	CHECK_EQ(set(here + 4 * MIB, 8 * MIB, PREFETCH, ids[1]), 0);
	CHECK_EQ(charged(0), 8 * MIB);
	CHECK_EQ(charged(1), 8 * MIB);
	CHECK_EQ(set(here + 2 * MIB, 4 * MIB, PREFETCH, 0), 0);
	CHECK_EQ(charged(0), 6 * MIB);
	CHECK_EQ(charged(1), 6 * MIB);
	CHECK_EQ(taken(0), 6 * MIB);
	CHECK_EQ(taken(1), 6 * MIB);
	/* Where the next GPU is only preferred it may be with either. */
	CHECK_EQ(set(here, MIB, PREFERRED, ids[1]), 0);
	CHECK_EQ(charged(0), 6 * MIB);
	CHECK_EQ(charged(1), 7 * MIB);
	CHECK_EQ(set_both(here, 16 * MIB, (struct kfd_ioctl_svm_attribute){PREFERRED, NOWHERE},
			  (struct kfd_ioctl_svm_attribute){PREFETCH, 0}),
		 0);
	CHECK_EQ(munmap(here, 16 * MIB), 0);
	check_all_free(0);
	check_all_free(1);
}

/* What the kernel refuses is charged as before. */
static void test_refused(void)
{
	char *here = memory_at(NULL, 2 * MIB);

	CHECK_EQ(set(here, MIB, PREFETCH, ids[0]), 0);
	CHECK_EQ(set(here + 1, MIB, PREFETCH, ids[1]), -EINVAL);
	CHECK_EQ(set(here, MIB, PREFETCH, 4711), -EINVAL);
	CHECK_EQ(set(here, 0, PREFETCH, ids[0]), -EINVAL);
	available(0); /* a sweep finds all of it still there */
	CHECK_EQ(charged(0), MIB);
	CHECK_EQ(munmap(here + MIB, MIB), 0);
	CHECK_EQ(set(here, 2 * MIB, PREFETCH, ids[1]), -EFAULT);
	CHECK_EQ(charged(0), MIB);
	CHECK_EQ(charged(1), 0);
	CHECK_EQ(set(here, MIB, PREFETCH, 0), 0);
	CHECK_EQ(munmap(here, MIB), 0);
	check_all_free(0);
}

/* Found out when it is needed, also if there is other memory at its address by then. */
static void test_unmapped(void)
{
	char *here = memory_at(NULL, QUOTA);
	uint64_t handle;

	CHECK_EQ(set(here, QUOTA, PREFETCH, ids[0]), 0);
	CHECK_EQ(munmap(here + 8 * MIB, 16 * MIB), 0);
	memory_at(here + 16 * MIB, MIB);
	CHECK_EQ(charged(0), QUOTA);
	CHECK_EQ(alloc_vram(0, 16 * MIB + PAGE, &handle), -ENOMEM);
	CHECK_EQ(charged(0), QUOTA - 16 * MIB);
	CHECK_EQ(alloc_vram(0, 16 * MIB, &handle), 0);
	CHECK_EQ(free_memory(handle), 0);
	CHECK_EQ(munmap(here, QUOTA), 0);
	CHECK_EQ(alloc_vram(0, QUOTA, &handle), 0);
	CHECK_EQ(free_memory(handle), 0);
	check_all_free(0);
}

/* Fills what is free above, so that the next page that anybody maps lies at the hole's end. */
static void make_next_mapping_lie_in(char *hole, uint64_t size)
{
	char *page;

	do {
		page = mmap(NULL, PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		CHECK(page != MAP_FAILED);
	} while (page < hole || page >= hole + size);
	CHECK(page == hole + size - PAGE);
	CHECK_EQ(munmap(page, PAGE), 0);
}

/* What the search itself maps, at the edge of memory that is there, is not the program's. */
static void test_unmapped_where_we_map(void)
{
	char *here = memory_at(NULL, QUOTA);
	uint64_t handle;

	CHECK_EQ(set(here, QUOTA, PREFETCH, ids[0]), 0);
	CHECK_EQ(munmap(here + 8 * MIB, 16 * MIB), 0);
	make_next_mapping_lie_in(here + 8 * MIB, 16 * MIB);
	CHECK_EQ(alloc_vram(0, 16 * MIB + PAGE, &handle), -ENOMEM);
	CHECK_EQ(charged(0), QUOTA - 16 * MIB);
	CHECK_EQ(munmap(here, 8 * MIB), 0);
	CHECK_EQ(munmap(here + 24 * MIB, QUOTA - 24 * MIB), 0);
	CHECK_EQ(available(0), QUOTA);
	check_all_free(0);
}

static void take_and_give(uint64_t size)
{
	uint64_t handle;

	CHECK_EQ(alloc_vram(0, size, &handle), 0);
	CHECK_EQ(free_memory(handle), 0);
}

/* Found out at once, however large it was, and not only by who is refused. */
static void test_mapped_anew(void)
{
	char *here = memory_at(NULL, QUOTA);

	CHECK_EQ(set(here, QUOTA, PREFETCH, ids[0]), 0);
	CHECK_EQ(munmap(here, QUOTA), 0);
	memory_at(here, QUOTA);
	take_and_give(QUOTA);
	CHECK_EQ(set(here, QUOTA, PREFETCH, ids[0]), 0);
	CHECK_EQ(available(0), 0);
	CHECK_EQ(munmap(here, QUOTA), 0);
	memory_at(here, QUOTA);
	CHECK_EQ(available(0), QUOTA);
	CHECK_EQ(charged(0), 0);
	/* ... and of parts. */
	CHECK_EQ(set(here, QUOTA, PREFETCH, ids[0]), 0);
	CHECK_EQ(munmap(here + 8 * MIB, 16 * MIB), 0);
	memory_at(here + 8 * MIB, 16 * MIB);
	CHECK_EQ(available(0), 16 * MIB);
	CHECK_EQ(charged(0), QUOTA - 16 * MIB);
	CHECK_EQ(taken(0), QUOTA - 16 * MIB);
	CHECK_EQ(munmap(here, QUOTA), 0);
	CHECK_EQ(available(0), QUOTA);
	check_all_free(0);
}

/* A part that has no place any more says nothing of the rest. */
static void test_parts_without_a_place(void)
{
	char *here = memory_at(NULL, QUOTA);
	uint64_t handle;

	CHECK_EQ(set(here, QUOTA, PREFERRED, ids[0]), 0);
	CHECK_EQ(set(here + 16 * MIB, 16 * MIB, PREFERRED, NOWHERE), 0);
	CHECK_EQ(charged(0), QUOTA);
	CHECK_EQ(available(0), 16 * MIB);
	CHECK_EQ(alloc_vram(0, 16 * MIB + PAGE, &handle), -ENOMEM);
	take_and_give(16 * MIB);
	CHECK_EQ(munmap(here, QUOTA), 0);
	CHECK_EQ(available(0), QUOTA);
	check_all_free(0);
}

static void test_others(void)
{
	struct kfd_ioctl_set_xnack_mode_args xnack = {.xnack_enabled = 1};
	struct kfd_ioctl_criu_args criu = {.op = KFD_CRIU_OP_RESTORE};

	CHECK_EQ(call(KFD_IOWR(SET_XNACK_MODE, xnack), &xnack), -EPERM);
	CHECK_EQ(call(KFD_IOWR(CRIU_OP, criu), &criu), -EACCES);
}

/* A call that fails after it may have begun: the memory may be where it was, or on its way. */
static void test_failed(void)
{
	char *here = memory_at(NULL, MIB);

	CHECK_EQ(set(here, MIB, PREFETCH, ids[0]), 0);
	CHECK_EQ(set(here, MIB, PREFETCH, ids[1]), -EIO);
	CHECK_EQ(taken(0), MIB);
	CHECK_EQ(charged(0), MIB);
	CHECK_EQ(charged(1), MIB);
	CHECK_EQ(set(here, MIB, PREFETCH, 0), 0);
	CHECK_EQ(munmap(here, MIB), 0);
	check_all_free(0);
	check_all_free(1);
}

static int xnack_mode(int mode)
{
	struct kfd_ioctl_set_xnack_mode_args a = {.xnack_enabled = mode};

	CHECK_EQ(call(KFD_IOWR(SET_XNACK_MODE, a), &a), 0);
	return a.xnack_enabled;
}

/* On GPUs where processes begin with it on, too; in a child as well. */
static void test_xnack_from_the_start(void)
{
	pid_t child;

	for (int i = 0; i < 2; i++) {
		open_devices();
		CHECK_EQ(xnack_mode(-1), 0);
		child = fork();
		CHECK(child >= 0);
		if (child) {
			end(child, 0);
			return;
		}
	}
	_exit(0);
}

static void run_with_xnack(const char *program)
{
	pid_t child = fork();

	CHECK(child >= 0);
	if (!child) {
		setenv("ALLOT_SIM_AMD_XNACK", "1", 1);
		execl(program, program, "xnack", "on", NULL);
		_exit(1);
	}
	end(child, 0);
}

int main(int argc, char **argv)
{
	if (argc > 2) {
		test_xnack_from_the_start();
		return 0;
	}
	open_devices();
	acquire_devices();
	name_devices();
	if (argc > 1) {
		test_failed();
		return 0;
	}
	test_limit();
	test_parts();
	test_refused();
	test_unmapped();
	test_unmapped_where_we_map();
	test_mapped_anew();
	test_parts_without_a_place();
	test_others();
	run_with_xnack(argv[0]);
	run_on_older_kernel(argv[0], "EXPORT_DMABUF", "SVM:EIO:1:1");
	return 0;
}
