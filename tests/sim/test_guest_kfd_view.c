/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What emulated AMD GPUs answer in a tenant that has two of three, with quotas: sizes are the
 * tenant's, wherever they are asked for, and the third GPU is not there. Addresses that the program
 * gives may be of nothing.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "ledger/policy.h"
#include "tests/sim/kfd_program.h"

#define DEVICE	  (256 * MIB)
#define PAGE	  4096
#define NOWHERE	  UINT64_C(0x10)
#define HIDDEN	  0
#define HIDDEN_ID 10111

static const uint64_t quota[GPUS] = {0, 64 * MIB, 32 * MIB};

static int query(int file, uint32_t query, uint64_t to, uint32_t size)
{
	struct drm_amdgpu_info a = {.return_pointer = to, .return_size = size, .query = query};

	return drm(file, _IOW('d', DRM_NR_AMDGPU_INFO, a), &a);
}

static int open_node(const char *kind, int number)
{
	char path[32];

	snprintf(path, sizeof(path), "/dev/dri/%s%d", kind, number);
	return open(path, O_RDWR | O_CLOEXEC);
}

static void open_all(void)
{
	kfd = open("/dev/kfd", O_RDWR | O_CLOEXEC);
	CHECK(kfd >= 0);
	CHECK(open_node("renderD", 129 + HIDDEN) < 0 && errno == EPERM);
	CHECK(open_node("card", HIDDEN) < 0 && errno == EPERM);
	for (int i = 1; i < GPUS; i++) {
		struct kfd_ioctl_acquire_vm_args a;

		ids[i] = HIDDEN_ID + 111 * (uint32_t)i;
		render[i] = open_node("renderD", 129 + i);
		CHECK(render[i] >= 0);
		a = (struct kfd_ioctl_acquire_vm_args){(uint32_t)render[i], ids[i]};
		CHECK_EQ(call(KFD_IOWR(ACQUIRE_VM, a), &a), 0);
	}
}

static void test_version(void)
{
	struct kfd_ioctl_get_version_args a = {0};

	CHECK_EQ(call(KFD_IOWR(GET_VERSION, a), &a), 0);
	CHECK_EQ(a.major_version, KFD_IOCTL_MAJOR_VERSION);
	CHECK(a.minor_version && a.minor_version <= KFD_IOCTL_MINOR_VERSION);
	CHECK_EQ(call(KFD_IOWR(GET_VERSION, a), (void *)(uintptr_t)NOWHERE), -EFAULT);
}

static int apertures(struct kfd_process_device_apertures *to, uint32_t *n)
{
	struct kfd_ioctl_get_process_apertures_new_args a = {
		.kfd_process_device_apertures_ptr = (uintptr_t)to, .num_of_nodes = *n};
	int r = call(KFD_IOWR(GET_PROCESS_APERTURES_NEW, a), &a);

	CHECK_EQ(a.kfd_process_device_apertures_ptr, (uintptr_t)to);
	*n = a.num_of_nodes;
	return r;
}

/* As under the device cgroup: left out, with the kernel's order, and counted so. */
static void test_apertures(void)
{
	struct kfd_ioctl_get_process_apertures_args old;
	struct kfd_process_device_apertures list[GPUS];
	uint32_t n;

	n = 0;
	CHECK_EQ(apertures(NULL, &n), 0);
	CHECK_EQ(n, 2);
	memset(list, 0x5a, sizeof(list));
	n = GPUS;
	CHECK_EQ(apertures(list, &n), 0);
	CHECK_EQ(n, 2);
	CHECK_EQ(list[0].gpu_id, ids[1]);
	CHECK_EQ(list[1].gpu_id, ids[2]);
	CHECK(list[1].gpuvm_limit > list[1].gpuvm_base);
	CHECK_EQ(list[2].gpu_id, 0x5a5a5a5a);
	n = 1;
	CHECK_EQ(apertures(list + 2, &n), 0);
	CHECK_EQ(n, 1);
	CHECK_EQ(list[2].gpu_id, ids[1]);
	n = UINT32_MAX;
	CHECK_EQ(apertures(list, &n), 0);
	CHECK_EQ(n, 2);
	n = UINT32_MAX;
	CHECK_EQ(apertures((void *)(uintptr_t)NOWHERE, &n), -EFAULT);
	memset(&old, 0x5a, sizeof(old));
	CHECK_EQ(call(KFD_IOWR(GET_PROCESS_APERTURES, old), &old), 0);
	CHECK_EQ(old.num_of_nodes, 2);
	CHECK_EQ(old.process_apertures[0].gpu_id, ids[1]);
	CHECK_EQ(old.process_apertures[1].gpu_id, ids[2]);
	CHECK_EQ(old.process_apertures[2].gpu_id, 0);
}

static uint64_t available_of(uint32_t id, int expected)
{
	struct kfd_ioctl_get_available_memory_args a = {.gpu_id = id};

	CHECK_EQ(call(KFD_IOWR(AVAILABLE_MEMORY, a), &a), expected);
	return a.available;
}

/* All that INFO says of sizes, by one of the GPU's nodes. */
static void check_info(int file, uint64_t total, uint64_t used)
{
	struct drm_amdgpu_memory_info memory;
	struct drm_amdgpu_info_vram_gtt sizes;
	uint64_t bytes = 0;

	CHECK_EQ(query(file, AMDGPU_INFO_VRAM_USAGE, (uintptr_t)&bytes, sizeof(bytes)), 0);
	CHECK_EQ(bytes, used);
	CHECK_EQ(query(file, AMDGPU_INFO_VIS_VRAM_USAGE, (uintptr_t)&bytes, sizeof(bytes)), 0);
	CHECK_EQ(bytes, used);
	CHECK_EQ(query(file, AMDGPU_INFO_VRAM_GTT, (uintptr_t)&sizes, sizeof(sizes)), 0);
	CHECK_EQ(sizes.vram_size, total);
	CHECK_EQ(sizes.vram_cpu_accessible_size, total);
	CHECK_EQ(sizes.gtt_size, DEVICE);
	CHECK_EQ(query(file, AMDGPU_INFO_MEMORY, (uintptr_t)&memory, sizeof(memory)), 0);
	CHECK_EQ(memory.vram.total_heap_size, total);
	CHECK_EQ(memory.vram.usable_heap_size, total);
	CHECK_EQ(memory.vram.heap_usage, used);
	CHECK(memory.vram.max_allocation <= total);
	CHECK_EQ(memory.cpu_accessible_vram.total_heap_size, total);
	CHECK_EQ(memory.gtt.total_heap_size, DEVICE);
}

static void test_sizes(void)
{
	uint64_t handle;

	for (int i = 1; i < GPUS; i++) {
		int card = open_node("card", i);

		CHECK(card >= 0);
		CHECK_EQ(available_of(ids[i], 0), quota[i]);
		check_info(render[i], quota[i], 0);
		CHECK_EQ(alloc_vram(i, 8 * MIB, &handle), 0);
		CHECK_EQ(available_of(ids[i], 0), quota[i] - 8 * MIB);
		check_info(render[i], quota[i], 8 * MIB);
		check_info(card, quota[i], 8 * MIB);
		CHECK_EQ(call(KFD_IOWR(FREE_MEMORY_OF_GPU, handle), &handle), 0);
		check_info(card, quota[i], 0);
		close(card);
	}
	available_of(HIDDEN_ID, -EINVAL);
	available_of(4711, -EINVAL);
	available_of(0, -EINVAL);
}

static int set_limit(struct policy *policy, void *arg)
{
	policy->device[0].limit_bytes = *(const uint64_t *)arg;
	return 0;
}

/* A quota that is less than what is held: no figure is above its total. */
static void test_lowered(void)
{
	const char *dir = getenv("ALLOT_TENANT_DIR");
	uint64_t handle, less = 4 * MIB;

	CHECK_EQ(alloc_vram(1, 8 * MIB, &handle), 0);
	CHECK_EQ(policy_update(dir, set_limit, &less), 0);
	check_info(render[1], 8 * MIB, 8 * MIB);
	CHECK_EQ(available_of(ids[1], 0), 0);
	CHECK_EQ(call(KFD_IOWR(FREE_MEMORY_OF_GPU, handle), &handle), 0);
	check_info(render[1], less, 0);
	CHECK_EQ(available_of(ids[1], 0), less);
	CHECK_EQ(policy_update(dir, set_limit, (void *)&quota[1]), 0);
}

/* Queues that are refused (USERQ) are not announced; the rest is the driver's own. */
static void test_user_queues(void)
{
	struct drm_amdgpu_info_device device = {0};
	struct drm_amdgpu_info_hw_ip ip = {0};

	CHECK_EQ(query(render[1], AMDGPU_INFO_DEV_INFO, (uintptr_t)&device, sizeof(device)), 0);
	CHECK(device.device_id && device.virtual_address_max);
	CHECK_EQ(device.userq_ip_mask, 0);
	CHECK_EQ(query(render[1], AMDGPU_INFO_HW_IP_INFO, (uintptr_t)&ip, sizeof(ip)), 0);
	CHECK(ip.hw_ip_version_major && ip.available_rings);
	CHECK_EQ(ip.userq_num_slots, 0);
}

/* Who asks for less gets the beginning, and nothing is written behind it. */
static void test_short_answers(void)
{
	struct {
		uint64_t at, behind;
	} a = {0x5a5a5a5a5a5a5a5a, 0x5a5a5a5a5a5a5a5a};

	for (uint32_t size = 1; size < 8; size++) {
		uint64_t kept = ~UINT64_C(0) << 8 * size;

		a.at = ~UINT64_C(0);
		CHECK_EQ(query(render[1], AMDGPU_INFO_VRAM_GTT, (uintptr_t)&a.at, size), 0);
		CHECK_EQ(a.at, kept | (quota[1] & ~kept));
	}
	CHECK_EQ(query(render[1], AMDGPU_INFO_VRAM_USAGE, (uintptr_t)&a.at, UINT32_MAX), 0);
	CHECK_EQ(a.at, 0);
	CHECK_EQ(a.behind, 0x5a5a5a5a5a5a5a5a);
}

/* No address and no size ends the program, and what is not answered is not shown. */
static void test_wild(void)
{
	static const uint32_t queries[] = {AMDGPU_INFO_VRAM_USAGE, AMDGPU_INFO_VIS_VRAM_USAGE,
					   AMDGPU_INFO_VRAM_GTT, AMDGPU_INFO_MEMORY,
					   AMDGPU_INFO_DEV_INFO, AMDGPU_INFO_HW_IP_INFO};
	char *pages =
		mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	uint64_t end = (uintptr_t)pages + PAGE, bytes = quota[1];

	CHECK(pages != MAP_FAILED && !munmap(pages + PAGE, PAGE));
	for (size_t i = 0; i < sizeof(queries) / sizeof(queries[0]); i++) {
		for (uint32_t size = 8; size; size = size > UINT32_MAX / 8 ? 0 : size * 8) {
			CHECK_EQ(query(render[1], queries[i], NOWHERE, size), -EFAULT);
			CHECK_EQ(query(render[1], queries[i], UINT64_MAX - 3, size), -EFAULT);
			CHECK_EQ(query(render[1], queries[i], end - 4, size), -EFAULT);
		}
		CHECK_EQ(query(render[1], queries[i], end - 8, 8), 0);
	}
	CHECK_EQ(query(render[1], AMDGPU_INFO_VRAM_GTT, end - 8, 8), 0);
	CHECK(!memcmp(pages + PAGE - 8, &bytes, 8));
	CHECK_EQ(query(render[1], 4711, end - 8, 8), -EINVAL);
	/* Requests that claim other sizes: of a short block the rest is 0. One that is not to be
	 * read is all 0. */
	for (unsigned int size = 0; size < 16384; size = size * 2 + 1) {
		struct drm_amdgpu_info a[512] = {{.return_pointer = (uintptr_t)&bytes,
						  .return_size = 8,
						  .query = AMDGPU_INFO_VRAM_GTT}};

		bytes = 0;
		drm(render[1], _IOC(_IOC_WRITE, 'd', DRM_NR_AMDGPU_INFO, size), a);
		CHECK_EQ(bytes, size < 15 ? 0 : quota[1]);
		bytes = 0;
		drm(render[1], _IOC(_IOC_READ, 'd', DRM_NR_AMDGPU_INFO, size), a);
		CHECK_EQ(bytes, 0);
	}
}

/* One that was handed over, or was opened by a path that nobody looked at, is of no use. */
static void test_hidden_descriptor(void)
{
	char path[64] = "/dev/shm/allot-test-XXXXXX", link[32], real[256];
	int dri = open("/dev/dri", O_DIRECTORY | O_PATH | O_CLOEXEC), file;
	struct drm_amdgpu_gem_create_in in = {.bo_size = PAGE, .domains = AMDGPU_GEM_DOMAIN_VRAM};
	union drm_amdgpu_gem_create create = {.in = in};
	uint64_t bytes;
	ssize_t n;

	CHECK(dri >= 0 && mkdtemp(path));
	CHECK(openat(dri, "renderD129", O_RDWR | O_CLOEXEC) < 0 && errno == EPERM);
	snprintf(link, sizeof(link), "/proc/self/fd/%d", dri);
	n = readlink(link, real, sizeof(real) - 16);
	CHECK(n > 0);
	strcpy(real + n, "/renderD129");
	strcat(path, "/x");
	CHECK(!symlink(real, path));
	file = open(path, O_RDWR | O_CLOEXEC);
	CHECK(file >= 0);
	CHECK_EQ(query(file, AMDGPU_INFO_VRAM_GTT, (uintptr_t)&bytes, 8), -EACCES);
	CHECK_EQ(drm(file, _IOWR('d', DRM_NR_AMDGPU_GEM_CREATE, create), &create), -EACCES);
	unlink(path);
	*strrchr(path, '/') = '\0';
	rmdir(path);
	close(file);
	close(dri);
}

int main(void)
{
	open_all();
	test_version();
	test_apertures();
	test_sizes();
	test_lowered();
	test_user_queues();
	test_short_answers();
	test_wild();
	test_hidden_descriptor();
	return 0;
}
