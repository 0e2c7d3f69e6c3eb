/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ioctls of render nodes, as far as libdrm_amdgpu asks to know a device; buffers are in gem.c.
 * Of command submission there are copies (copies.c).
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "amd/abi/drm.h"
#include "amd/abi/kfd.h"
#include "sim/kfd/bank.h"
#include "sim/kfd/emu.h"
#include "sim/kfd/gem.h"
#include "sim/kfd/user.h"

/* As the kernel's driver has it; libdrm wants major 3. */
#define DRIVER_MAJOR 3
#define DRIVER_MINOR 49

#define VRAM KFD_IOC_ALLOC_MEM_FLAGS_VRAM
#define GTT  KFD_IOC_ALLOC_MEM_FLAGS_GTT

/* Of the kinds of work, those for which newer GPUs have queues of the program's own (USERQ). */
#define USER_QUEUES	 3u
#define USER_QUEUE_SLOTS 8

static int drm_put_text(uint64_t to, uint64_t *len, const char *text)
{
	uint64_t room = *len;

	*len = strlen(text);
	return to ? user_copy_out(to, text, room < *len ? room : *len) : 0;
}

static int drm_get_version(uint64_t arg)
{
	struct drm_version v = {0};
	int r = user_copy_in(&v, arg, sizeof(v));

	if (r < 0)
		return r;
	v.version_major = DRIVER_MAJOR;
	v.version_minor = DRIVER_MINOR;
	v.version_patchlevel = 0;
	if ((r = drm_put_text(v.name, &v.name_len, "amdgpu")) < 0 ||
	    (r = drm_put_text(v.date, &v.date_len, "20150101")) < 0 ||
	    (r = drm_put_text(v.desc, &v.desc_len, "AMD GPU, emulated")) < 0)
		return r;
	return user_copy_out(arg, &v, sizeof(v));
}

/*
 * Which CUs work, by engine and array: in the last arrays one is missing, as far as there are fewer
 * than there is room for. Engines 4 to 7 come behind the arrays of the first ones; of GPUs with
 * more than one XCC the kernel tells the first one's alone, and here there is nothing.
 */
static void drm_fill_cu_bitmap(const struct tree_model *m, uint32_t ret[4][4])
{
	uint32_t missing = m->arrays * m->cus_per_array - m->simds / m->simds_per_cu;

	for (uint32_t i = 0; m->xccs == 1 && i < m->arrays; i++) {
		uint32_t engine = i / m->arrays_per_engine, array = i % m->arrays_per_engine;
		uint32_t cus = m->cus_per_array - (i >= m->arrays - missing);

		ret[engine % 4][array + engine / 4] = (1u << cus) - 1;
	}
}

static struct drm_amdgpu_info_device drm_device_info(const struct emu_gpu *gpu)
{
	const struct tree_model *m = gpu->model;
	struct drm_amdgpu_info_device info = {
		.device_id = gpu->device_id,
		.external_rev = 1,
		.gpu_counter_freq = 100000,
		.num_hw_gfx_contexts = 8,
		.virtual_address_offset = 0x200000,
		.virtual_address_max = UINT64_C(0x7fffffffffff),
		.virtual_address_alignment = 4096,
		.pte_fragment_size = 2 << 20,
		.gart_page_size = 4096,
		.vram_bit_width = 4096,
		.userq_ip_mask = USER_QUEUES,
	};

	if (m) {
		info.family = m->family;
		info.num_shader_engines = m->arrays / m->arrays_per_engine;
		info.num_shader_arrays_per_engine = m->arrays_per_engine;
		info.cu_active_number = m->simds / m->simds_per_cu;
		drm_fill_cu_bitmap(m, info.cu_bitmap);
		info.max_engine_clock = m->engine_mhz * UINT64_C(1000);
	}
	return info;
}

static struct drm_amdgpu_heap_info drm_heap_info(uint64_t bytes, uint64_t used_bytes)
{
	return (struct drm_amdgpu_heap_info){.total_heap_size = bytes,
					     .usable_heap_size = bytes,
					     .heap_usage = used_bytes < bytes ? used_bytes : bytes,
					     .max_allocation = bytes / 4 * 3};
}

static int drm_answer(const struct drm_amdgpu_info *a, const void *info, size_t len)
{
	return user_copy_out(a->return_pointer, info, len < a->return_size ? len : a->return_size);
}

static uint64_t drm_used_bytes(struct emu_machine *m, const struct emu_gpu *gpu, uint32_t flag)
{
	return bank_used(m->bank, (uint32_t)(gpu - m->gpu), flag);
}

static int drm_get_info(struct emu_machine *m, const struct emu_gpu *gpu, uint64_t arg)
{
	struct drm_amdgpu_info_device device = drm_device_info(gpu);
	struct drm_amdgpu_memory_info memory;
	struct drm_amdgpu_info_vram_gtt sizes = {gpu->vram_bytes, gpu->visible_bytes,
						 gpu->vram_bytes};
	struct drm_amdgpu_info_hw_ip ip = {.hw_ip_version_major = 9,
					   .available_rings = 1,
					   .userq_num_slots = USER_QUEUE_SLOTS};
	uint32_t working = 1, registers[64] = {0};
	uint64_t bytes;
	struct drm_amdgpu_info a = {0};
	int r = user_copy_in(&a, arg, sizeof(a));

	if (r < 0)
		return r;
	switch (a.query) {
	case AMDGPU_INFO_ACCEL_WORKING:
		return drm_answer(&a, &working, sizeof(working));
	case AMDGPU_INFO_HW_IP_INFO:
		return drm_answer(&a, &ip, sizeof(ip));
	case AMDGPU_INFO_VRAM_USAGE:
	case AMDGPU_INFO_VIS_VRAM_USAGE:
		bytes = drm_used_bytes(m, gpu, VRAM);
		return drm_answer(&a, &bytes, sizeof(bytes));
	case AMDGPU_INFO_GTT_USAGE:
		bytes = drm_used_bytes(m, gpu, GTT);
		return drm_answer(&a, &bytes, sizeof(bytes));
	case AMDGPU_INFO_VRAM_GTT:
		return drm_answer(&a, &sizes, sizeof(sizes));
	case AMDGPU_INFO_READ_MMR_REG:
		return drm_answer(&a, registers, sizeof(registers));
	case AMDGPU_INFO_DEV_INFO:
		if (getenv("ALLOT_SIM_AMD_FUSED"))
			device.ids_flags = AMDGPU_IDS_FLAGS_FUSION;
		return drm_answer(&a, &device, sizeof(device));
	case AMDGPU_INFO_MEMORY:
		bytes = drm_used_bytes(m, gpu, VRAM);
		memory.vram = drm_heap_info(gpu->vram_bytes, bytes);
		memory.cpu_accessible_vram = drm_heap_info(gpu->visible_bytes, bytes);
		memory.gtt = drm_heap_info(gpu->vram_bytes, drm_used_bytes(m, gpu, GTT));
		return drm_answer(&a, &memory, sizeof(memory));
	}
	return -EINVAL;
}

static const struct row {
	unsigned int nr;
	size_t args_bytes;
	emu_drm_fn *handle;
} rows[] = {
	{DRM_NR_GEM_CLOSE, sizeof(struct drm_gem_close), emu_gem_close},
	{DRM_NR_PRIME_HANDLE_TO_FD, sizeof(struct drm_prime_handle), emu_prime_to_fd},
	{DRM_NR_PRIME_FD_TO_HANDLE, sizeof(struct drm_prime_handle), emu_prime_to_handle},
	{DRM_NR_GEM_CHANGE_HANDLE, sizeof(struct drm_gem_change_handle), emu_gem_change_handle},
	{DRM_NR_AMDGPU_GEM_CREATE, sizeof(union drm_amdgpu_gem_create), emu_gem_create},
	{DRM_NR_AMDGPU_GEM_MMAP, sizeof(union drm_amdgpu_gem_mmap), emu_gem_mmap},
	{DRM_NR_AMDGPU_CTX, sizeof(union drm_amdgpu_ctx), emu_ctx},
	{DRM_NR_AMDGPU_CS, sizeof(union drm_amdgpu_cs), emu_cs},
	{DRM_NR_AMDGPU_WAIT_CS, sizeof(union drm_amdgpu_wait_cs), emu_wait_cs},
	{DRM_NR_AMDGPU_GEM_VA, sizeof(struct drm_amdgpu_gem_va), emu_gem_va},
	{DRM_NR_AMDGPU_GEM_OP, sizeof(struct drm_amdgpu_gem_op), emu_gem_op},
	{DRM_NR_AMDGPU_GEM_METADATA, sizeof(struct drm_amdgpu_gem_metadata), emu_gem_metadata},
	{DRM_NR_AMDGPU_GEM_LIST_HANDLES, sizeof(struct drm_amdgpu_gem_list_handles), emu_gem_list},
};

#define BLOCK_BYTES sizeof(struct drm_amdgpu_gem_metadata)

static const struct row *drm_find_row(unsigned int nr)
{
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		if (rows[i].nr == nr)
			return emu_lacks(EMU_DRM(nr)) ? NULL : &rows[i];
	return NULL;
}

/* Does what kfd_do_call() does for /dev/kfd, but here the request says which way its block goes. */
static int drm_do_call(struct emu_machine *m, struct emu_gpu *gpu, int fd, unsigned long request,
		       uint64_t arg)
{
	static uint64_t calls[256]; /* under the lock */
	_Alignas(8) char block[BLOCK_BYTES] = {0}, asked[BLOCK_BYTES];
	const struct row *row = drm_find_row(_IOC_NR(request));
	size_t bytes = _IOC_SIZE(request);
	int r;

	if (!row)
		return -EINVAL;
	if (bytes > row->args_bytes)
		bytes = row->args_bytes;
	if (_IOC_DIR(request) & _IOC_WRITE && user_copy_in(block, arg, bytes) < 0)
		return -EFAULT;
	memcpy(asked, block, sizeof(asked));
	r = emu_fail(EMU_DRM(row->nr), calls[row->nr]++);
	if (r == 0)
		r = row->handle(m, gpu, fd, block);
	if (_IOC_DIR(request) & _IOC_READ && user_copy_out(arg, block, bytes) < 0)
		r = -EFAULT;
	emu_trace_drm(gpu, row->nr, asked, block, r);
	return r;
}

long emu_drm_ioctl(int minor, int fd, unsigned long request, uint64_t arg)
{
	struct emu_machine *m = emu_lock_with(fd);
	struct emu_gpu *gpu = m ? emu_gpu_of_minor(m, minor) : NULL;
	int r;

	if (!m)
		return -EBADF;
	emu_gem_reap(m);
	if (!gpu)
		r = -ENODEV;
	else if (_IOC_NR(request) == DRM_NR_VERSION)
		r = drm_get_version(arg);
	else if (_IOC_NR(request) == DRM_NR_AMDGPU_INFO)
		r = drm_get_info(m, gpu, arg);
	else
		r = drm_do_call(m, gpu, fd, request, arg);
	emu_unlock();
	return r;
}
