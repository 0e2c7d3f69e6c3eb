/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ioctls of amdgpu's render nodes, in the kernel's own names: the part that allot and its emulator
 * use. DRM's own have numbers below DRM_COMMAND_BASE, the driver's from there on. As with /dev/kfd
 * a request is told by type and number; blocks grow at their end. tests/abi holds this to libdrm's
 * headers where they are installed.
 */
#ifndef ALLOT_AMD_ABI_DRM_H
#define ALLOT_AMD_ABI_DRM_H

#include <stdint.h>
#include <sys/ioctl.h>

#define DRM_IOCTL_BASE	 'd'
#define DRM_COMMAND_BASE 0x40

#define DRM_NR_VERSION	   0x00
#define DRM_NR_GEM_CLOSE   0x09
#define DRM_NR_GET_CAP	   0x0c
#define DRM_NR_AMDGPU_INFO (DRM_COMMAND_BASE + 0x05)

/* Lengths go both ways: the room that there is, and the length that there would be. */
struct drm_version {
	int32_t version_major;
	int32_t version_minor;
	int32_t version_patchlevel;
	uint64_t name_len;
	uint64_t name;
	uint64_t date_len;
	uint64_t date;
	uint64_t desc_len;
	uint64_t desc;
};

#define AMDGPU_INFO_ACCEL_WORKING  0x00
#define AMDGPU_INFO_VRAM_USAGE	   0x10
#define AMDGPU_INFO_GTT_USAGE	   0x11
#define AMDGPU_INFO_VRAM_GTT	   0x14
#define AMDGPU_INFO_READ_MMR_REG   0x15
#define AMDGPU_INFO_DEV_INFO	   0x16
#define AMDGPU_INFO_VIS_VRAM_USAGE 0x17
#define AMDGPU_INFO_MEMORY	   0x19

struct drm_amdgpu_info {
	uint64_t return_pointer;
	uint32_t return_size;
	uint32_t query;
	union { /* by the query; the longest of them */
		struct {
			uint32_t dword_offset;
			uint32_t count;
			uint32_t instance;
			uint32_t flags;
		} read_mmr_reg;
	};
};

struct drm_amdgpu_info_vram_gtt {
	uint64_t vram_size;
	uint64_t vram_cpu_accessible_size;
	uint64_t gtt_size;
};

struct drm_amdgpu_heap_info {
	uint64_t total_heap_size;
	uint64_t usable_heap_size;
	uint64_t heap_usage;
	uint64_t max_allocation;
};

struct drm_amdgpu_memory_info {
	struct drm_amdgpu_heap_info vram;
	struct drm_amdgpu_heap_info cpu_accessible_vram;
	struct drm_amdgpu_heap_info gtt;
};

/* The beginning of it. */
struct drm_amdgpu_info_device {
	uint32_t device_id;
	uint32_t chip_rev;
	uint32_t external_rev;
	uint32_t pci_rev;
	uint32_t family;
	uint32_t num_shader_engines;
	uint32_t num_shader_arrays_per_engine;
	uint32_t gpu_counter_freq; /* kHz */
	uint64_t max_engine_clock; /* kHz */
	uint64_t max_memory_clock;
	uint32_t cu_active_number;
	uint32_t cu_ao_mask;
	uint32_t cu_bitmap[4][4];
	uint32_t enabled_rb_pipes_mask;
	uint32_t num_rb_pipes;
	uint32_t num_hw_gfx_contexts;
	uint32_t pcie_gen; /* padding in older ones */
	uint64_t ids_flags;
	uint64_t virtual_address_offset;
	uint64_t virtual_address_max;
	uint32_t virtual_address_alignment;
	uint32_t pte_fragment_size;
	uint32_t gart_page_size;
	uint32_t ce_ram_size;
	uint32_t vram_type;
	uint32_t vram_bit_width;
};

#endif
