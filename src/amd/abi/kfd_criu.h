/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * The private data of KFD's checkpoints, version 1, in our own words: what CRIU_OP's CHECKPOINT
 * writes beside its buckets, and RESTORE reads. The kernel does not promise this layout to
 * programs. It is the head, a word for each device, buffers, and objects, each of which begins with
 * its type.
 *
 * The emulator writes and reads all of it. allot looks at the buffers alone, and only where the
 * version is this one: nothing else says on which GPUs a buffer is mapped, and by which handle the
 * process knows it.
 */
#ifndef ALLOT_AMD_ABI_KFD_CRIU_H
#define ALLOT_AMD_ABI_KFD_CRIU_H

#include <stdint.h>

#include "amd/abi/kfd.h"

#define KFD_CRIU_PRIV_VERSION 1
#define KFD_CRIU_GPUS	      64

struct kfd_criu_process_priv {
	uint32_t version;
	uint32_t xnack_mode;
};

struct kfd_criu_device_priv {
	uint64_t reserved;
};

struct kfd_criu_bo_priv {
	uint64_t user_addr; /* of USERPTR */
	uint32_t idr_handle;
	uint32_t mapped_gpuids[KFD_CRIU_GPUS]; /* ends with 0 */
};

enum kfd_criu_object_type {
	KFD_CRIU_OBJECT_TYPE_QUEUE,
	KFD_CRIU_OBJECT_TYPE_EVENT,
	KFD_CRIU_OBJECT_TYPE_SVM_RANGE,
};

/* Behind it come as many bytes of hardware state as its last two members say. */
struct kfd_criu_queue_priv {
	uint32_t object_type;
	uint64_t q_address, q_size;
	uint64_t read_ptr_addr, write_ptr_addr;
	uint64_t doorbell_off;
	uint64_t eop_ring_buffer_address;
	uint64_t ctx_save_restore_area_address;
	uint32_t gpu_id;
	uint32_t type, format;
	uint32_t q_id;
	uint32_t priority, q_percent;
	uint32_t doorbell_id;
	uint32_t gws;
	uint32_t sdma_id;
	uint32_t eop_ring_buffer_size;
	uint32_t ctx_save_restore_area_size;
	uint32_t ctl_stack_size;
	uint32_t mqd_size;
};

struct kfd_criu_event_priv {
	uint32_t object_type;
	uint64_t user_handle;
	uint32_t event_id;
	uint32_t auto_reset;
	uint32_t type;
	uint32_t signaled;
	union {
		struct kfd_hsa_memory_exception_data memory_exception_data;
		struct kfd_hsa_hw_exception_data hw_exception_data;
	};
};

_Static_assert(sizeof(struct kfd_criu_bo_priv) == 272, "as the kernel has it");

#endif
