/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A process whose main thread has ended while others go on: /proc/<pid> tells nothing of its files
 * and mappings then, and what it holds stays charged to its tenant.
 */
#include <pthread.h>
#include <sys/mman.h>

#include "tests/files.h"
#include "tests/sim/kfd_tenant.h"

static pthread_t main_thread;

static void check_refused(void)
{
	uint64_t handle;

	CHECK_EQ(alloc_vram(0, PAGE, &handle), -ENOMEM);
	CHECK_EQ(charged(0), QUOTA);
}

/* What is gone is found out when it is needed. */
static void check_gone(void)
{
	uint64_t handle;

	CHECK_EQ(alloc_vram(0, QUOTA, &handle), 0);
	CHECK_EQ(free_memory(handle), 0);
	CHECK_EQ(charged(0), 0);
}

/* Neither call's block is on a stack. */
static void test_descriptor(void)
{
	static struct kfd_ioctl_alloc_memory_of_gpu_args memory = {
		.va_addr = 1u << 30, .size = QUOTA, .flags = VRAM};
	static struct kfd_ioctl_export_dmabuf_args a = {.flags = O_CLOEXEC};

	memory.gpu_id = ids[0];
	CHECK_EQ(call(KFD_IOWR(ALLOC_MEMORY_OF_GPU, memory), &memory), 0);
	a.handle = memory.handle;
	CHECK_EQ(call(KFD_IOWR(EXPORT_DMABUF, a), &a), 0);
	CHECK_EQ(free_memory(memory.handle), 0);
	check_refused();
	close((int)a.dmabuf_fd);
	check_gone();
}

static void test_range(void)
{
	struct kfd_ioctl_svm_attribute there = {KFD_IOCTL_SVM_ATTR_PREFETCH_LOC, ids[0]};
	char *here = mmap(NULL, QUOTA, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	CHECK(here != MAP_FAILED);
	CHECK_EQ(svm_set(here, QUOTA, 1, &there), 0);
	check_refused();
	CHECK_EQ(munmap(here, QUOTA), 0);
	check_gone();
}

/* Last, for the emulator keeps a closed file's memory until the process ends. */
static void test_file(void)
{
	union drm_amdgpu_gem_create a = {
		.in = {.bo_size = QUOTA, .domains = AMDGPU_GEM_DOMAIN_VRAM}};
	int file = open("/dev/dri/renderD129", O_RDWR | O_CLOEXEC);

	CHECK(file >= 0);
	CHECK_EQ(drm(file, _IOWR('d', DRM_NR_AMDGPU_GEM_CREATE, a), &a), 0);
	check_refused();
	close(file);
	check_gone();
}

static void *go_on(void *arg)
{
	CHECK(!pthread_join(main_thread, NULL));
	while (count_files() > 2) /* it is joined a little before it is gone */
		usleep(1000);
	test_descriptor();
	test_range();
	test_file();
	exit(0);
}

int main(void)
{
	pthread_t thread;

	open_devices();
	acquire_devices();
	name_devices();
	main_thread = pthread_self();
	CHECK(!pthread_create(&thread, NULL, go_on, NULL));
	pthread_exit(NULL);
}
