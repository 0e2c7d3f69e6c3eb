/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Arguments without sense, in a tenant with a quota: no call ends the program, nor gives it more
 * than the quota, and what is charged is what the machine has given. The argument is a program that
 * makes such calls by the thousand (test_sim_kfd_wild.c).
 */
#include <sys/mman.h>

#include "tests/sim/kfd_tenant.h"

#define ALLOC KFD_IOWR(ALLOC_MEMORY_OF_GPU, struct kfd_ioctl_alloc_memory_of_gpu_args)
#define MAP   KFD_IOWR(MAP_MEMORY_TO_GPU, struct kfd_ioctl_map_memory_to_gpu_args)

/* Two pages and one where nothing is; answers the end of the two. */
static char *edge(int protection)
{
	char *here =
		mmap(NULL, 3 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	CHECK(here != MAP_FAILED);
	CHECK_EQ(munmap(here + 2 * PAGE, PAGE), 0);
	CHECK_EQ(mprotect(here, 2 * PAGE, protection), 0);
	return here + 2 * PAGE;
}

static struct kfd_ioctl_alloc_memory_of_gpu_args some_memory(void)
{
	return (struct kfd_ioctl_alloc_memory_of_gpu_args){
		.va_addr = 1u << 30, .size = MIB, .gpu_id = ids[0], .flags = VRAM};
}

/* Blocks of which a part is not there, or cannot be written. */
static void test_edges(void)
{
	struct kfd_ioctl_alloc_memory_of_gpu_args a = some_memory();
	char *end = edge(PROT_READ | PROT_WRITE);

	for (size_t there = 0; there < sizeof(a); there++) {
		memcpy(end - there, &a, there);
		CHECK_EQ(call(ALLOC, end - there), -EFAULT);
	}
	CHECK_EQ(call(ALLOC, NULL), -EFAULT);
	CHECK_EQ(call(ALLOC, (void *)UINTPTR_MAX), -EFAULT);
	CHECK_EQ(call(ALLOC, (void *)(UINTPTR_MAX - 4095)), -EFAULT);
	CHECK_EQ(call(ALLOC, (char *)__builtin_frame_address(0) + (64 << 20)), -EFAULT);
	CHECK_EQ(charged(0), 0);

	/* Across a page, and not on the stack. */
	memcpy(end - PAGE - 20, &a, sizeof(a));
	CHECK_EQ(call(ALLOC, end - PAGE - 20), 0);
	memcpy(&a, end - PAGE - 20, sizeof(a));
	CHECK_EQ(charged(0), MIB);
	CHECK_EQ(free_memory(a.handle), 0);
	CHECK_EQ(charged(0), 0);
}

/* The kernel has given the memory by the time it cannot say so. */
static void test_read_only(void)
{
	struct kfd_ioctl_alloc_memory_of_gpu_args a = some_memory();
	char *end = edge(PROT_READ | PROT_WRITE);

	memcpy(end - sizeof(a), &a, sizeof(a));
	CHECK_EQ(mprotect(end - 2 * PAGE, 2 * PAGE, PROT_READ), 0);
	CHECK_EQ(call(ALLOC, end - sizeof(a)), -EFAULT);
	CHECK_EQ(charged(0), taken(0));
}

/* Arrays of GPUs that end in nothing. */
static void test_arrays(void)
{
	struct kfd_ioctl_map_memory_to_gpu_args a = {.n_devices = 1};
	uint32_t done = 0;
	char *end = edge(PROT_READ | PROT_WRITE);
	uint64_t handle;

	CHECK_EQ(alloc_vram(0, MIB, &handle), 0);
	memcpy(end - 4, &ids[0], 4);
	CHECK_EQ(map(handle, (uint32_t *)(void *)(end - 4), 2, &done), -EFAULT);
	CHECK_EQ(done, 0);
	a.handle = handle;
	a.device_ids_array_ptr = (uintptr_t)end - 2;
	CHECK_EQ(call(MAP, &a), -EFAULT);
	a.device_ids_array_ptr = (uintptr_t)end - 4;
	CHECK_EQ(call(MAP, &a), 0);
	CHECK_EQ(a.n_success, 1);
	CHECK_EQ(unmap(handle, (uint32_t *)(void *)(end - 4), 1), 0);
	CHECK_EQ(free_memory(handle), 0);
}

/*
 * A render node under the number that was the driver's, and a request of the driver's by whose
 * number alone the kernel would close a handle there.
 */
static void test_other_file(void)
{
	union drm_amdgpu_gem_create a = {
		.in = {.bo_size = MIB, .domains = AMDGPU_GEM_DOMAIN_VRAM}};
	struct kfd_ioctl_get_version_args version;
	struct drm_gem_close buffer;
	int was = dup(kfd);

	CHECK(was >= 0);
	CHECK_EQ(drm(render[0], _IOWR('d', DRM_NR_AMDGPU_GEM_CREATE, a), &a), 0);
	buffer = (struct drm_gem_close){.handle = a.out.handle};
	CHECK_EQ(call(KFD_IOWR(GET_VERSION, version), &version), 0);
	CHECK_EQ(dup2(render[0], kfd), kfd);
	CHECK_EQ(call(_IOW('K', KFD_NR_DESTROY_EVENT, buffer), &buffer), -EINVAL);
	CHECK_EQ(taken(0), MIB);
	CHECK_EQ(charged(0), MIB);
	CHECK_EQ(dup2(was, kfd), kfd);
	CHECK_EQ(close_handle(render[0], a.out.handle), 0);
	CHECK_EQ(charged(0), 0);
	CHECK_EQ(close(was), 0);
}

static void child_edges(int socket)
{
	open_devices();
	acquire_devices();
	test_edges();
	test_arrays();
	test_other_file();
	test_read_only();
}

int main(int argc, char **argv)
{
	int socket;
	pid_t child;

	CHECK(argc > 1);
	open_devices();
	acquire_devices();
	name_devices();
	end(start(child_edges, &socket), 0);
	for (int i = 0; i < GPUS; i++)
		bank_reset_peak(machine(), (uint32_t)i);
	child = fork();
	CHECK(child >= 0);
	if (!child) {
		execl(argv[1], argv[1], NULL);
		_exit(1);
	}
	end(child, 0);
	for (int i = 0; i < GPUS; i++) {
		CHECK(bank_peak(machine(), (uint32_t)i) <= QUOTA);
		check_all_free(i);
	}
	return 0;
}
