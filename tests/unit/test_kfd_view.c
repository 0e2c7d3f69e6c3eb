/* SPDX-License-Identifier: Apache-2.0 */
/* Sizes that the drivers tell become the tenant's, and nothing else changes. */
#include <errno.h>
#include <string.h>

#include "amd/kfd_view.h"
#include "tests/check.h"

#define MIB(n) ((uint64_t)(n) << 20)
#define GIB(n) ((uint64_t)(n) << 30)

/* 64 MiB of a device of 64 GiB, of which the CPU reaches 256 MiB; 16 MiB are in use. */
static const struct kfd_view small = {MIB(64), MIB(16), GIB(64), MIB(256)};
static const struct kfd_view unlimited = {UINT64_MAX, MIB(16), GIB(64), GIB(64)};
static const struct kfd_view nothing = {0, 0, GIB(64), GIB(64)};

static char shown[4096];
static size_t shown_len;

static int bank(const struct kfd_view *view, const char *text, uint64_t before)
{
	return kfd_view_bank(view, text, strlen(text), before, shown, KFD_VIEW_ROOM(strlen(text)),
			     &shown_len);
}

static int node(const struct kfd_view *view, const char *text)
{
	return kfd_view_node(view, text, strlen(text), shown, KFD_VIEW_ROOM(strlen(text)),
			     &shown_len);
}

static int mem_info(const struct kfd_view *view, const char *file, const char *text)
{
	return kfd_view_mem_info(view, file, text, strlen(text), shown,
				 KFD_VIEW_ROOM(strlen(text)), &shown_len);
}

#define CHECK_SHOWN(r, text)                                                     \
	do {                                                                     \
		CHECK_EQ(r, 0);                                                  \
		CHECK_EQ(shown_len, strlen(text));                               \
		CHECK(!memcmp(shown, text, strlen(text)));                       \
	} while (0)

#define VRAM(heap, size) \
	"heap_type " heap "\nsize_in_bytes " size "\nflags 0\nwidth 4096\nmem_clk_max 1600\n"

static void test_bank(void)
{
	const char *real = VRAM("1", "68719476736"), *host = VRAM("0", "68719476736");

	CHECK_SHOWN(bank(&small, real, 0), VRAM("1", "67108864"));
	CHECK_SHOWN(bank(&small, VRAM("2", "68719476736"), 0), VRAM("2", "67108864"));
	CHECK_SHOWN(bank(&small, VRAM("1", "67108864"), 0), VRAM("1", "67108864"));
	CHECK_SHOWN(bank(&small, VRAM("1", "1024"), 0), VRAM("1", "1024"));
	CHECK_SHOWN(bank(&unlimited, real, 0), real);
	CHECK_SHOWN(bank(&nothing, real, 0), VRAM("1", "0"));
	CHECK_SHOWN(bank(&small, host, 0), host);
	/* The size first, a line that nobody knows, a number with zeros before it. */
	CHECK_SHOWN(bank(&small, "size_in_bytes 68719476736\nnew  7 \nheap_type 1\n", 0),
		    "size_in_bytes 67108864\nnew  7 \nheap_type 1\n");
	CHECK_SHOWN(bank(&small, "heap_type 1\nsize_in_bytes 007\n", 0),
		    "heap_type 1\nsize_in_bytes 007\n");
}

/* Together they are the limit: the first ones are full before the next begin. */
static void test_banks(void)
{
	CHECK_SHOWN(bank(&small, VRAM("2", "68719476736"), MIB(48)), VRAM("2", "16777216"));
	CHECK_SHOWN(bank(&small, VRAM("2", "68719476736"), MIB(64)), VRAM("2", "0"));
	CHECK_SHOWN(bank(&small, VRAM("2", "68719476736"), UINT64_MAX), VRAM("2", "0"));
}

static void test_bank_errors(void)
{
	const char *real = VRAM("1", "68719476736");
	char tight[sizeof(VRAM("1", "67108864")) - 1];

	CHECK_EQ(bank(&small, "", 0), -ENODATA);
	CHECK_EQ(bank(&small, "heap_type 1\n", 0), -ENODATA);
	CHECK_EQ(bank(&small, "heap_type 1\nsize_in_bytes 68719476736", 0), -ENODATA);
	CHECK_EQ(bank(&small, "heap_type 1\nsize_in_bytes -1\n", 0), -EINVAL);
	CHECK_EQ(bank(&small, "heap_type 1\nsize_in_bytes 1 \n", 0), -EINVAL);
	CHECK_EQ(bank(&small, "heap_type 1\nsize_in_bytes 99999999999999999999\n", 0), -ERANGE);
	CHECK_EQ(bank(&small, "heap_type 1\nsize_in_bytes 1\nsize_in_bytes 2\n", 0), -EINVAL);
	CHECK_EQ(kfd_view_bank(&small, real, strlen(real), 0, tight, sizeof(tight), &shown_len), 0);
	shown_len = 7;
	CHECK_EQ(kfd_view_bank(&small, real, strlen(real), 0, tight, sizeof(tight) - 1, &shown_len),
		 -ENOSPC);
	CHECK_EQ(kfd_view_bank(&small, real, strlen(real), 0, NULL, 0, &shown_len), -ENOSPC);
	CHECK_EQ(shown_len, 7);
}

static void test_node(void)
{
	CHECK_SHOWN(node(&small, "simd_count 440\nlocal_mem_size 68719476736\ngfx 1\n"),
		    "simd_count 440\nlocal_mem_size 67108864\ngfx 1\n");
	CHECK_SHOWN(node(&small, "local_mem_size 0\n"), "local_mem_size 0\n");
	CHECK_SHOWN(node(&small, "simd_count 440\nlocal_mem_sizes 68719476736\n"),
		    "simd_count 440\nlocal_mem_sizes 68719476736\n");
	CHECK_EQ(node(&small, "simd_count 440\nlocal_mem_size 1"), -ENODATA);
	CHECK_EQ(node(&small, "local_mem_size x\n"), -EINVAL);
	CHECK_EQ(node(&small, "local_mem_size 1\nlocal_mem_size 68719476736\n"), -EINVAL);
	CHECK_EQ(node(&small, ""), -ENODATA);
}

static void test_mem_info(void)
{
	const struct kfd_view over = {MIB(64), MIB(65), GIB(64), GIB(64)};
	const struct kfd_view seen = {GIB(1), MIB(512), GIB(64), MIB(256)};

	CHECK_SHOWN(mem_info(&small, "mem_info_vram_total", "68719476736\n"), "67108864\n");
	CHECK_SHOWN(mem_info(&small, "mem_info_vis_vram_total", "268435456\n"), "67108864\n");
	CHECK_SHOWN(mem_info(&small, "mem_info_vram_used", "5\n"), "16777216\n");
	CHECK_SHOWN(mem_info(&small, "mem_info_vis_vram_used", "68719476736\n"), "16777216\n");
	CHECK_SHOWN(mem_info(&unlimited, "mem_info_vram_total", "68719476736\n"), "68719476736\n");
	CHECK_SHOWN(mem_info(&over, "mem_info_vram_used", "5\n"), "67108864\n");
	CHECK_SHOWN(mem_info(&seen, "mem_info_vis_vram_used", "5\n"), "268435456\n");
	CHECK_SHOWN(mem_info(&seen, "mem_info_vis_vram_total", "268435456\n"), "268435456\n");
	CHECK_SHOWN(mem_info(&small, "used_memory", "5\n"), "16777216\n");
	CHECK_EQ(mem_info(&small, "mem_info_gtt_total", "5\n"), -ENOENT);
	CHECK_EQ(mem_info(&small, "mem_info_vram_total", "5"), -ENODATA);
	CHECK_EQ(mem_info(&small, "mem_info_vram_total", ""), -ENODATA);
	CHECK_EQ(mem_info(&small, "mem_info_vram_used", "5 \n"), -EINVAL);
}

static uint64_t available(const struct kfd_view *view, uint64_t real)
{
	struct kfd_ioctl_get_available_memory_args args = {.available = real, .gpu_id = 7};

	kfd_view_available(view, &args);
	CHECK_EQ(args.gpu_id, 7);
	return args.available;
}

static void test_blocks(void)
{
	const struct kfd_view over = {MIB(64), MIB(65), GIB(64), GIB(64)};
	struct kfd_ioctl_get_version_args version = {1, 99};

	CHECK_EQ(available(&small, GIB(60)), MIB(48));
	CHECK_EQ(available(&small, MIB(2)), MIB(2));
	CHECK_EQ(available(&over, GIB(60)), 0);
	CHECK_EQ(available(&unlimited, GIB(60)), GIB(60));
	kfd_view_version(&version);
	CHECK(version.major_version == 1 && version.minor_version == KFD_IOCTL_MINOR_VERSION);
	version.minor_version = 6;
	kfd_view_version(&version);
	CHECK_EQ(version.minor_version, 6);
}

static void test_info(void)
{
	struct drm_amdgpu_info_vram_gtt sizes = {GIB(64), MIB(256), GIB(128)};
	const struct drm_amdgpu_heap_info real = {GIB(64), GIB(63), GIB(5), GIB(47)};
	struct drm_amdgpu_memory_info memory = {real, real, real};
	struct drm_amdgpu_info_device device = {.cu_active_number = 110};
	const struct drm_amdgpu_info_device same = device;
	struct drm_amdgpu_info_hw_ip ip = {.available_rings = 1};
	uint64_t used[2] = {GIB(5), 7};

	kfd_view_info(&small, AMDGPU_INFO_VRAM_GTT, &sizes, sizeof(sizes));
	CHECK_EQ(sizes.vram_size, MIB(64));
	CHECK_EQ(sizes.vram_cpu_accessible_size, MIB(64));
	CHECK_EQ(sizes.gtt_size, GIB(128));
	kfd_view_info(&small, AMDGPU_INFO_MEMORY, &memory, sizeof(memory));
	CHECK_EQ(memory.vram.total_heap_size, MIB(64));
	CHECK_EQ(memory.vram.usable_heap_size, MIB(64));
	CHECK_EQ(memory.vram.heap_usage, MIB(16));
	CHECK_EQ(memory.vram.max_allocation, MIB(48));
	CHECK_EQ(memory.cpu_accessible_vram.total_heap_size, MIB(64));
	CHECK(!memcmp(&memory.gtt, &real, sizeof(real)));
	kfd_view_info(&small, AMDGPU_INFO_VRAM_USAGE, used, sizeof(used));
	CHECK(used[0] == MIB(16) && used[1] == 7);
	used[0] = GIB(5);
	kfd_view_info(&small, AMDGPU_INFO_VIS_VRAM_USAGE, used, sizeof(used[0]));
	CHECK_EQ(used[0], MIB(16));
	kfd_view_info(&small, AMDGPU_INFO_DEV_INFO, &device, sizeof(device));
	CHECK(!memcmp(&device, &same, sizeof(same)));
	device.userq_ip_mask = 7;
	kfd_view_info(&small, AMDGPU_INFO_DEV_INFO, &device, sizeof(device));
	CHECK(!memcmp(&device, &same, sizeof(same)));
	ip.userq_num_slots = 8;
	kfd_view_info(&small, AMDGPU_INFO_HW_IP_INFO, &ip, sizeof(ip));
	CHECK(!ip.userq_num_slots && ip.available_rings == 1);
	kfd_view_info(&small, AMDGPU_INFO_MEMORY, NULL, 0);
}

/* Less than a whole answer: what is there of it, and not a byte more. */
static void test_info_short(void)
{
	const struct drm_amdgpu_info_vram_gtt real = {GIB(64), MIB(256), GIB(128)};

	for (size_t n = 0; n < sizeof(real); n++) {
		unsigned char bytes[sizeof(real)], whole[sizeof(real)];

		memcpy(whole, &real, sizeof(real));
		memcpy(bytes, &real, sizeof(real));
		kfd_view_info(&small, AMDGPU_INFO_VRAM_GTT, whole, sizeof(whole));
		kfd_view_info(&small, AMDGPU_INFO_VRAM_GTT, bytes, n);
		CHECK(!memcmp(bytes, whole, n / 8 * 8));
		CHECK(!memcmp(bytes + n, (const char *)&real + n, sizeof(real) - n));
	}
}

int main(void)
{
	test_bank();
	test_banks();
	test_bank_errors();
	test_node();
	test_mem_info();
	test_blocks();
	test_info();
	test_info_short();
	return 0;
}
