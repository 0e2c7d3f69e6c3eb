/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * The ioctls of /dev/kfd, as version 1.17 of the interface has them, in the kernel's own names: the
 * part of it that allot and its emulator use. tests/abi holds it to the kernel's header where that
 * is installed.
 *
 * Blocks grow at their end from version to version. A request carries the size that the caller
 * knows; the kernel takes as much, and reads zeros beyond it. So a request is told by its number
 * alone (KFD_IOCTL_NR), never by all of its bits.
 */
#ifndef ALLOT_AMD_ABI_KFD_H
#define ALLOT_AMD_ABI_KFD_H

#include <stdint.h>
#include <sys/ioctl.h>

#define KFD_IOCTL_MAJOR_VERSION 1
#define KFD_IOCTL_MINOR_VERSION 17

#define AMDKFD_IOCTL_BASE 'K'

struct kfd_ioctl_get_version_args {
	uint32_t major_version;
	uint32_t minor_version;
};

/* Queues */
#define KFD_IOC_QUEUE_TYPE_COMPUTE	  0x0
#define KFD_IOC_QUEUE_TYPE_SDMA		  0x1
#define KFD_IOC_QUEUE_TYPE_COMPUTE_AQL	  0x2
#define KFD_IOC_QUEUE_TYPE_SDMA_XGMI	  0x3
#define KFD_IOC_QUEUE_TYPE_SDMA_BY_ENG_ID 0x4

#define KFD_MAX_QUEUE_PERCENTAGE 100
#define KFD_MAX_QUEUE_PRIORITY	 15

struct kfd_ioctl_create_queue_args {
	uint64_t ring_base_address;
	uint64_t write_pointer_address;
	uint64_t read_pointer_address;
	uint64_t doorbell_offset; /* answered */
	uint32_t ring_size;
	uint32_t gpu_id;
	uint32_t queue_type;
	uint32_t queue_percentage; /* bits 0-7: 0 keeps it off the hardware; bits 8-15: an XCC */
	uint32_t queue_priority;
	uint32_t queue_id; /* answered */
	uint64_t eop_buffer_address;
	uint64_t eop_buffer_size;
	uint64_t ctx_save_restore_address;
	uint32_t ctx_save_restore_size;
	uint32_t ctl_stack_size;
	uint32_t sdma_engine_id;     /* the first of those that 1.16 does not have */
	uint32_t metadata_ring_size; /* padding before 1.22 */
};

struct kfd_ioctl_destroy_queue_args {
	uint32_t queue_id;
	uint32_t pad;
};

struct kfd_ioctl_update_queue_args {
	uint64_t ring_base_address;
	uint32_t queue_id;
	uint32_t ring_size;
	uint32_t queue_percentage;
	uint32_t queue_priority;
};

struct kfd_ioctl_set_cu_mask_args {
	uint32_t queue_id;
	uint32_t num_cu_mask; /* bits, a multiple of 32 */
	uint64_t cu_mask_ptr;
};

struct kfd_ioctl_get_queue_wave_state_args {
	uint64_t ctl_stack_address;
	uint32_t ctl_stack_used_size;
	uint32_t save_area_used_size;
	uint32_t queue_id;
	uint32_t pad;
};

struct kfd_ioctl_alloc_queue_gws_args {
	uint32_t queue_id;
	uint32_t num_gws;
	uint32_t first_gws;
	uint32_t pad;
};

/* What a GPU is, and how the process's address space lies on it */
#define KFD_IOC_CACHE_POLICY_COHERENT 0

struct kfd_ioctl_set_memory_policy_args {
	uint64_t alternate_aperture_base;
	uint64_t alternate_aperture_size;
	uint32_t gpu_id;
	uint32_t default_policy;
	uint32_t alternate_policy;
	uint32_t misc_process_flag; /* padding before 1.18 */
};

struct kfd_ioctl_get_clock_counters_args {
	uint64_t gpu_clock_counter;
	uint64_t cpu_clock_counter;
	uint64_t system_clock_counter;
	uint64_t system_clock_freq;
	uint32_t gpu_id;
	uint32_t pad;
};

/* Limits are the last address. */
struct kfd_process_device_apertures {
	uint64_t lds_base;
	uint64_t lds_limit;
	uint64_t scratch_base;
	uint64_t scratch_limit;
	uint64_t gpuvm_base;
	uint64_t gpuvm_limit;
	uint32_t gpu_id;
	uint32_t pad;
};

#define NUM_OF_SUPPORTED_GPUS 7

struct kfd_ioctl_get_process_apertures_args {
	struct kfd_process_device_apertures process_apertures[NUM_OF_SUPPORTED_GPUS];
	uint32_t num_of_nodes;
	uint32_t pad;
};

/* With 0 for num_of_nodes it answers how many there are, and writes none. */
struct kfd_ioctl_get_process_apertures_new_args {
	uint64_t kfd_process_device_apertures_ptr;
	uint32_t num_of_nodes;
	uint32_t pad;
};

struct kfd_ioctl_acquire_vm_args {
	uint32_t drm_fd;
	uint32_t gpu_id;
};

struct kfd_ioctl_set_scratch_backing_va_args {
	uint64_t va_addr;
	uint32_t gpu_id;
	uint32_t pad;
};

struct kfd_ioctl_set_trap_handler_args {
	uint64_t tba_addr;
	uint64_t tma_addr;
	uint32_t gpu_id;
	uint32_t pad;
};

struct kfd_ioctl_get_tile_config_args {
	uint64_t tile_config_ptr;
	uint64_t macro_tile_config_ptr;
	uint32_t num_tile_configs;
	uint32_t num_macro_tile_configs;
	uint32_t gpu_id;
	uint32_t gb_addr_config;
	uint32_t num_banks;
	uint32_t num_ranks;
};

struct kfd_ioctl_set_xnack_mode_args {
	int32_t xnack_enabled; /* negative: leave it, and answer what it is */
};

struct kfd_ioctl_runtime_enable_args {
	uint64_t r_debug;
	uint32_t mode_mask;
	uint32_t capabilities_mask;
};

/* Memory */
#define KFD_IOC_ALLOC_MEM_FLAGS_VRAM	      (1u << 0)
#define KFD_IOC_ALLOC_MEM_FLAGS_GTT	      (1u << 1)
#define KFD_IOC_ALLOC_MEM_FLAGS_USERPTR	      (1u << 2)
#define KFD_IOC_ALLOC_MEM_FLAGS_DOORBELL      (1u << 3)
#define KFD_IOC_ALLOC_MEM_FLAGS_MMIO_REMAP    (1u << 4)
#define KFD_IOC_ALLOC_MEM_FLAGS_UNCACHED      (1u << 25)
#define KFD_IOC_ALLOC_MEM_FLAGS_COHERENT      (1u << 26)
#define KFD_IOC_ALLOC_MEM_FLAGS_AQL_QUEUE_MEM (1u << 27) /* twice the addresses of its memory */
#define KFD_IOC_ALLOC_MEM_FLAGS_NO_SUBSTITUTE (1u << 28)
#define KFD_IOC_ALLOC_MEM_FLAGS_PUBLIC	      (1u << 29)
#define KFD_IOC_ALLOC_MEM_FLAGS_EXECUTABLE    (1u << 30)
#define KFD_IOC_ALLOC_MEM_FLAGS_WRITABLE      (1u << 31)

struct kfd_ioctl_alloc_memory_of_gpu_args {
	uint64_t va_addr;
	uint64_t size;
	uint64_t handle;      /* answered: the GPU's id in the upper half */
	uint64_t mmap_offset; /* answered, of the render node; for USERPTR the CPU's address */
	uint32_t gpu_id;
	uint32_t flags;
};

struct kfd_ioctl_free_memory_of_gpu_args {
	uint64_t handle;
};

/* n_success goes both ways: how many of the ids are done, from the first on. */
struct kfd_ioctl_map_memory_to_gpu_args {
	uint64_t handle;
	uint64_t device_ids_array_ptr;
	uint32_t n_devices;
	uint32_t n_success;
};

struct kfd_ioctl_unmap_memory_from_gpu_args {
	uint64_t handle;
	uint64_t device_ids_array_ptr;
	uint32_t n_devices;
	uint32_t n_success;
};

struct kfd_ioctl_get_available_memory_args {
	uint64_t available;
	uint32_t gpu_id;
	uint32_t pad;
};

struct kfd_ioctl_get_dmabuf_info_args {
	uint64_t size;
	uint64_t metadata_ptr;
	uint32_t metadata_size;
	uint32_t gpu_id;
	uint32_t flags;
	uint32_t dmabuf_fd;
};

struct kfd_ioctl_import_dmabuf_args {
	uint64_t va_addr;
	uint64_t handle;
	uint32_t gpu_id;
	uint32_t dmabuf_fd;
};

struct kfd_ioctl_export_dmabuf_args {
	uint64_t handle;
	uint32_t flags;
	uint32_t dmabuf_fd;
};

enum kfd_ioctl_svm_op {
	KFD_IOCTL_SVM_OP_SET_ATTR,
	KFD_IOCTL_SVM_OP_GET_ATTR,
};

enum kfd_ioctl_svm_attr_type {
	KFD_IOCTL_SVM_ATTR_PREFERRED_LOC,
	KFD_IOCTL_SVM_ATTR_PREFETCH_LOC, /* moves the memory at once */
	KFD_IOCTL_SVM_ATTR_ACCESS,
	KFD_IOCTL_SVM_ATTR_ACCESS_IN_PLACE,
	KFD_IOCTL_SVM_ATTR_NO_ACCESS,
	KFD_IOCTL_SVM_ATTR_SET_FLAGS,
	KFD_IOCTL_SVM_ATTR_CLR_FLAGS,
	KFD_IOCTL_SVM_ATTR_GRANULARITY,
};

struct kfd_ioctl_svm_attribute {
	uint32_t type;
	uint32_t value;
};

/* The request's size is of this and of `nattr` attributes. */
struct kfd_ioctl_svm_args {
	uint64_t start_addr;
	uint64_t size;
	uint32_t op;
	uint32_t nattr;
	struct kfd_ioctl_svm_attribute attrs[];
};

/* Events */
#define KFD_IOC_EVENT_SIGNAL	   0
#define KFD_IOC_EVENT_HW_EXCEPTION 3
#define KFD_IOC_EVENT_DEBUG_EVENT  5
#define KFD_IOC_EVENT_MEMORY	   8

#define KFD_IOC_WAIT_RESULT_COMPLETE 0
#define KFD_IOC_WAIT_RESULT_TIMEOUT  1
#define KFD_IOC_WAIT_RESULT_FAIL     2

#define KFD_SIGNAL_EVENT_LIMIT 4096

struct kfd_ioctl_create_event_args {
	uint64_t event_page_offset; /* in: the handle of memory for the page; answered: mmap's */
	uint32_t event_trigger_data;
	uint32_t event_type;
	uint32_t auto_reset;
	uint32_t node_id;
	uint32_t event_id;
	uint32_t event_slot_index;
};

struct kfd_ioctl_destroy_event_args {
	uint32_t event_id;
	uint32_t pad;
};

struct kfd_ioctl_set_event_args {
	uint32_t event_id;
	uint32_t pad;
};

struct kfd_ioctl_reset_event_args {
	uint32_t event_id;
	uint32_t pad;
};

struct kfd_memory_exception_failure {
	uint32_t NotPresent;
	uint32_t ReadOnly;
	uint32_t NoExecute;
	uint32_t imprecise;
};

struct kfd_hsa_memory_exception_data {
	struct kfd_memory_exception_failure failure;
	uint64_t va;
	uint32_t gpu_id;
	uint32_t ErrorType;
};

struct kfd_hsa_hw_exception_data {
	uint32_t reset_type;
	uint32_t reset_cause;
	uint32_t memory_lost;
	uint32_t gpu_id;
};

struct kfd_hsa_signal_event_data {
	uint64_t last_event_age; /* that the caller knows, and what it is now; from 1.14 on */
};

struct kfd_event_data {
	union {
		struct kfd_hsa_memory_exception_data memory_exception_data;
		struct kfd_hsa_hw_exception_data hw_exception_data;
		struct kfd_hsa_signal_event_data signal_event_data;
	};
	uint64_t kfd_event_data_ext;
	uint32_t event_id;
	uint32_t pad;
};

struct kfd_ioctl_wait_events_args {
	uint64_t events_ptr;
	uint32_t num_events;
	uint32_t wait_for_all;
	uint32_t timeout; /* ms; all ones: for ever */
	uint32_t wait_result;
};

struct kfd_ioctl_smi_events_args {
	uint32_t gpuid;
	uint32_t anon_fd;
};

/* Checkpoint */
enum kfd_criu_op {
	KFD_CRIU_OP_PROCESS_INFO,
	KFD_CRIU_OP_CHECKPOINT,
	KFD_CRIU_OP_UNPAUSE,
	KFD_CRIU_OP_RESTORE,
	KFD_CRIU_OP_RESUME,
};

struct kfd_ioctl_criu_args {
	uint64_t devices;
	uint64_t bos;
	uint64_t priv_data;
	uint64_t priv_data_size;
	uint32_t num_devices;
	uint32_t num_bos;
	uint32_t num_objects;
	uint32_t pid;
	uint32_t op;
};

/* The process's own name of a GPU comes first: after a restore on another one they differ. */
struct kfd_criu_device_bucket {
	uint32_t user_gpu_id;
	uint32_t actual_gpu_id;
	uint32_t drm_fd; /* to RESTORE */
	uint32_t pad;
};

#define KFD_INVALID_FD 0xffffffff /* of memory without content of its own */

struct kfd_criu_bo_bucket {
	uint64_t addr;
	uint64_t size;
	uint64_t offset;
	uint64_t restored_offset; /* RESTORE's answer: where the CPU maps it now */
	uint32_t gpu_id;	  /* the process's name */
	uint32_t alloc_flags;
	uint32_t dmabuf_fd; /* answered: the caller's to close */
	uint32_t pad;
};

#endif
