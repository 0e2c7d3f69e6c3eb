/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
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

#define DRM_NR_VERSION			0x00
#define DRM_NR_GEM_CLOSE		0x09
#define DRM_NR_GET_CAP			0x0c
#define DRM_NR_PRIME_HANDLE_TO_FD	0x2d
#define DRM_NR_PRIME_FD_TO_HANDLE	0x2e
#define DRM_NR_SYNCOBJ_CREATE		0xbf
#define DRM_NR_SYNCOBJ_DESTROY		0xc0
#define DRM_NR_SYNCOBJ_HANDLE_TO_FD	0xc1
#define DRM_NR_SYNCOBJ_FD_TO_HANDLE	0xc2
#define DRM_NR_SYNCOBJ_WAIT		0xc3
#define DRM_NR_SYNCOBJ_RESET		0xc4
#define DRM_NR_SYNCOBJ_SIGNAL		0xc5
#define DRM_NR_SYNCOBJ_TIMELINE_WAIT	0xca
#define DRM_NR_SYNCOBJ_QUERY		0xcb
#define DRM_NR_SYNCOBJ_TRANSFER		0xcc
#define DRM_NR_SYNCOBJ_TIMELINE_SIGNAL	0xcd
#define DRM_NR_SYNCOBJ_EVENTFD		0xcf
#define DRM_NR_SET_CLIENT_NAME		0xd1
#define DRM_NR_GEM_CHANGE_HANDLE	0xd2

#define DRM_NR_AMDGPU_GEM_CREATE	(DRM_COMMAND_BASE + 0x00)
#define DRM_NR_AMDGPU_GEM_MMAP		(DRM_COMMAND_BASE + 0x01)
#define DRM_NR_AMDGPU_CTX		(DRM_COMMAND_BASE + 0x02)
#define DRM_NR_AMDGPU_BO_LIST		(DRM_COMMAND_BASE + 0x03)
#define DRM_NR_AMDGPU_CS		(DRM_COMMAND_BASE + 0x04)
#define DRM_NR_AMDGPU_INFO		(DRM_COMMAND_BASE + 0x05)
#define DRM_NR_AMDGPU_GEM_METADATA	(DRM_COMMAND_BASE + 0x06)
#define DRM_NR_AMDGPU_GEM_WAIT_IDLE	(DRM_COMMAND_BASE + 0x07)
#define DRM_NR_AMDGPU_GEM_VA		(DRM_COMMAND_BASE + 0x08)
#define DRM_NR_AMDGPU_WAIT_CS		(DRM_COMMAND_BASE + 0x09)
#define DRM_NR_AMDGPU_GEM_OP		(DRM_COMMAND_BASE + 0x10)
#define DRM_NR_AMDGPU_GEM_USERPTR	(DRM_COMMAND_BASE + 0x11)
#define DRM_NR_AMDGPU_WAIT_FENCES	(DRM_COMMAND_BASE + 0x12)
#define DRM_NR_AMDGPU_VM		(DRM_COMMAND_BASE + 0x13)
#define DRM_NR_AMDGPU_FENCE_TO_HANDLE	(DRM_COMMAND_BASE + 0x14)
#define DRM_NR_AMDGPU_SCHED		(DRM_COMMAND_BASE + 0x15)
#define DRM_NR_AMDGPU_USERQ		(DRM_COMMAND_BASE + 0x16)
#define DRM_NR_AMDGPU_USERQ_SIGNAL	(DRM_COMMAND_BASE + 0x17)
#define DRM_NR_AMDGPU_USERQ_WAIT	(DRM_COMMAND_BASE + 0x18)
#define DRM_NR_AMDGPU_GEM_LIST_HANDLES	(DRM_COMMAND_BASE + 0x19)
#define DRM_NR_AMDGPU_PROC_OPTIONS	(DRM_COMMAND_BASE + 0x1a)

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

struct drm_gem_close {
	uint32_t handle;
	uint32_t pad;
};

struct drm_prime_handle {
	uint32_t handle;
	uint32_t flags;
	int32_t fd; /* of a dma-buf */
};

/* Where memory of a buffer may lie. */
#define AMDGPU_GEM_DOMAIN_CPU  0x1
#define AMDGPU_GEM_DOMAIN_GTT  0x2
#define AMDGPU_GEM_DOMAIN_VRAM 0x4
#define AMDGPU_GEM_DOMAIN_GDS  0x8 /* this one and the next two: on the chip */
#define AMDGPU_GEM_DOMAIN_GWS  0x10
#define AMDGPU_GEM_DOMAIN_OA   0x20

struct drm_amdgpu_gem_create_in {
	uint64_t bo_size;
	uint64_t alignment;
	uint64_t domains;
	uint64_t domain_flags;
};

struct drm_amdgpu_gem_create_out {
	uint32_t handle;
	uint32_t _pad;
};

union drm_amdgpu_gem_create {
	struct drm_amdgpu_gem_create_in in;
	struct drm_amdgpu_gem_create_out out;
};

struct drm_amdgpu_gem_mmap_in {
	uint32_t handle;
	uint32_t _pad;
};

struct drm_amdgpu_gem_mmap_out {
	uint64_t addr_ptr; /* the offset at which mmap of the render node finds it */
};

union drm_amdgpu_gem_mmap {
	struct drm_amdgpu_gem_mmap_in in;
	struct drm_amdgpu_gem_mmap_out out;
};

/* Flags of GEM_CREATE. */
#define AMDGPU_GEM_CREATE_NO_CPU_ACCESS (1 << 1)
#define AMDGPU_GEM_CREATE_CPU_GTT_USWC	(1 << 2)
#define AMDGPU_GEM_CREATE_VM_ALWAYS_VALID (1 << 6)

/* Memory of the program's own as a buffer. */
struct drm_amdgpu_gem_userptr {
	uint64_t addr;
	uint64_t size;
	uint32_t flags;
	uint32_t handle;
};

struct drm_syncobj_create {
	uint32_t handle;
	uint32_t flags;
};

struct drm_syncobj_timeline_array {
	uint64_t handles; /* of 32 bits each */
	uint64_t points;
	uint32_t count_handles;
	uint32_t flags;
};

#define AMDGPU_CTX_OP_ALLOC_CTX		1
#define AMDGPU_CTX_OP_FREE_CTX		2
#define AMDGPU_CTX_OP_QUERY_STATE	3
#define AMDGPU_CTX_OP_QUERY_STATE2	4
#define AMDGPU_CTX_OP_GET_STABLE_PSTATE 5
#define AMDGPU_CTX_OP_SET_STABLE_PSTATE 6

/* Of QUERY_STATE2: the GPU was reset since the context was made, with these consequences. */
#define AMDGPU_CTX_QUERY2_FLAGS_RESET	 (1 << 0)
#define AMDGPU_CTX_QUERY2_FLAGS_VRAMLOST (1 << 1)
#define AMDGPU_CTX_QUERY2_FLAGS_GUILTY	 (1 << 2)

#define AMD_CONTEXT_NUMBERS 4096 /* a file has no context of this number or above */

struct drm_amdgpu_ctx_in {
	uint32_t op;
	uint32_t flags;
	uint32_t ctx_id;
	int32_t priority;
};

union drm_amdgpu_ctx_out {
	struct {
		uint32_t ctx_id;
		uint32_t _pad;
	} alloc;
	struct {
		uint64_t flags;
		uint32_t hangs;
		uint32_t reset_status;
	} state;
	struct {
		uint32_t flags;
		uint32_t _pad;
	} pstate;
};

union drm_amdgpu_ctx {
	struct drm_amdgpu_ctx_in in;
	union drm_amdgpu_ctx_out out;
};

/* Work for the kernel's own rings. */
#define AMDGPU_HW_IP_DMA 2
#define AMD_RING_KINDS 10 /* kinds of rings */

#define AMDGPU_CHUNK_ID_IB	   0x01
#define AMDGPU_CHUNK_ID_BO_HANDLES 0x06

struct drm_amdgpu_cs_chunk {
	uint32_t chunk_id;
	uint32_t length_dw;
	uint64_t chunk_data;
};

struct drm_amdgpu_cs_chunk_ib {
	uint32_t _pad;
	uint32_t flags;
	uint64_t va_start;
	uint32_t ib_bytes;
	uint32_t ip_type;
	uint32_t ip_instance;
	uint32_t ring;
};

struct drm_amdgpu_bo_list_entry {
	uint32_t bo_handle;
	uint32_t bo_priority;
};

/* As a chunk: the list is of this submission. */
struct drm_amdgpu_bo_list_in {
	uint32_t operation;
	uint32_t list_handle;
	uint32_t bo_number;
	uint32_t bo_info_size;
	uint64_t bo_info_ptr;
};

struct drm_amdgpu_cs_in {
	uint32_t ctx_id;
	uint32_t bo_list_handle;
	uint32_t num_chunks;
	uint32_t flags;
	uint64_t chunks; /* addresses of addresses */
};

struct drm_amdgpu_cs_out {
	uint64_t handle;
};

union drm_amdgpu_cs {
	struct drm_amdgpu_cs_in in;
	struct drm_amdgpu_cs_out out;
};

struct drm_amdgpu_wait_cs_in {
	uint64_t handle;
	uint64_t timeout; /* CLOCK_MONOTONIC, in ns */
	uint32_t ip_type;
	uint32_t ip_instance;
	uint32_t ring;
	uint32_t ctx_id;
};

struct drm_amdgpu_wait_cs_out {
	uint64_t status; /* 0: it is done */
};

union drm_amdgpu_wait_cs {
	struct drm_amdgpu_wait_cs_in in;
	struct drm_amdgpu_wait_cs_out out;
};

#define AMDGPU_GEM_METADATA_OP_SET_METADATA 1
#define AMDGPU_GEM_METADATA_OP_GET_METADATA 2

struct drm_amdgpu_gem_metadata {
	uint32_t handle;
	uint32_t op;
	struct {
		uint64_t flags;
		uint64_t tiling_info;
		uint32_t data_size_bytes;
		uint32_t data[64];
	} data;
};

#define AMDGPU_VA_OP_MAP     1
#define AMDGPU_VA_OP_UNMAP   2
#define AMDGPU_VA_OP_CLEAR   3
#define AMDGPU_VA_OP_REPLACE 4

#define AMDGPU_VM_DELAY_UPDATE	  (1 << 0)
#define AMDGPU_VM_PAGE_READABLE	  (1 << 1)
#define AMDGPU_VM_PAGE_WRITEABLE  (1 << 2)
#define AMDGPU_VM_PAGE_EXECUTABLE (1 << 3)
#define AMDGPU_VM_PAGE_PRT	  (1 << 4) /* addresses without memory, which take no buffer */

struct drm_amdgpu_gem_va {
	uint32_t handle;
	uint32_t _pad;
	uint32_t operation;
	uint32_t flags;
	uint64_t va_address;
	uint64_t offset_in_bo;
	uint64_t map_size;
};

#define AMDGPU_GEM_OP_GET_GEM_CREATE_INFO 0
#define AMDGPU_GEM_OP_SET_PLACEMENT	  1
#define AMDGPU_GEM_OP_GET_MAPPING_INFO	  2

struct drm_amdgpu_gem_op {
	uint32_t handle;
	uint32_t op;
	uint64_t value;	      /* SET_PLACEMENT: domains; else where the answer goes */
	uint32_t num_entries; /* GET_MAPPING_INFO: how many fit, and how many there are */
	uint32_t padding;
};

/* For GET_MAPPING_INFO. */
struct drm_amdgpu_gem_vm_entry {
	uint64_t addr;
	uint64_t size;
	uint64_t offset;
	uint64_t flags;
};

#define AMDGPU_GEM_LIST_HANDLES_FLAG_IS_IMPORT (1 << 0)

struct drm_amdgpu_gem_list_handles {
	uint64_t entries;
	uint32_t num_entries; /* how many fit, and how many there are */
	uint32_t padding;
};

struct drm_amdgpu_gem_list_handles_entry {
	uint32_t gem_handle;
	uint32_t flags;
	uint64_t size;
	uint64_t preferred_domains;
	uint64_t alloc_flags;
	uint64_t alignment;
};

struct drm_gem_change_handle {
	uint32_t handle;
	uint32_t new_handle;
};

#define AMDGPU_INFO_ACCEL_WORKING  0x00
#define AMDGPU_INFO_HW_IP_INFO	   0x02
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
		struct {
			uint32_t type;
			uint32_t ip_instance;
		} query_hw_ip;
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

struct drm_amdgpu_info_hw_ip {
	uint32_t hw_ip_version_major;
	uint32_t hw_ip_version_minor;
	uint64_t capabilities_flags;
	uint32_t ib_start_alignment;
	uint32_t ib_size_alignment;
	uint32_t available_rings;
	uint32_t ip_discovery_version;
	uint32_t userq_num_slots; /* not in older ones */
};

#define AMDGPU_IDS_FLAGS_FUSION 0x1 /* one chip with the CPU */

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
	uint32_t vce_harvest_config;
	uint32_t gc_double_offchip_lds_buf;
	uint64_t prim_buf_gpu_addr;
	uint64_t pos_buf_gpu_addr;
	uint64_t cntl_sb_buf_gpu_addr;
	uint64_t param_buf_gpu_addr;
	uint32_t prim_buf_size;
	uint32_t pos_buf_size;
	uint32_t cntl_sb_buf_size;
	uint32_t param_buf_size;
	uint32_t wave_front_size;
	uint32_t num_shader_visible_vgprs;
	uint32_t num_cu_per_sh;
	uint32_t num_tcc_blocks;
	uint32_t gs_vgt_table_depth;
	uint32_t gs_prim_buffer_depth;
	uint32_t max_gs_waves_per_vgt;
	uint32_t pcie_num_lanes; /* padding in older ones */
	uint32_t cu_ao_bitmap[4][4];
	uint64_t high_va_offset;
	uint64_t high_va_max;
	uint32_t pa_sc_tile_steering_override;
	uint64_t tcc_disabled_mask; /* what follows is not in older ones */
	uint64_t min_engine_clock;
	uint64_t min_memory_clock;
	uint32_t tcp_cache_size;
	uint32_t num_sqc_per_wgp;
	uint32_t sqc_data_cache_size;
	uint32_t sqc_inst_cache_size;
	uint32_t gl1c_cache_size;
	uint32_t gl2c_cache_size;
	uint64_t mall_size;
	uint32_t enabled_rb_pipes_mask_hi;
	uint32_t shadow_size;
	uint32_t shadow_alignment;
	uint32_t csa_size;
	uint32_t csa_alignment;
	uint32_t userq_ip_mask;
};

#endif
