/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An emulated GPU that is one chip with the CPU, in a tenant with a quota: memory of the machine that the
 * driver allocates for it is the GPU's, and counts once.
 */
#include <sys/mman.h>

#include "tests/sim/kfd_tenant.h"

#define GTT	KFD_IOC_ALLOC_MEM_FLAGS_GTT
#define USERPTR KFD_IOC_ALLOC_MEM_FLAGS_USERPTR
#define SIZE	(16 * MIB)

#define DRM_IOWR(name, type) _IOWR('d', DRM_NR_##name, type)
#define BOTH (AMDGPU_GEM_DOMAIN_VRAM | AMDGPU_GEM_DOMAIN_GTT)

static int create(uint64_t size, uint64_t domains, uint32_t *ret_handle)
{
	union drm_amdgpu_gem_create a = {.in = {.bo_size = size, .domains = domains}};
	int r = drm(render[0], DRM_IOWR(AMDGPU_GEM_CREATE, a), &a);

	*ret_handle = a.out.handle;
	return r;
}

static void test_memory(void)
{
	uint64_t handle, more;

	CHECK_EQ(alloc_flags(0, QUOTA + PAGE, GTT, &handle, NULL), -ENOMEM);
	CHECK_EQ(alloc_flags(0, QUOTA, GTT, &handle, NULL), 0);
	CHECK_EQ(charged(0), QUOTA);
	CHECK_EQ(host_view().used_bytes, 0);
	CHECK_EQ(alloc_vram(0, PAGE, &more), -ENOMEM);
	CHECK_EQ(free_memory(handle), 0);
	check_all_free(0);
}

static void test_buffers(void)
{
	struct drm_amdgpu_gem_op place = {.op = AMDGPU_GEM_OP_SET_PLACEMENT,
					  .value = AMDGPU_GEM_DOMAIN_GTT};
	uint32_t buffer, host_buffer, more;

	CHECK_EQ(create(SIZE, BOTH, &buffer), 0);
	CHECK_EQ(charged(0), SIZE);
	CHECK_EQ(create(QUOTA - SIZE, AMDGPU_GEM_DOMAIN_GTT, &host_buffer), 0);
	CHECK_EQ(charged(0), QUOTA);
	CHECK_EQ(create(PAGE, AMDGPU_GEM_DOMAIN_VRAM, &more), -ENOMEM);
	place.handle = buffer;
	CHECK_EQ(drm(render[0], DRM_IOWR(AMDGPU_GEM_OP, place), &place), 0);
	CHECK_EQ(charged(0), QUOTA);
	CHECK_EQ(host_view().used_bytes, 0);
	CHECK_EQ(close_handle(render[0], host_buffer), 0);
	CHECK_EQ(close_handle(render[0], buffer), 0);
	check_all_free(0);
}

/* The program's own pages are not the driver's. */
static void test_userptr(void)
{
	uint64_t handle, offset = (uintptr_t)mmap(NULL, SIZE, PROT_READ | PROT_WRITE,
						  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	CHECK_EQ(alloc_at(0, 1u << 30, SIZE, USERPTR, &handle, &offset), 0);
	CHECK_EQ(charged(0), 0);
	CHECK_EQ(host_view().userptr_bytes, SIZE);
	CHECK_EQ(free_memory(handle), 0);
	CHECK_EQ(host_view().used_bytes, 0);
}

/* Its importer is charged with it as with a GPU's memory, once. */
static void test_shared(void)
{
	struct drm_prime_handle in = {.handle = 0};
	uint64_t handle;

	CHECK_EQ(alloc_flags(0, SIZE, GTT, &handle, NULL), 0);
	in.fd = export_memory(handle);
	CHECK_EQ(drm(render[0], DRM_IOWR(PRIME_FD_TO_HANDLE, in), &in), 0);
	close(in.fd);
	CHECK_EQ(charged(0), SIZE);
	CHECK_EQ(free_memory(handle), 0);
	CHECK_EQ(charged(0), SIZE);
	CHECK_EQ(close_handle(render[0], in.handle), 0);
	check_all_free(0);
}

/* Without a quota: what the firmware carved out for it and the kernel's GTT, 256 MiB each. */
static void test_whole(void)
{
	uint64_t handle[2], more;

	CHECK_EQ(alloc_vram(0, 200 * MIB, &handle[0]), 0);
	CHECK_EQ(alloc_flags(0, 312 * MIB, GTT, &handle[1], NULL), 0);
	CHECK_EQ(alloc_flags(0, PAGE, GTT, &more, NULL), -ENOMEM);
	CHECK_EQ(charged(0), 512 * MIB);
	CHECK_EQ(device_view(0).limit_bytes, 512 * MIB);
	CHECK_EQ(free_memory(handle[0]), 0);
	CHECK_EQ(free_memory(handle[1]), 0);
}

int main(int argc, char *argv[])
{
	open_devices();
	acquire_devices();
	name_devices();
	if (argc > 1) {
		test_whole();
		return 0;
	}
	test_memory();
	test_buffers();
	test_userptr();
	test_shared();
	return 0;
}
